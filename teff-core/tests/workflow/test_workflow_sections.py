"""State, hooks, checkpoint and the other sections of a workflow file."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

import teff
from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, StateError
from teff.messages import ModelUsage
from teff.provider import ChatReply
from teff.testing import ScriptedProvider
from teff.workflow import load, loads

NOW = "steps: [transform: {action: now, output_key: at}]\n"


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loads(text)
    return str(caught.value)


# State.


def test_a_schema_has_types_reducers_and_defaults():
    workflow = loads("""
state:
  schema:
    input: text
    log: append
    count: {type: integer, default: 3}
    at: {type: text, description: when it began}
steps:
  - transform: {action: render, template: "{count}", output_key: log}
  - transform: {action: now, output_key: at}
""")
    assert workflow.graph.reducers == {"log": "append"}
    result = asyncio.run(workflow.run("hi"))
    assert (result["log"], result["count"]) == (["3"], 3)
    assert "messages" not in result


def test_a_message_needs_a_place_in_a_state_with_a_schema():
    workflow = loads("state: {schema: {at: text}}\n" + NOW)
    with pytest.raises(ConfigError, match="declares neither 'messages' nor 'input'"):
        workflow.start("hi")
    off = loads("state: {schema: {at: text}, validate: off}\n" + NOW)
    assert off.start("hi")["input"] == "hi"


def test_an_update_that_does_not_fit_fails_the_node_unless_it_is_off():
    text = "state: {schema: {at: integer}%s}\n" + NOW
    with pytest.raises(StateError, match="'at' must be a whole number"):
        asyncio.run(loads(text % "").run())
    assert asyncio.run(loads(text % ", validate: off").run())["at"]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("state: {schema: {n: {type: intger}}}\n", "1:18", "unknown type 'intger'"),
        ("state: {schema: {n: {typ: integer}}}\n", "1:22", "unknown key 'typ'. Did you mean 'type'?"),
        ("state: {schema: {n: {type: integer, default: x}}}\n", "1:18", "the default of state key 'n'"),
        ("state: {schema: {n: integer}, validate: loud}\n", "1:31", "'off', 'warn' or 'error'"),
        ("state: {validate: error}\n", "1:9", "'validate' needs a 'schema'"),
        ("state: {schema: {n: integer}, initial: {n: x}}\n", "1:41", "the initial value of 'n' must be a whole number"),
        ("state: {schema: {n: integer}, initial: {nn: 1}}\n", "1:41", "'nn' is not declared in the state schema. Did you mean 'n'?"),
        ("state: {schema: [n]}\n", "1:9", "'schema' must be a mapping"),
    ],
)  # fmt: skip
def test_a_wrong_state_section_has_its_place(text, place, words):
    message = refused(text + NOW)
    assert words in message
    assert message.startswith(f"<text>:{place}: ")


# Hooks.


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "watching_hooks.py").write_text(
        "told = []\n"
        "def started(node_id, node, state): told.append(('start', node_id))\n"
        "async def ended(node_id, node, state, result): told.append(('end', node_id))\n"
        "class audit:\n"
        "    @staticmethod\n"
        "    def ended(node_id, node, state, result): told.append(('audit', node_id))\n"
        "    word = 'x'\n"
    )
    (tmp_path / "broken_hooks.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("watching_hooks", "broken_hooks"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "watching_hooks"


def test_hooks_are_told_of_nodes(module):
    workflow = loads(
        "hooks:\n  on_node_start: watching_hooks:started\n"
        "  on_node_end: ['watching_hooks:ended', 'watching_hooks:audit.ended']\n"
        "steps: [transform: {action: now, output_key: at, id: n}]\n"
    )
    own: list[str] = []
    asyncio.run(workflow.run(hooks={"on_node_end": lambda *given: own.append(given[0])}))
    told = sys.modules[module].told
    assert told == [("start", "n"), ("end", "n"), ("audit", "n")]
    assert own == ["n"]
    del sys.modules[module]


@pytest.mark.usefixtures("module")
def test_d61_loading_and_checking_import_no_hook():
    workflow = loads("hooks: {on_node_start: 'broken_hooks:f'}\n" + NOW)
    assert workflow.check() == []
    assert dict(workflow.hooks.references) == {"on_node_start": ["broken_hooks:f"]}
    for _ in range(2):  # what is broken stays broken
        with pytest.raises(
            ConfigError, match="'broken_hooks' cannot be imported: RuntimeError: no"
        ):
            asyncio.run(workflow.run())


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("nowhere_at_all:f", "there is no module 'nowhere_at_all'. Install it"),
        ("watching_hooks:f", "'watching_hooks' has no 'f'"),
        ("watching_hooks:audit.word", "is no function"),
    ],
)
@pytest.mark.usefixtures("module")
def test_a_hook_that_is_not_there_has_its_place(reference, words):
    workflow = loads(f"hooks:\n  on_node_start: {reference}\n" + NOW)
    with pytest.raises(ConfigError, match=words) as caught:
        asyncio.run(workflow.run())
    assert caught.value.line == 2
    sys.modules.pop("watching_hooks", None)


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ("{on_start: 'a:b'}", "hooks: unknown key 'on_start'. Did you mean 'on_node_start'?"),
        ("{on_node_start: print}", "'print' names no function. Write `module:function`"),
        ("{on_node_start: [a]}", "'a' names no function"),
        ("[a]", "'hooks' must be a mapping"),
    ],
)
def test_d56_wrong_hooks_are_refused(hooks, words):
    assert words in refused(f"hooks: {hooks}\n" + NOW)


# Checkpoint.


@attrs.define(kw_only=True)
class FileStore(MemoryCheckpointer):
    """A store as a plugin brings it."""

    path: str
    keep_days: int = 7

    def __attrs_post_init__(self) -> None:
        MemoryCheckpointer.__init__(self)


class PlainStore(MemoryCheckpointer):
    """A store whose options are the parameters of its constructor."""

    def __init__(self, dsn: str, *, table: str = "runs") -> None:
        super().__init__()
        self.dsn, self.table = dsn, table


@pytest.fixture(autouse=True)
def stores(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = teff.plugins.catalogue()._objects
    monkeypatch.setitem(objects, ("teff.checkpointers", "filed"), FileStore)
    monkeypatch.setitem(objects, ("teff.checkpointers", "plain"), PlainStore)


ASK = "steps: [interrupt: {key: answer, choices: [yes, no]}]\n"


def test_a_run_with_an_id_is_recorded_where_the_file_says():
    workflow = loads("checkpoint: {type: memory}\n" + ASK)
    with pytest.raises(GraphInterrupt):
        asyncio.run(workflow.run(checkpoint_id="r"))
    assert asyncio.run(workflow.run(checkpoint_id="r", resume="yes"))["answer"] == "yes"
    assert workflow.checkpointer is workflow.checkpointer


def test_without_a_checkpoint_there_is_none():
    assert loads(NOW).checkpointer is None


def test_without_a_type_it_is_an_sqlite_file(tmp_path):
    (tmp_path / "flow.yaml").write_text("checkpoint: {path: mine.db, lease_ttl: 5}\n" + ASK)
    workflow = load(tmp_path / "flow.yaml")
    with closing(workflow.checkpointer):
        with pytest.raises(GraphInterrupt):
            asyncio.run(workflow.run(checkpoint_id="r"))
        assert asyncio.run(workflow.run(checkpoint_id="r", resume="yes"))["answer"] == "yes"
    assert (tmp_path / "mine.db").is_file()


def test_without_a_path_it_is_in_a_folder_of_its_own_beside_the_file(tmp_path):
    (tmp_path / "flow.yaml").write_text("checkpoint: {}\n" + ASK)
    workflow = load(tmp_path / "flow.yaml")
    assert not (tmp_path / ".teff").exists()
    with closing(workflow.checkpointer), pytest.raises(GraphInterrupt):
        asyncio.run(workflow.run(checkpoint_id="r"))
    assert (tmp_path / ".teff" / "runs.db").is_file()
    assert (tmp_path / ".teff" / ".gitignore").read_text() == "*\n"


def test_a_recorded_run_goes_on_without_its_message_and_knows_its_file(tmp_path):
    (tmp_path / "flow.yaml").write_text("checkpoint: {}\nstate: {initial: {n: 1}}\n" + ASK)
    workflow = load(tmp_path / "flow.yaml")
    with closing(workflow.checkpointer):
        with pytest.raises(GraphInterrupt):
            asyncio.run(workflow.run("hello", checkpoint_id="r", about={"model": "m"}))
        with pytest.raises(GraphInterrupt) as again:
            asyncio.run(workflow.run(checkpoint_id="r"))
        assert again.value.result["input"] == "hello"
        (start, *_) = asyncio.run(workflow.checkpointer.load("r"))
    assert start.data["about"] == {"workflow": workflow.origin, "model": "m"}
    assert workflow.origin["path"] == str(tmp_path / "flow.yaml")


def test_the_path_of_a_checkpoint_starts_from_the_folder_of_its_file(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "flow.yaml").write_text("include: sub/store.yaml\n" + NOW)
    (tmp_path / "sub" / "store.yaml").write_text("checkpoint: {type: filed, path: runs.db}\n")
    store = load(tmp_path / "flow.yaml").checkpointer
    assert isinstance(store, FileStore)
    assert Path(store.path) == tmp_path / "sub" / "runs.db"


def test_d74_references_in_a_checkpoint_are_filled_in(tmp_path):
    store = loads(
        "checkpoint: {type: plain, dsn: '${DSN}', table: 0123}\n" + NOW,
        environment={"DSN": "db://x"},
    ).checkpointer
    assert isinstance(store, PlainStore)
    assert (store.dsn, store.table) == ("db://x", "0123")


@pytest.mark.parametrize(
    ("checkpoint", "place", "words"),
    [
        ("{pth: x}", "1:14", "checkpoint 'sqlite': unknown option 'pth'. Did you mean 'path'?"),
        ("{type: sqlte}", "1:14", "'sqlte'"),
        ("{type: memory, path: x}", "1:28", "unknown option 'path'"),
        ("{type: filed}", "1:1", "the option 'path' is missing"),
        ("{type: filed, path: x, keep_days: many}", "1:36", "'keep_days' must be a whole number"),
        (
            "memory",
            "1:1",
            "'checkpoint' must be a mapping, not text. Write `checkpoint: {type: memory}`.",
        ),
    ],
)
def test_d56_a_wrong_checkpoint_is_refused(checkpoint, place, words):
    message = refused(f"checkpoint: {checkpoint}\n" + NOW)
    assert words in message
    assert message.startswith(f"<text>:{place}: ")


# What is not supported.


@pytest.mark.parametrize("key", ["plugins", "plugins_folder", "observability", "channels"])
def test_what_is_not_supported_is_refused_with_the_way_out(key):
    message = refused(f"{key}: x\n" + NOW)
    assert message.startswith(f"<text>:1:1: the key {key!r} is not supported. ")
    assert "remove" in message


# Defects of other projects, by their numbers.


@pytest.mark.parametrize(
    "name", ["key", "self", "finish_it", "a>b", "a, b", "x = y", "QA", "qa", "two words", "не"]
)
def test_d14_an_agent_of_any_name_is_reached(name):
    text = f"""
