"""`Delegate`: agents as tools, its bounds, guards and reviews, and the record of what was done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, ProviderError, StateError, WorkflowError
from teff.flow import AgentRole, AgentTool, Flow
from teff.graph import Graph
from teff.harness import MemoryReplyCache
from teff.messages import ModelUsage, ToolCall, message_text, user
from teff.node import LLM, Delegate, ExecContext, default_registry
from teff.node.delegation import SubAgent, allow, block, replace, steps_record
from teff.provider import ChatReply
from teff.runtime import Limits, RunResult, StreamEvent
from teff.testing import ScriptedProvider, call_tool
from teff.tool import FunctionTool

ASKED = {"messages": [{"role": "user", "content": "What do I owe?"}]}


def task(agent: str, message: str = "look", *, id: str = "") -> ChatReply:
    return call_tool(f"delegate_to_{agent}", {"message": message}, id=id)


def several(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> ChatReply:
    made = [
        ToolCall(id=f"c{place}", name=name, arguments=arguments)
        for place, (name, arguments) in enumerate(calls)
    ]
    return ChatReply(text=text, tool_calls=made, finish_reason="tool_calls")


class Seen:
    """An agent that answers from a function, and keeps what it was given."""

    type = "seen"

    def __init__(self, answer: Any = "done") -> None:
        self.answer = answer
        self.states: list[dict[str, Any]] = []

    async def __call__(self, ctx: ExecContext, state: dict[str, Any]) -> Any:
        self.states.append(dict(state))
        answer = self.answer
        if callable(answer):
            answer = answer(state)
        if isinstance(answer, BaseException):
            raise answer
        return {"output": answer}

    @property
    def tasks(self) -> list[str]:
        return [state["input"] for state in self.states]


def agents(**given: Any) -> dict[str, Any]:
    return {
        name: {"description": f"Does {name}.", "node": function} for name, function in given.items()
    }


class Run:
    """One run of a delegate over a script."""

    def __init__(
        self,
        script: Sequence[Any],
        given: Mapping[str, Any],
        *,
        state: Mapping[str, Any] | None = None,
        tools: Sequence[Any] = (),
        limits: Limits = Limits(),  # noqa: B008
        node: Delegate | None = None,
        **options: Any,
    ) -> None:
        self.model = ScriptedProvider(script)
        self.events: list[StreamEvent] = []
        delegate = node or Delegate(agents=given, id="lead", **options)
        self.graph = Graph(
            {"lead": delegate},
            [],
            "lead",
            providers={"p": self.model},
            default_provider="p",
            default_model="m",
        )
        self.result: RunResult = asyncio.run(
            self.graph.run(
                dict(ASKED if state is None else state),
                tools=list(tools),
                limits=limits,
                emit=self.events.append,
            )
        )

    @property
    def record(self) -> dict[str, Any]:
        return dict(self.result["output_steps"])

    def sent(self, request: int) -> list[Mapping[str, Any]]:
        return [dict(message) for message in self.model.requests[request].messages]

    def routes(self) -> list[tuple[str, str]]:
        return [
            (event.data["route"], event.data["decided_by"])
            for event in self.events
            if event.type == "route"
        ]


def observations(run: Run, request: int) -> list[dict[str, Any]]:
    return [
        json.loads(message["content"]) for message in run.sent(request) if message["role"] == "tool"
    ]


def test_an_agent_is_offered_as_a_tool_and_its_result_comes_back_with_a_status() -> None:
    billing = Seen("3 invoices")
    run = Run([task("billing", "customer 7"), "You owe 3."], agents(billing=billing))
    assert run.result["output"] == "You owe 3."
    (offered,) = run.model.requests[0].tools
    assert (offered.name, offered.description) == ("delegate_to_billing", "Does billing.")
    assert observations(run, 1) == [{"agent": "billing", "status": "ok", "output": "3 invoices"}]
    assert billing.tasks == ["customer 7"]
    assert run.result.status == "finished"
    assert run.result["output_forced"] is False


def test_an_agent_sees_its_task_and_chosen_context_and_nothing_else() -> None:
    billing = Seen()
    given = {
        "billing": {
            "description": "Bills.",
            "node": billing,
            "context": {"customer": "who"},
        }
    }
    state = {**ASKED, "customer": 7, "secret": "x"}
    Run([task("billing", "look it up"), "done"], given, state=state)
    assert billing.states == [
        {
            "who": 7,
            "input": "look it up",
            "messages": [{"role": "user", "content": "look it up"}],
        }
    ]


def test_only_the_answer_reaches_the_conversation() -> None:
    run = Run([task("billing"), "You owe 3."], agents(billing=Seen()))
    assert run.result["messages"] == [
        *ASKED["messages"],
        {"role": "assistant", "content": "You owe 3."},
    ]


def test_the_text_under_input_is_asked_and_added_to_the_conversation() -> None:
    run = Run(["Hello."], agents(a=Seen()), state={"input": "Hi"})
    assert [message["role"] for message in run.result["messages"]] == ["user", "assistant"]
    assert run.sent(0)[-1] == {"role": "user", "content": "Hi"}


def test_nothing_to_answer_is_an_error_that_names_the_keys() -> None:
    with pytest.raises(StateError, match="'messages'.*'input'"):
        Run([], agents(a=Seen()), state={})


def test_a_failing_agent_is_a_result_with_a_status_and_the_run_goes_on() -> None:
    run = Run([task("billing"), "It failed."], agents(billing=Seen(ValueError("no such customer"))))
    assert observations(run, 1) == [
        {"agent": "billing", "status": "error", "error": "ValueError: no such customer"}
    ]
    (call,) = run.record["tool_calls"]
    assert (call["result"], "no such customer" in call["error"]) == ("", True)
    assert run.record["steps"][0]["status"] == "error"


@pytest.mark.parametrize("empty", ["", None, [], {}])
def test_an_agent_that_answers_nothing_has_failed(empty: Any) -> None:
    run = Run([task("a"), "ok"], agents(a=Seen(empty)))
    assert observations(run, 1)[0]["status"] == "error"


@pytest.mark.parametrize("value", [0, False, {"n": [1]}, [1, 2]])
def test_an_answer_may_be_any_json(value: Any) -> None:
    run = Run([task("a"), "ok"], agents(a=Seen(value)))
    assert observations(run, 1)[0]["output"] == value


def test_several_tasks_of_one_reply_run_at_once_and_are_answered_in_order() -> None:
    both = asyncio.Event()
    begun: list[str] = []

    def meet(name: str) -> Any:
        async def work(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            begun.append(name)
            if len(begun) == 2:
                both.set()
            await both.wait()
            return {"output": name}

        return work

    reply = several(
        ("delegate_to_a", {"message": "one"}), ("delegate_to_b", {"message": "two"}), text="both"
    )
    run = Run([reply, "ok"], agents(a=meet("a"), b=meet("b")))
    assert [told["output"] for told in observations(run, 1)] == ["a", "b"]
    assert run.record["agents_used"] == ["a", "b"]
    assert [step["thought"] for step in run.record["steps"]] == ["both", "", ""]


def test_the_bound_gives_one_last_call_without_tools_and_a_stop_reason() -> None:
    run = Run(
        [task("a"), task("a"), "As far as I know, 3."], agents(a=Seen("3")), max_delegations=2
    )
    assert run.result["output"] == "As far as I know, 3."
    assert (run.result.status, run.result.stop_reason) == ("stopped", "max_delegations")
    assert run.result["output_forced"] is True
    assert run.model.requests[-1].tools == ()
    assert observations(run, 2)[-1]["output"] == "3"
    assert run.record["max_delegations_reached"] is True
    assert run.record["status"] == "stopped"
    assert run.routes()[-1] == ("finish", "max_delegations")
    assert [e.data["reason"] for e in run.events if e.type == "limit"] == ["max_delegations"]


def test_a_last_call_without_an_answer_gives_the_last_output() -> None:
    run = Run([task("a"), task("a", "again")], agents(a=Seen("3 invoices")), max_delegations=1)
    assert run.result["output"] == "3 invoices"
    assert run.result["output_forced"] is True


def test_tasks_beyond_the_bound_are_refused_in_their_order() -> None:
    worker = Seen()
    reply = several(*(("delegate_to_a", {"message": str(n)}) for n in range(4)))
    run = Run([reply, "ok"], agents(a=worker), max_delegations=2)
    assert sorted(worker.tasks) == ["0", "1"]
    assert [told["status"] for told in observations(run, 1)] == ["ok", "ok", "refused", "refused"]


def test_each_agent_may_have_a_bound_of_its_own() -> None:
    first, second = Seen(), Seen()
    script = [task("a"), task("a"), task("b"), task("b"), "ok"]
    run = Run(script, agents(a=first, b=second), per_agent={"a": 1})
    assert (len(first.states), len(second.states)) == (1, 2)
    assert ("", "per_agent") in run.routes()
    assert "may be asked 1 times" in observations(run, 2)[-1]["error"]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (call_tool("delegate_to_nobody", {"message": "x"}), "there is no 'delegate_to_nobody'"),
        (call_tool("delegate_to_a", {}), "message"),
        (call_tool("delegate_to_a", {"message": " "}), "message"),
        (
            ChatReply(tool_calls=[ToolCall(id="1", name="delegate_to_a", error="no JSON")]),
            "no JSON",
        ),
        ("", "reply is empty"),
        ("<think>hm</think>", "reply is empty"),
    ],
)
def test_an_invalid_reply_is_answered_with_what_is_valid_and_counts(reply: Any, told: str) -> None:
    worker = Seen()
    run = Run([reply, "ok", "never"], agents(a=worker), max_delegations=2)
    assert told in str(run.sent(1)[-1]["content"])
    assert worker.states == []
    assert run.routes()[0] == ("", "no_decision")
    assert run.record["delegations"] == 0
    bounded = Run([reply, reply, "best"], agents(a=worker), max_delegations=2)
    assert bounded.result.stop_reason == "max_delegations"


def test_a_name_written_a_little_differently_is_known() -> None:
    worker = Seen()
    Run(
        [call_tool("Delegate-To-Code_Reviewer", {"message": "x"}), "ok"],
        agents(**{"code-reviewer": worker}),
    )
    assert worker.tasks == ["x"]


def test_further_tools_are_offered_and_run_beside_the_agents() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    reply = several(("add", {"a": 1, "b": 2}), ("delegate_to_a", {"message": "x"}))
    run = Run([reply, "ok"], agents(a=Seen("y")), tools=[FunctionTool(add)], use_tools=["add"])
    texts = [message["content"] for message in run.sent(1) if message["role"] == "tool"]
    assert texts[0] == "3"
    assert json.loads(texts[1])["output"] == "y"
    assert [call["tool_name"] for call in run.record["tool_calls"]] == ["delegate_to_a", "add"]
    assert run.record["delegations"] == 1


def test_rounds_of_tools_are_bounded_of_their_own() -> None:
    def ping() -> str:
        """Ping."""
        return "pong"

    script = [call_tool("ping"), call_tool("ping"), "ok"]
    run = Run(
        script, agents(a=Seen()), tools=[FunctionTool(ping)], use_tools="all", max_tool_rounds=2
    )
    assert [tool.name for tool in run.model.requests[2].tools] == ["delegate_to_a"]
    assert run.result.stop_reason == "end"
    assert "max_tool_rounds" in [e.data["reason"] for e in run.events if e.type == "limit"]


def test_a_tool_called_like_an_agent_is_refused() -> None:
    def other(message: str) -> str:
        """Do something."""
        return message

    named = FunctionTool(other, name="delegate_to_a")
    with pytest.raises(ConfigError, match="called like an agent"):
        Run(["ok"], agents(a=Seen()), tools=[named], use_tools="all")


def test_a_role_runs_with_its_own_conversation_and_the_model_of_the_node() -> None:
    given = {
        "poet": {"description": "Writes.", "system": "You are a poet."},
        "critic": {"description": "Judges.", "role": AgentRole("You judge.", output_key="verdict")},
    }
    script = [task("poet", "a line"), "Roses.", task("critic", "judge it"), "Fine.", "Here: Roses."]
    run = Run(script, given)
    assert run.result["output"] == "Here: Roses."
    told = run.sent(1)
    assert [message["role"] for message in told] == ["system", "user"]
    assert told[0]["content"] == "You are a poet."
    assert observations(run, 4)[-1]["output"] == "Fine."
    assert "verdict" not in run.result
    assert run.record["tokens"]["total_tokens"] == run.result.usage.total_tokens
    assert run.record["tokens"]["by_model"] == run.result.usage.by_model


def test_a_flow_is_an_agent_and_its_answer_is_found() -> None:
    async def shout(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return {"loud": state["input"].upper()}

    flow = Flow().step(shout)
    by_key = {"a": {"description": "Shouts.", "flow": flow, "output_key": "loud"}}
    assert observations(Run([task("a", "hey"), "ok"], by_key), 1)[0]["output"] == "HEY"
    alone = {"a": {"description": "Shouts.", "flow": flow}}
    assert observations(Run([task("a", "hey"), "ok"], alone), 1)[0]["output"] == "HEY"


def test_an_llm_node_is_an_agent() -> None:
    given = agents(a=LLM(input_key="input", output_key="text"))
    run = Run([task("a", "say hi"), "hi!", "It said hi."], given)
    assert observations(run, 2)[0]["output"] == "hi!"


def test_agents_may_be_a_list_or_values() -> None:
    listed = [{"name": "a", "description": "A.", "node": Seen("1")}]
    assert Run([task("a"), "ok"], listed).record["agents_used"] == ["a"]  # type: ignore[arg-type]
    made = [SubAgent(name="a", description="A.", node=Seen("1"))]
    assert Run([task("a"), "ok"], made).record["agents_used"] == ["a"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"agents": {}}, "names no agent"),
        ({"agents": {"a": {"node": Seen()}}}, "needs a description"),
        ({"agents": {"a": {"description": "A."}}}, "nothing to run"),
        ({"agents": {"a": {"description": "A.", "node": Seen(), "flow": Seen()}}}, "not both"),
        ({"agents": {"a": {"description": "A.", "node": Seen(), "contxt": ["x"]}}}, "context"),
        ({"agents": {"a b": {"description": "A.", "node": Seen()}}}, "no name for an agent"),
        ({"agents": {"a": 3}}, "agent 'a' must say description"),
        ({"agents": 3}, "must be a mapping"),
        (
            {"agents": {"a": {"description": "A.", "node": Seen(), "context": ["input"]}}},
            "holds the task",
        ),
        ({"agents": agents(a=Seen()), "max_delegations": 0}, "max_delegations"),
        ({"agents": agents(a=Seen()), "per_agent": {"b": 1}}, "'b', which is no agent"),
        ({"agents": agents(a=Seen()), "per_agent": 0}, "at least 1"),
        ({"agents": agents(a=Seen()), "guards": {"outputs": []}}, "Did you mean 'output'"),
        ({"agents": agents(a=Seen()), "guards": {"output": ["x"]}}, "must be a function"),
        ({"agents": agents(a=Seen()), "llm_timeout": 0}, "llm_timeout"),
        ({"agents": agents(a=Seen()), "llm_timeout": "soon"}, "llm_timeout"),
        ({"agents": agents(a=Seen()), "llm_timeout": True}, "llm_timeout"),
        ({"agents": agents(a=Seen()), "tool_timeout": -1}, "tool_timeout"),
        ({"agents": agents(a=Seen()), "tool_timeout": 0}, "tool_timeout"),
        ({"agents": agents(a=Seen()), "max_delegations": 2.5}, "max_delegations"),
        ({"agents": agents(a=Seen()), "max_delegations": True}, "max_delegations"),
        ({"agents": agents(a=Seen()), "max_delegations": None}, "max_delegations"),
        ({"agents": agents(a=Seen()), "per_agent": 1.5}, "per_agent"),
        ({"agents": agents(a=Seen()), "per_agent": True}, "per_agent"),
        ({"agents": agents(a=Seen()), "per_agent": {"a": "x"}}, "per_agent"),
        ({"agents": agents(a=Seen()), "depth": 0}, "depth"),
        ({"agents": agents(a=Seen()), "depth": None}, "depth"),
        ({"agents": agents(a=Seen()), "depth": "deep"}, "depth"),
        ({"agents": agents(a=Seen()), "review": "yes"}, "review"),
        ({"agents": agents(a=Seen()), "max_delegation": 3}, "max_delegation"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Delegate(**options)
    assert "delegate" in str(caught.value)


def test_the_node_is_registered_and_says_what_it_reads_and_writes() -> None:
    node = default_registry.create(
        "delegate",
        {"agents": {"a": {"description": "A.", "system": "You are a.", "context": ["customer"]}}},
    )
    assert isinstance(node, Delegate)
    assert set(node.reads()) == {"input", "messages", "customer"}
    assert set(node.writes()) == {"output", "output_forced", "output_steps", "messages"}
    assert node.turn_keys() == ["output_forced", "output_steps"]
    assert [child.id for child in node.children()] == ["a"]
    assert node.signature()["agents"]["a"]["type"] == "subflow"
    assert node.asks_model() == (None, None)


# Guards.


def test_guards_see_what_passes_and_may_replace_it() -> None:
    seen: list[tuple[str, str, Any]] = []

    def note(value: Any, about: Any) -> Any:
        seen.append((about.point, about.name, value))
        return allow()

    async def redact(value: Any) -> Any:
        return replace(str(value).replace("4711", "[number]"))

    def lookup(n: int) -> str:
        """Look up."""
        return f"account 4711 of {n}"

    points = ("input", "output", "tool_args", "tool_result", "agent_result")
    guards = {point: [note, redact] if point != "tool_args" else [note] for point in points}
    reply = several(("lookup", {"n": 1}), ("delegate_to_a", {"message": "pay 4711"}))
    run = Run(
        [reply, "It is 4711."],
        agents(a=Seen("paid 4711")),
        state={"input": "Pay from 4711"},
        tools=[FunctionTool(lookup)],
        use_tools="all",
        guards=guards,
    )
    assert run.result["output"] == "It is [number]."
    assert run.sent(0)[-1]["content"] == "Pay from [number]"
    assert run.result["messages"][0]["content"] == "Pay from [number]"
    texts = [message["content"] for message in run.sent(1) if message["role"] == "tool"]
    assert texts[0] == "account [number] of 1"
    assert json.loads(texts[1])["output"] == "paid [number]"
    assert sorted((point, name) for point, name, _ in seen) == sorted(
        [
            ("input", ""),
            ("tool_args", "lookup"),
            ("tool_args", "a"),
            ("agent_result", "a"),
            ("tool_result", "lookup"),
            ("output", ""),
        ]
    )
    told = json.dumps([dict(e.data) for e in run.events if e.type == "tool_result"], default=str)
    assert "4711" not in told
    assert "4711" not in json.dumps(run.record["tool_calls"][0]["result"])


def test_a_blocked_input_is_answered_without_the_model() -> None:
    run = Run([], agents(a=Seen()), guards={"input": [lambda text: block("I may not help.")]})
    assert run.result["output"] == "I may not help."
    assert run.record["status"] == "blocked"
    assert run.model.requests == []
    assert run.routes() == [("finish", "guard")]


def test_a_blocked_output_is_replaced_by_the_reason() -> None:
    guards = {"output": lambda text: block("Withheld.") if "secret" in text else allow()}
    run = Run(["the secret"], agents(a=Seen()), guards=guards)
    assert run.result["output"] == "Withheld."
    assert "secret" not in json.dumps(run.record)
    assert run.result["messages"][-1]["content"] == "Withheld."


def test_nothing_is_streamed_past_a_guard_of_the_output() -> None:
    guards = {"output": lambda text: allow()}
    guarded = Run(["the secret"], agents(a=Seen()), guards=guards)
    assert not [event for event in guarded.events if event.type == "token"]
    free = Run(["the answer"], agents(a=Seen()))
    assert [event for event in free.events if event.type == "token"]


def test_blocked_arguments_and_results_are_told_to_the_model() -> None:
    worker = Seen("secret")
    by_args = Run(
        [task("a"), "ok"], agents(a=worker), guards={"tool_args": lambda args: block("not today")}
    )
    assert worker.states == []
    assert observations(by_args, 1) == [{"status": "blocked", "error": "not today"}]
    by_result = Run(
        [task("a"), "ok"], agents(a=worker), guards={"agent_result": lambda v: block("private")}
    )
    assert observations(by_result, 1) == [{"agent": "a", "status": "blocked", "error": "private"}]
    assert "secret" not in json.dumps(by_result.record)


def test_arguments_may_be_replaced() -> None:
    worker = Seen()
    guards = {"tool_args": lambda args: replace({"message": args["message"].upper()})}
    Run([task("a", "hey"), "ok"], agents(a=worker), guards=guards)
    assert worker.tasks == ["HEY"]


@pytest.mark.parametrize("mode", ["message", "raise"])
def test_what_a_tool_says_is_guarded_also_where_it_fails(mode: str) -> None:
    def leak() -> str:
        """Leak."""
        raise RuntimeError("password sesame")

    def give() -> str:
        """Give."""
        return "password sesame"

    guards = {"tool_result": lambda text: block("private") if "sesame" in text else allow()}
    run = Run(
        [call_tool("give"), call_tool("leak"), "ok"]
        if mode == "message"
        else [call_tool("give"), "ok"],
        agents(a=Seen()),
        tools=[FunctionTool(leak), FunctionTool(give)],
        use_tools="all",
        guards=guards,
        tool_error_mode=mode,
    )
    told = [m["content"] for m in run.sent(-1) if m["role"] == "tool"]
    assert all("private" in text and "sesame" not in text for text in told)
    assert "sesame" not in json.dumps([dict(event.data) for event in run.events], default=str)


def test_a_guard_that_says_nothing_fails_the_node() -> None:
    def forgetful(text: str) -> Any:
        return None

    with pytest.raises(WorkflowError, match="'forgetful' at 'output' returned NoneType"):
        Run(["hi"], agents(a=Seen()), guards={"output": forgetful})


# Reviews.


def verdict(said: str, feedback: str = "") -> str:
    return json.dumps({"verdict": said, "feedback": feedback})


def test_a_review_accepts() -> None:
    run = Run([task("a"), verdict("accept"), "ok"], agents(a=Seen("x")), review=True)
    assert run.record["steps"][0]["review"] == "accept"
    assert run.model.requests[1].json_schema is not None
    assert "x" in str(run.sent(1)[-1]["content"])
    assert run.record["delegations"] == 1


def test_a_review_sends_back_with_feedback_and_counts() -> None:
    worker = Seen(lambda state: f"draft {len(state['messages'])}")
    script = [
        task("a", "write"),
        verdict("revise", "shorter"),
        verdict("accept"),
        "ok",
    ]
    run = Run(script, agents(a=worker), review=True)
    assert [m["content"] for m in worker.states[1]["messages"]] == ["write", "draft 1", "shorter"]
    assert "draft 1" in worker.tasks[1]
    assert "shorter" in worker.tasks[1]
    assert observations(run, 3)[0]["output"] == "draft 3"
    assert run.record["delegations"] == 2
    assert [step["review"] for step in run.record["steps"]] == ["revise", "accept", ""]
    assert [step["status"] for step in run.record["steps"][:2]] == ["ok", "ok"]


def test_a_review_rejects_and_the_model_sees_no_output() -> None:
    run = Run([task("a"), verdict("reject", "made up"), "ok"], agents(a=Seen("x")), review=True)
    assert observations(run, 2) == [{"agent": "a", "status": "rejected", "error": "made up"}]
    assert run.record["steps"][0]["status"] == "rejected"


def test_revisions_end_at_the_bound() -> None:
    worker = Seen("x")
    script = [
        task("a"),
        verdict("revise", "more"),
        verdict("revise", "more"),
        verdict("accept"),
        "best",
    ]
    run = Run(script, agents(a=worker), review=True, max_delegations=2)
    assert len(worker.states) == 2
    assert run.result.stop_reason == "max_delegations"


def test_a_review_that_cannot_be_read_accepts() -> None:
    run = Run([task("a"), "well", "hm", "ok"], agents(a=Seen("x")), review=True)
    assert observations(run, 3)[0]["status"] == "ok"


# Pauses, resumes, limits.


def asking(name: str) -> Callable[..., Any]:
    async def work(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        answer = await ctx.interrupt(name, f"{name}?")
        return {"output": f"{name} said {answer}"}

    return work


def resumable(script: Sequence[Any], given: Mapping[str, Any], **options: Any) -> Any:
    model = ScriptedProvider(script)
    node = Delegate(agents=given, **options)
    graph = Graph(
        {"lead": node}, [], "lead", providers={"p": model}, default_provider="p", default_model="m"
    )
    return graph, model, MemoryCheckpointer()


def test_a_question_inside_an_agent_pauses_the_run_and_is_answered_in_place() -> None:
    steady = Seen("steady")
    reply = several(("delegate_to_a", {"message": "1"}), ("delegate_to_b", {"message": "2"}))
    graph, model, store = resumable([reply, "ok"], agents(a=asking("human"), b=steady))
    with pytest.raises(GraphInterrupt) as paused:
        asyncio.run(graph.run(dict(ASKED), checkpointer=store, checkpoint_id="r"))
    assert paused.value.key == "human"
    assert "a" in paused.value.interrupts[0].path
    assert len(steady.states) == 1
    result = asyncio.run(
        graph.run(None, checkpointer=store, checkpoint_id="r", resume={"human": "yes"})
    )
    assert len(steady.states) == 1
    assert len(model.requests) == 2
    told = [json.loads(m["content"]) for m in model.requests[1].messages if m["role"] == "tool"]
    assert [one["output"] for one in told] == ["human said yes", "steady"]
    assert result["output_steps"]["agents_used"] == ["a", "b"]


def test_the_model_itself_may_ask_a_person() -> None:
    question = call_tool("ask_human", {"question": "Which account?"})
    graph, model, store = resumable([question, "ok"], agents(a=Seen()), use_tools=["ask_human"])
    with pytest.raises(GraphInterrupt) as paused:
        asyncio.run(graph.run(dict(ASKED), checkpointer=store, checkpoint_id="r"))
    assert (paused.value.key, paused.value.prompt) == ("ask_human", "Which account?")
    asyncio.run(graph.run(None, checkpointer=store, checkpoint_id="r", resume="the first"))
    assert model.requests[1].messages[-1]["content"] == "the first"


def test_the_tokens_of_an_agent_that_paused_are_not_lost() -> None:
    flow = Flow().llm(input_key="input", output_key="draft").step(asking("human"))
    given = {"a": {"description": "A.", "flow": flow}}
    graph, _, store = resumable([task("a"), "one two three", "ok"], given)
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run(dict(ASKED), checkpointer=store, checkpoint_id="r"))
    result = asyncio.run(
        graph.run(None, checkpointer=store, checkpoint_id="r", resume={"human": "yes"})
    )
    assert result["output_steps"]["tokens"]["by_model"] == result.usage.by_model


def test_a_limit_of_the_run_ends_it_and_keeps_what_there_is() -> None:
    run = Run(
        [task("a"), "never asked"], agents(a=Seen("3 invoices")), limits=Limits(max_model_calls=1)
    )
    assert run.result.stop_reason == "max_model_calls"
    assert run.result["output"] == "3 invoices"
    assert run.record["status"] == "unfinished"
    assert run.record["delegations"] == 1


def test_a_limit_inside_an_agent_ends_the_run() -> None:
    given = {"a": {"description": "A.", "system": "You are a."}}
    run = Run([task("a"), "never asked"], given, limits=Limits(max_model_calls=1))
    assert run.result.stop_reason == "max_model_calls"


@pytest.mark.parametrize("limits", [Limits(deadline=0.05), Limits(max_model_calls=1)])
def test_what_was_finished_beside_the_work_that_a_limit_ended_is_kept(limits: Limits) -> None:
    async def endless(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        if limits.deadline is None:
            await ctx.llm("m", [{"role": "user", "content": "one more"}])
        await asyncio.sleep(60)
        return {}

    reply = several(
        ("delegate_to_a", {"message": "1"}),
        ("delegate_to_endless", {"message": "2"}),
    )
    run = Run([reply], agents(a=Seen("3 invoices"), endless=endless), limits=limits)
    assert run.result.status == "stopped"
    assert run.result["output"] == "3 invoices"
    assert [call["tool_name"] for call in run.record["tool_calls"]] == ["delegate_to_a"]


def test_a_store_that_fails_is_no_failure_of_an_agent() -> None:
    class Full(MemoryCheckpointer):
        async def append(self, lease: Any, records: Any) -> None:
            if any("call:" in record.path for record in records):
                raise OSError("disk full")
            await super().append(lease, records)

    graph, _, _ = resumable([task("a"), "ok"], agents(a=Seen()))
    with pytest.raises(OSError, match="disk full"):
        asyncio.run(graph.run(dict(ASKED), checkpointer=Full(), checkpoint_id="r"))


def test_so_many_calls_of_one_reply_are_looked_at() -> None:
    worker = Seen()
    reply = several(*(("delegate_to_a", {"message": str(n)}) for n in range(1_000)))
    run = Run([reply, "ok"], agents(a=worker), max_delegations=2)
    assert len(worker.states) == 2
    assert len(run.record["steps"]) == 65


def test_guards_and_reviews_are_not_asked_again_after_a_pause() -> None:
    asked: list[str] = []

    def note(value: Any) -> Any:
        asked.append(str(value))
        return allow()

    reply = several(("delegate_to_a", {"message": "1"}), ("delegate_to_b", {"message": "2"}))
    graph, model, store = resumable(
        [reply, verdict("accept"), verdict("accept"), "ok"],
        agents(a=asking("human"), b=Seen("steady")),
        review=True,
        guards={"agent_result": note, "input": note},
    )
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run(dict(ASKED), checkpointer=store, checkpoint_id="r"))
    asyncio.run(graph.run(None, checkpointer=store, checkpoint_id="r", resume={"human": "yes"}))
    assert sorted(asked) == ["What do I owe?", "human said yes", "steady"]
    model.assert_done()


def test_delegates_beside_each_other_keep_records_of_their_own() -> None:
    first = Delegate(
        agents=agents(a=Seen("1")), output_key="one", messages_key="", model="x", stream=False
    )
    second = Delegate(
        agents=agents(a=Seen("2")), output_key="two", messages_key="", model="y", stream=False
    )
    said = {"x": [task("a"), "first"], "y": [task("a"), "second"]}

    class ByModel(ScriptedProvider):
        async def chat(self, request: Any) -> ChatReply:
            answer = said[request.model].pop(0)
            return answer if isinstance(answer, ChatReply) else ChatReply(text=str(answer))

    flow = Flow(providers={"p": ByModel()}, default_provider="p")
    result = asyncio.run(flow.parallel(first, second).compile().run({"input": "Hi"}))
    assert (result["one"], result["two"]) == ("first", "second")
    for key in ("one", "two"):
        assert result[f"{key}_steps"]["tokens"]["model_calls"] == 2
        assert result[f"{key}_steps"]["delegations"] == 1
    assert "messages" not in result


def test_events_carry_the_path_of_the_agent() -> None:
    run = Run([task("a"), "ok"], agents(a=Seen()))
    paths = [e.path for e in run.events if e.node_id == "a" and e.type == "node_start"]
    assert len(paths) == 1
    assert paths[0].startswith("lead/1/")


def test_the_record_is_the_fold_of_the_events() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    script = [
        several(("add", {"a": 1, "b": 2}), ("delegate_to_a", {"message": "x"}), text="why"),
        verdict("revise", "more"),
        verdict("reject", "no"),
        "",
        task("nobody"),
        "ok",
    ]
    run = Run(script, agents(a=Seen("y")), tools=[FunctionTool(add)], use_tools="all", review=True)
    folded = steps_record(run.events, "lead/1")
    assert folded["steps"] == run.record["steps"]
    assert folded["tokens"] == run.record["tokens"]
    assert sorted(map(str, folded["tool_calls"])) == sorted(map(str, run.record["tool_calls"]))
    assert {k: folded[k] for k in ("status", "delegations", "agents_used")} == {
        k: run.record[k] for k in ("status", "delegations", "agents_used")
    }


def test_a_model_that_answers_under_another_name_counts_under_the_name_that_was_asked() -> None:
    answers = [task("a"), ChatReply(text="Done.", model="m-2026-01"), ChatReply(text="Hello.")]
    asks = {"a": {"description": "A.", "node": LLM(input_key="input")}}
    run = Run(answers, asks)
    assert list(run.record["tokens"]["by_model"]) == ["p/m"]
    assert run.record["tokens"]["by_model"] == run.result.usage.by_model
    assert steps_record(run.events, "lead/1")["tokens"] == run.record["tokens"]


def test_what_tools_ask_models_is_counted_too() -> None:
    tool = AgentTool(LLM(input_key="input"), name="look_up", description="Looks up.")
    script = [call_tool("look_up", {"message": "x"}), "found", task("a"), "said", "ok"]
    asks = {"a": {"description": "A.", "node": LLM(input_key="input")}}
    run = Run(script, asks, tools=[tool], use_tools="all")
    assert run.record["tokens"]["model_calls"] == run.result.usage.model_calls == 5
    assert steps_record(run.events, "lead/1")["tokens"] == run.record["tokens"]


def test_an_answer_from_the_cache_costs_nothing_again() -> None:
    cache = MemoryReplyCache()
    Run(["Hello."], agents(a=Seen()), cache=cache)
    again = Run([], agents(a=Seen()), cache=cache)
    assert (again.result["output"], again.record["tokens"]["model_calls"]) == ("Hello.", 0)
    assert steps_record(again.events, "lead/1")["tokens"] == again.record["tokens"]


def test_what_was_asked_before_a_pause_is_in_the_record() -> None:
    async def human(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        await ctx.llm("m", [user("first")])
        return {"output": await ctx.interrupt("ok", "Is it?")}

    flow = Flow(providers={"p": ScriptedProvider([task("a"), "x", "end"])}, default_provider="p")
    node = Delegate(agents={"a": {"description": "A.", "node": human}}, model="m")
    graph = flow.step(node).compile()
    where: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run({"input": "go"}, **where))
    result = asyncio.run(graph.run(resume={"ok": "yes"}, **where))
    assert result["output_steps"]["tokens"]["by_model"] == result.usage.by_model
    assert result.usage.model_calls == 3


def test_an_agent_that_stopped_at_its_own_bound_does_not_stop_the_run() -> None:
    inner = Delegate(agents=agents(b=Seen("deep")), max_delegations=1)
    run = Run([task("a"), task("b"), "inner best", "ok"], agents(a=inner))
    assert run.result["output"] == "ok"
    assert (run.result.status, run.result.stop_reason) == ("finished", "end")


def test_why_a_supervisor_ended_the_loop_is_kept_through_a_delegate_after_it() -> None:
    def stopping(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        ctx.set_stop_reason("of the agent")
        return {"output": "done"}

    model = ScriptedProvider([task("a"), "ok"])
    flow = Flow(providers={"p": model}, default_provider="p", default_model="m")
    flow.supervisor(agents=["x"], done_keys=["plan"])
    flow.route("next_agent", agents={"x": Seen()}, finish=Delegate(agents=agents(a=stopping)))
    result = asyncio.run(flow.compile().run({**ASKED, "plan": "there"}))
    assert (result["output"], result.stop_reason) == ("ok", "done_keys")


def test_depth_bounds_delegation_within_delegation() -> None:
    inner = Delegate(agents=agents(b=Seen("deep")))
    shallow = Run([task("a"), "alone", "ok"], agents(a=inner), depth=1)
    assert not shallow.model.requests[1].tools
    assert "max_depth" in [e.data["reason"] for e in shallow.events if e.type == "limit"]
    deep = Run([task("a"), task("b"), "inner", "ok"], agents(a=inner), depth=2)
    assert deep.result["output"] == "ok"


def test_a_model_that_takes_too_long_is_a_provider_error() -> None:
    class Slow(ScriptedProvider):
        async def chat(self, request: Any) -> ChatReply:
            await asyncio.sleep(60)
            raise AssertionError

        async def stream(self, request: Any) -> Any:
            await asyncio.sleep(60)
            yield None

    flow = Flow(providers={"p": Slow()}, default_provider="p", default_model="m")
    graph = flow.step(Delegate(agents=agents(a=Seen()), llm_timeout=0.01)).compile()
    with pytest.raises(ProviderError, match="llm_timeout"):
        asyncio.run(graph.run(dict(ASKED)))


def test_a_chat_goes_on_over_turns() -> None:
    model = ScriptedProvider([task("a"), "First.", "Second."])
    flow = Flow(providers={"p": model}, default_provider="p", default_model="m")
    graph = flow.step(Delegate(agents=agents(a=Seen()))).compile()
    store = MemoryCheckpointer()
    first = asyncio.run(graph.turn("Hi", checkpointer=store, checkpoint_id="c"))
    second = asyncio.run(graph.turn("And?", checkpointer=store, checkpoint_id="c"))
    assert (first.reply, second.reply) == ("First.", "Second.")
    assert [message_text(m) for m in second.state["messages"]] == [
        "Hi",
        "First.",
        "And?",
        "Second.",
    ]
    assert second.state["output_steps"]["delegations"] == 0


def test_usage_of_a_reply_without_counts_is_nothing() -> None:
    reply = ChatReply(text="ok", usage=ModelUsage())
    assert Run([reply], agents(a=Seen())).record["tokens"]["total_tokens"] == 0


def test_a_flow_adds_one_from_its_options() -> None:
    model = ScriptedProvider([task("a"), "ok"])
    flow = Flow(providers={"p": model})
    flow.delegate("Be short.", agents=agents(a=Seen()), model="m", provider="p", id="lead")
    result = asyncio.run(flow.compile().run({"input": "Hi"}))
    assert result["output"] == "ok"
    assert model.requests[0].messages[0]["content"] == "Be short."


def test_duplicate_call_ids_are_told_apart() -> None:
    calls = [ToolCall(id="x", name="delegate_to_a", arguments={"message": str(n)}) for n in (1, 2)]
    worker = Seen(lambda state: state["input"])
    run = Run([ChatReply(tool_calls=calls), "ok"], agents(a=worker))
    assert [told["output"] for told in observations(run, 1)] == ["1", "2"]
    ids = [m["tool_call_id"] for m in run.sent(1) if m["role"] == "tool"]
    assert len(set(ids)) == 2
