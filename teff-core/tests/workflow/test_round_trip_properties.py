"""A flow, written out and read again, is the same graph."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teff.errors import ConfigError
from teff.flow import AgentRole, Case, Flow, agent_step
from teff.graph import Edge, Graph
from teff.node import (
    Ask,
    Extract,
    Gate,
    Loop,
    Map,
    Parallel,
    Retry,
    ToolCall,
    Transform,
    Validate,
    make_function_node,
)
from teff.runtime import Limits
from teff.workflow import loads

KEYS = st.sampled_from(["a", "b", "c.d", "items"])
#: Texts that YAML readers are known to trip over, and any other.
TEXTS = st.sampled_from(
    [
        "yes",
        "No",
        "null",
        "0123",
        "1.10",
        "10:30",
        "0o17",
        "- x",
        "a: b",
        "# no comment",
        "{key}",
        "{{key}}",
        '{"a": 1}',
        "${HOME}",
        "$${HOME}",
        "",
        " edge ",
        "two\nlines\n",
        "\n lead",
        "tab\there",
        "é ☃ 😀",
        "'quoted'",
        '"quoted"',
        "%tag",
        "@at",
        "back\\slash",
        "\x85\u2028",
    ]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.none() | st.booleans() | st.integers(-5, 5) | TEXTS
WORDS = st.sampled_from(["yes", "go on", "a,b", "not", "x"])

Build = Callable[[Flow], object]


def transforms() -> st.SearchStrategy[Transform]:
    return st.builds(
        lambda value, output: Transform(action="value", value=value, output_key=output),
        VALUES.filter(lambda value: value is not None),
        st.sampled_from(["a", "b"]),
    )


def mapped(node: Any) -> Map:
    (result, *_) = sorted(node.writes() or ["a"])
    return Map(node, input_keys="items", output_key="out", result_key=result)


def nodes() -> st.SearchStrategy[Any]:
    leaves = transforms() | st.builds(
        lambda key, n: Gate(input_key=key, max_rounds=n), KEYS, st.integers(1, 5)
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(
                lambda branches: Parallel(branches),
                st.lists(st.lists(inner, min_size=1, max_size=2), min_size=1, max_size=3),
            )
            | st.builds(mapped, inner)
            | st.builds(
                lambda body, until, n: Loop(body, key="a", until=until, max_rounds=n),
                st.lists(inner, min_size=1, max_size=2),
                WORDS,
                st.integers(1, 3),
            )
            | st.builds(
                lambda node, n: Retry(node, max_retries=n, retry_on=["ValueError"]),
                inner,
                st.integers(1, 3),
            )
        ),
        max_leaves=4,
    )


def steps() -> st.SearchStrategy[Build]:
    return st.one_of(
        st.builds(lambda node: lambda flow: flow.step(node), nodes()),
        st.builds(
            lambda prompt, system: lambda flow: flow.llm(prompt=prompt, system=system),
            TEXTS.filter(lambda text: "{" not in text),
            TEXTS.filter(lambda text: "{" not in text),
        ),
        st.builds(
            lambda prompt: lambda flow: flow.interrupt("a", prompt, choices=["yes", "no"]),
            TEXTS.filter(lambda text: "{" not in text),
        ),
        st.builds(
            lambda word, value: (
                lambda flow: flow.ask(
                    "a", "?", any_of=[word, value], pass_value="go", fail_value="stop"
                )
            ),
            WORDS,
            WORDS,
        ),
        st.builds(
            lambda word, one, other: (
                lambda flow: flow.branch(
                    "a", Case(word).add(one), Case(3).add(other), default=Transform(action="now")
                )
            ),
            WORDS,
            nodes(),
            nodes(),
        ),
        st.builds(
            lambda word, body, done: (
                lambda flow: flow.transform(action="now").loop("a", word, done, body)
            ),
            WORDS,
            nodes(),
            nodes(),
        ),
        st.builds(
            lambda text: lambda flow: flow.step(agent_step(text, "answer")),
            TEXTS.filter(lambda text: "{" not in text),
        ),
        st.builds(
            lambda word, one, other: lambda flow: flow.step(one, when=f"a={word!r}").default(other),
            WORDS,
            nodes(),
            nodes(),
        ),
        st.builds(
            lambda name, agent, done: (
                lambda flow: flow.transform(action="value", value="x", output_key="next").route(
                    "next", agents={name: agent}, finish=done
                )
            ),
            st.sampled_from(["self", "a,b", "c++", "go on"]),
            nodes(),
            nodes(),
        ),
        st.builds(
            lambda body, done: (
                lambda flow: flow.interrupt_loop(
                    f"answer {len(flow.nodes)}",
                    accept=Ask(
                        equals="yes", pass_value="go", fail_value="no", clarify_value="what"
                    ),
                    body=body,
                    done=done,
                )
            ),
            nodes(),
            nodes(),
        ),
        st.builds(
            lambda value: (
                lambda flow: flow.extract(
                    Extract.model(
                        schema={"a": "string", "b": ["integer"]}, id=f"extract {len(flow.nodes)}"
                    ).fallback("a", value=value)
                )
            ),
            TEXTS.filter(lambda text: text and "{" not in text),
        ),
        st.builds(
            lambda value, max_chars: (
                lambda flow: flow.step(
                    ToolCall(
                        "fetch_url",
                        args={"url": value, "n": [1, {"k": "{a}"}]},
                        max_chars=max_chars,
                    )
                )
            ),
            TEXTS.filter(lambda text: "{" not in text),
            st.none() | st.integers(1, 9),
        ),
        st.builds(
            lambda inner, bound: (
                lambda flow: flow.add_flow(
                    Flow("inside").step(inner),
                    input_map={"a": "b"},
                    output_map={"b": "a"},
                    max_iterations=bound,
                )
            ),
            nodes(),
            st.none() | st.integers(1, 5),
        ),
        st.builds(
            lambda text, inner, bound: (
                lambda flow: flow.delegate(
                    text,
                    agents={
                        "clerk": {"description": "Counts.", "system": f"- {text}"},
                        "no.2": {
                            "description": f"Does {text}.",
                            "flow": Flow("inside").step(inner),
                            "output_key": "a",
                            "context": {"a": "b"},
                        },
                        "hand": {"description": "Helps.", "node": inner},
                    },
                    per_agent=bound,
                )
            ),
            TEXTS.filter(lambda text: "{" not in text),
            nodes(),
            st.none() | st.integers(1, 3) | st.just({"hand": 1}),
        ),
        st.builds(
            lambda goto, update: (
                lambda flow: flow.command(
                    routes=[{"when": "a=1", "goto": "STOP"}], goto=goto, update=update
                )
            ),
            st.sampled_from([None, "STOP", "begin"]),
            st.none() | st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
        ),
    )


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    flow = Flow(
        draw(TEXTS),
        default_provider=draw(st.sampled_from([None, "ollama"])),
        default_model=draw(st.sampled_from([None, "m:1", "1.10"])),
        reducers=draw(st.dictionaries(KEYS, st.sampled_from(["append", "keep"]), max_size=2)),
        limits=draw(st.none() | st.builds(Limits, max_steps=st.integers(1, 9))),
    )
    flow.transform(action="now", output_key="at", id="begin")
    for step in draw(st.lists(steps(), max_size=4)):
        step(flow)
    return flow


@given(flows())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_flow_written_out_loads_to_the_same_graph(flow: Flow) -> None:
    graph = flow.compile()
    text = graph.to_yaml()
    loaded = loads(text, environment={}).graph
    assert loaded.plan.signature == graph.plan.signature
    assert loaded.edges == graph.edges
    assert loaded.name == graph.name
    assert (loaded.defaults.provider, loaded.defaults.model) == (
        graph.defaults.provider,
        graph.defaults.model,
    )
    assert (loaded.reducers, loaded.limits) == (graph.reducers, graph.limits)
    assert loaded.to_yaml() == text


def test_error_edges_are_written_out() -> None:
    nodes = {"try": Transform(action="now"), "rescue": Transform(action="now")}
    graph = Graph(nodes, [Edge("try", "rescue", "__error__")], "try")
    loaded = loads(graph.to_yaml()).graph
    assert loaded.edges == graph.edges


def test_a_schema_of_an_answer_is_written_out() -> None:
    flow = Flow(default_provider="ollama", default_model="m")
    flow.llm(prompt="Hi", output_type={"city": "string", "n": ["integer"]}, response_path="city")
    flow.llm(prompt="Hi", json_schema={"type": "object", "properties": {"yes": {"enum": ["no"]}}})
    graph = flow.compile()
    assert loads(graph.to_yaml()).graph.to_yaml() == graph.to_yaml()


def test_a_team_written_out_loads_to_the_same_graph() -> None:
    roles = {"plan": AgentRole("Plan.", output_key="plan"), "write": AgentRole("W", output_key="w")}
    graph = (
        Flow().team("Lead", roles=roles, fill_order=[("plan", "plan"), ("write", "w")]).compile()
    )
    loaded = loads(graph.to_yaml()).graph
    assert loaded.plan.signature == graph.plan.signature
    assert loaded.to_yaml() == graph.to_yaml()


def test_what_was_loaded_does_the_same() -> None:
    flow = (
        Flow(reducers={"log": "append"})
        .transform(action="value", value="b", output_key="kind")
        .branch(
            "kind",
            Case("a").add(Transform(action="value", value="was a", output_key="log")),
            Case("b").add(Transform(action="value", value="was b", output_key="log")),
        )
        .map(
            Transform(action="uppercase", input_key="names", output_key="name"),
            input_keys="names",
            output_key="loud",
            result_key="name",
        )
    )
    state = {"names": ["ada", "bob"], "log": ["began"]}
    here = asyncio.run(flow.compile().run(state))
    there = asyncio.run(loads(flow.to_yaml()).graph.run(state))
    assert dict(here) == dict(there)
    assert there["loud"] == ["ADA", "BOB"]
    assert there["log"] == ["began", "was b"]


@pytest.mark.parametrize("validate", ["error", "warn", "off"])
def test_a_schema_written_out_holds_as_before(validate: Any) -> None:
    schema = {"log": {"type": list[str], "reducer": "append"}, "n": {"type": int, "default": 3}}
    flow = Flow(state=schema, validate=validate, reducers={"n": "keep"})
    graph = flow.transform(action="value", value="x", output_key="log").compile()
    loaded = loads(graph.to_yaml()).graph
    assert loaded.validate == validate
    assert loaded.reducers == {"log": "append", "n": "keep"}
    assert loaded.to_yaml() == graph.to_yaml()
    assert dict(asyncio.run(loaded.run({"log": ["a"]}))) == {"log": ["a", "x"], "n": 3}


def test_providers_are_written_by_their_options() -> None:
    flow = Flow(providers={"fast": {"type": "ollama", "base_url": "http://localhost:1"}})
    graph = flow.llm(prompt="Hi", provider="fast", model="m").compile()
    loaded = loads(graph.to_yaml()).graph
    assert loaded.defaults.providers is not None
    assert loaded.defaults.providers.declared() == {
        "fast": {"type": "ollama", "base_url": "http://localhost:1"}
    }


def test_initial_state_and_tools_are_written_too() -> None:
    flow = Flow().transform(action="now", output_key="at")
    workflow = loads(flow.to_yaml(initial={"answer": "yes", "n": 1.5}))
    assert workflow.initial == {"answer": "yes", "n": 1.5}


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (
            lambda: Graph({"f": make_function_node(lambda ctx, state: None)}, [], "f"),
            "no registered type",
        ),
        (
            lambda: Graph(
                {"a": Transform(action="now"), "b": Transform(action="now")},
                [Edge("a", "b", lambda state: True)],
                "a",
            ),
            "function as its condition",
        ),
        (
            lambda: Flow(reducers={"k": max}).transform(action="now").compile(),
            "reducer of state key 'k'",
        ),
        (
            lambda: Flow().step(Validate(input_key="a", check=bool), "v").compile(),
            "'check' holds a function",
        ),
    ],
    ids=["node", "condition", "reducer", "option"],
)
def test_what_a_file_cannot_hold_is_named(graph: Callable[[], Graph], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        graph().to_yaml()


def test_an_ask_written_out_keeps_its_decision() -> None:
    flow = Flow().interrupt("ship", "Ship it?", accept=Ask(equals="yes"), id="ship")
    loaded = loads(flow.to_yaml()).graph
    assert list(loaded.nodes) == ["ship", "ship-validate"]