steps:
  - transform: {{action: coalesce, input_key: chosen, value: {name!r}, output_key: next_agent}}
  - supervise:
      agents:
        other: {{transform: {{action: value, value: other, output_key: chosen}}}}
        {name!r}: {{transform: {{action: value, value: finish, output_key: chosen}}}}
      finish: {{transform: {{action: value, value: 1, output_key: ended}}}}
"""
    assert asyncio.run(loads(text).run())["ended"] == 1


@pytest.mark.parametrize(
    "step",
    [
        "team: {max_rounds: 0, roles: {a: {system: x}}}",
        "loop: {key: a, until: b, max_rounds: 0, body: {transform: {action: now}}}",
        "gate: {max_rounds: x}",
        "supervisor: {agents: [a], max_rounds: many}",
    ],
)
def test_d15_rounds_that_make_no_sense_are_refused(step):
    assert "max_rounds" in refused(f"steps:\n  - {step}\n")


@pytest.mark.parametrize(
    "text",
    [
        "stepz: []\n" + NOW,
        "steps: [transform: {acton: now}]",
        "steps: [llm: {prompt: x, max_retry: 3}]",
        "steps: [llm: {prompt: x}, wen: x]",
        "tools: [{name: fetch_url, config: {alow: x}}]\n" + NOW,
        "state: {initail: {}}\n" + NOW,
        "hooks: {on_nod_start: 'a:b'}\n" + NOW,
        "limits: {max_stepz: 1}\n" + NOW,
        "include: {pth: x}\n" + NOW,
        "steps: [{id: a, type: transform, cfg: {}}]",
        "steps: [{id: a, type: transform, config: {action: now}}]\nedges: [{from: a, too: a}]",
    ],
)
def test_d56_unknown_keys_are_refused_at_every_level(text):
    assert "unknown" in refused(text)


def test_d59_words_of_yaml_1_1_stay_words_in_a_loop():
    text = """
steps:
  - loop:
      key: ok
      until: yes
      max_rounds: 5
      body: {transform: {action: coalesce, input_key: word, value: no, output_key: ok}}
"""
    assert asyncio.run(loads(text).run(None, {"word": "yes"}))["ok"] == "yes"


def test_d64_json_in_a_prompt_stays_and_a_width_is_no_format():
    text = """
steps:
  - transform: {action: render, template: '{"a": {"b": 1}} {x:999999999}', output_key: out}
"""
    assert asyncio.run(loads(text).run())["out"] == '{"a": {"b": 1}} {x:999999999}'


def test_yml_04_a_step_with_two_prompts_names_both_lines():
    message = refused("steps:\n  - llm:\n      prompt: a\n      prompt: b\n")
    assert "line 3" in message
    assert "line 4" in message


def test_yml_05_a_few_anchors_are_fine_in_steps():
    text = (
        "steps:\n  - transform: &now {action: now, output_key: at}\n"
        "  - transform: *now\n  - transform: {<<: *now, output_key: then}\n"
    )
    assert len(loads(text).graph.nodes) == 3


def test_yml_07_a_number_from_the_environment_counts_as_one():
    text = "steps:\n  - gate: {max_rounds: '${N}'}\n"
    gate = loads(text, environment={"N": "3"}).graph.nodes["gate_1"]
    assert gate.config["max_rounds"] == 3


@pytest.mark.parametrize(
    ("prompt", "words"),
    [("{topic}", 'As text, write "{topic}".'), ("#1 first", "'#1' begins a comment")],
)
@pytest.mark.parametrize("idiom", ["llm", "interrupt"])
def test_yml_09_a_text_without_quotes_is_reported_as_such(prompt, words, idiom):
    assert words in refused(f"steps:\n  - {idiom}:\n      prompt: {prompt}\n")


def test_prices_of_a_file_give_the_usage_a_cost() -> None:
    text = """\
default_provider: scripted
default_model: m
prices:
  m: {prompt: 1000000, completion: 2000000}
limits: {max_cost: 4}
steps:
  - llm: {prompt: Hi}
  - llm: {prompt: Hi}
  - llm: {prompt: Hi}
"""
    model = ScriptedProvider(
        [ChatReply(text="ok", usage=ModelUsage(prompt_tokens=1, completion_tokens=1))] * 3
    )
    result = asyncio.run(loads(text).run(providers={"scripted": model}))
    assert (result.usage.cost, result.stop_reason) == (6.0, "max_cost")
    with pytest.raises(ConfigError, match="completion") as caught:
        loads(text.replace("completion: 2000000", "completion: -1"))
    assert caught.value.line == 4


def test_a_chat_with_a_workflow_has_its_state_its_tools_and_its_checkpoint() -> None:
    text = """\
default_provider: scripted
default_model: m
checkpoint: {type: memory}
state: {initial: {tone: kind}}
steps:
  - llm: {messages_key: messages, append_reply: true, system: "Be {tone}."}
"""
    workflow = loads(text)
    model = ScriptedProvider(["Hello.", "Still here."])
    options: Any = {"checkpoint_id": "ada", "providers": {"scripted": model}}
    first = asyncio.run(workflow.turn("Hi", **options))
    second = asyncio.run(workflow.turn("And now?", **options))
    assert (first.reply, second.reply) == ("Hello.", "Still here.")
    assert [m["content"] for m in second.state["messages"]] == [
        "Hi",
        "Hello.",
        "And now?",
        "Still here.",
    ]
    assert "Be kind." in str(model.requests[1].messages)
    with pytest.raises(ConfigError, match="checkpointer"):
        asyncio.run(loads(text.replace("checkpoint: {type: memory}\n", "")).turn("Hi", **options))
