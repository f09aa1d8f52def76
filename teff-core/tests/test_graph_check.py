"""What `Graph.check` finds, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from teff.errors import ConfigError, suggest
from teff.flow import Flow, SubFlow
from teff.graph import Edge, Graph
from teff.graph.check import CODES, Problem
from teff.node import (
    LLM,
    Command,
    CommandNode,
    Gate,
    Interrupt,
    Node,
    ReActAgent,
    Supervisor,
    ToolExec,
    Transform,
    make_function_node,
)
from teff.runtime import Limits


class Plain(Node):
    """A node of which everything is known."""

    type = "plain"

    def __init__(
        self,
        *,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        outcomes: Mapping[str, Sequence[str]] | None = None,
        bounds: bool = False,
        children: Sequence[Node] = (),
        branches: Sequence[Any] = (),
    ) -> None:
        super().__init__()
        self._reads, self._writes, self._bounds = reads, writes, bounds
        self._outcomes, self._children, self.branches = outcomes, children, branches

    async def execute(self, ctx: Any, state: dict[str, Any]) -> None:
        raise AssertionError("a check runs nothing")

    def reads(self) -> Sequence[str]:
        return self._reads

    def writes(self) -> Sequence[str]:
        return self._writes

    def outcomes(self) -> Mapping[str, Sequence[str]] | None:
        return self._outcomes

    def bounds_rounds(self) -> bool:
        return self._bounds

    def children(self) -> Sequence[Node]:
        return self._children


def graph_of(
    *ways: tuple[str, str] | tuple[str, str, Any],
    nodes: Mapping[str, Node] | None = None,
    **how: Any,
) -> Graph:
    """Make a graph of edges; the nodes that are not given are plain ones."""
    edges = [Edge(*way) for way in ways]
    names = dict.fromkeys(name for edge in edges for name in (edge.source_id, edge.target_id))
    made = {**{name: Plain() for name in names}, **(nodes or {})}
    return Graph(made, edges, next(iter(names or made)), **how)


def problems_of(graph: Graph, *known: str) -> list[Problem]:
    return graph.check(known_keys=["k", "n", "x", *known])


def codes(graph: Graph, *known: str) -> list[str]:
    return [problem.code for problem in problems_of(graph, *known)]


def only(graph: Graph, code: str, *known: str) -> Problem:
    """Return the one problem of a graph."""
    (problem,) = problems_of(graph, *known)
    assert problem.code == code
    assert problem.code in CODES
    assert problem.severity == "warning"
    assert problem.hint
    return problem


def branches(*conditions: Any, **how: Any) -> Graph:
    """Make a graph of one node with a way for each condition."""
    return graph_of(*(("a", f"b{n}", condition) for n, condition in enumerate(conditions)), **how)


# Nodes that nothing leads to.


def lonely(start: Node) -> Graph:
    return Graph({"start": start, "island": Plain()}, [], "start")


def test_a_node_that_nothing_leads_to() -> None:
    assert only(lonely(Plain()), "unreachable").node == "island"


def test_a_command_is_a_way() -> None:
    assert codes(lonely(CommandNode(goto="island"))) == []


def test_a_function_that_names_a_command_may_go_anywhere() -> None:
    def jumps(ctx: Any, state: Any) -> Any:
        return Command(goto=state["where"])

    def stays(ctx: Any, state: Any) -> Any:
        return {"x": 1}

    assert codes(lonely(make_function_node(jumps))) == []
    assert codes(lonely(make_function_node(stays))) == ["unreachable"]


def test_a_function_within_a_function_may_name_the_command() -> None:
    def jumps(ctx: Any, state: Any) -> Any:
        return next(Command(goto=name) for name in state["names"])

    def outer(ctx: Any, state: Any) -> Any:
        def inner() -> Any:
            return Command(goto="island")

        return inner()

    assert codes(lonely(make_function_node(jumps))) == []
    assert codes(lonely(make_function_node(outer))) == []


def test_of_a_function_without_code_nothing_is_claimed() -> None:
    assert codes(lonely(make_function_node(max))) == []


def test_what_only_an_error_leads_to_is_reached() -> None:
    assert codes(graph_of(("a", "b", "__error__"))) == []


# Dead ends.


@pytest.mark.parametrize(
    "conditions",
    [
        ["k"],
        ["k=a", "k=b"],
        ["k!=a", "k!=a,b"],
        ["k!="],
        ["k>1", "k<=1"],  # a missing key, or a text, has no order
        ["k", "k="],  # False is neither
        ["k=true", "k=false"],
        ["k=null", "k!="],
        ["k=''", "k!="],
        ["k=yes and x", "k!=yes"],
        ["k contains a", "x"],
        [lambda state: True],
        ["not k and x", "k"],
        ["k.a=1", "k.a!=1 and k"],
    ],
)
def test_a_way_out_for_some_states_only(conditions: Sequence[Any]) -> None:
    found = problems_of(branches(*conditions))
    assert "missing-default" in [problem.code for problem in found]
    assert {problem.node for problem in found} == {"a"}


@pytest.mark.parametrize(
    "conditions",
    [
        [None],
        ["k=a", None],
        ["k", "not k"],
        ["k=", "k!="],
        ["k=a", "k!=a"],
        ["k=a", "k=b", "k!=a,b"],
        ["k in (a, b)", "k not in (a, b)"],
        ["k>1", "k<=1", "not (k>1 or k<=1)"],
        ["n>=10", "not n>10 and n!=10"],
        ["k='a'", "k!=a", "k=a"],
        ["k=1", "k!=1.0"],
        ["k=a and x", "k=a and not x", "k!=a"],
        ["k contains a", "not k contains a"],
        ["k or x", "not k and not x"],
        ["'final answer'=", "'final answer'!="],
        ["'k'=a", "k!=a"],
    ],
)
def test_a_way_out_for_every_state(conditions: Sequence[Any]) -> None:
    assert "missing-default" not in codes(branches(*conditions), "final answer")


def test_a_dead_end_names_a_state_that_leads_there() -> None:
    assert only(branches("k=a", "k="), "missing-default").message == (
        "after node 'a' the run ends where none of its conditions holds, "
        "as where 'k' is something else."
    )


def test_where_all_ways_lead_back_the_end_is_meant() -> None:
    loop = graph_of(("a", "b", "k!=done"), ("b", "a"), limits=Limits(max_steps=9))
    assert codes(loop) == []
    out = graph_of(("a", "b", "k=x"), ("b", "a"), ("a", "c", "k=y"), limits=Limits(max_steps=9))
    assert codes(out) == ["missing-default"]


def test_an_agent_with_its_tools_ends_where_no_call_waits() -> None:
    assert codes(Flow().harness("m", use_tools=[]).compile()) == []
    nodes = {"agent": ReActAgent(), "tools": ToolExec()}
    edges = [Edge("agent", "tools", "_tool_call_name!="), Edge("tools", "agent")]
    assert codes(Graph(nodes, edges, "agent")) == []


def supervised(*names: str, finish: bool = False) -> Graph:
    ways: list[Any] = [("lead", name, f"next_agent={name}") for name in names]
    if finish:
        ways.append(("lead", "end", "next_agent=finish"))
    return graph_of(*ways, nodes={"lead": Supervisor(agents=["plan", "write"])})


def test_a_supervisor_needs_a_way_to_each_agent() -> None:
    assert codes(supervised("plan", "write", finish=True)) == []
    assert codes(supervised("plan", "write")) == []  # the run ends, and says that it is finished
    problem = only(supervised("plan", finish=True), "missing-default")
    assert "'next_agent' is 'write'" in problem.message


def test_an_agent_that_a_supervisor_does_not_have() -> None:
    problem = only(supervised("plan", "write", "wirte"), "condition-trap")
    assert "writes one of 'plan', 'write', 'finish'" in problem.message


def test_the_names_of_a_route_under_a_reducer_are_not_relied_on() -> None:
    def graph(**how: Any) -> Graph:
        return branches("k=yes", "k=no", nodes={"a": Plain(outcomes={"k": ["yes", "no"]})}, **how)

    assert codes(graph()) == []
    assert codes(graph(reducers={"k": "append"})) == ["missing-default"]
    assert codes(branches("k=yes", nodes={"a": Plain(outcomes={"k": ["yes", "no"]})})) == [
        "missing-default"
    ]


def test_teams_and_routes_of_a_flow_are_complete() -> None:
    def role(name: str) -> Node:
        return Transform(action="now", output_key=name)

    team = Flow(default_model="m").team(roles={"a": role("a"), "b b": role("b b")})
    assert codes(team.compile()) == []
    assert codes(team.step(Transform(action="now")).compile()) == []


def test_agents_of_any_name_are_told_apart() -> None:
    agents: Any = {name: Transform(action="now") for name in ("a>b", "key", "x, y", "Desk", "desk")}
    flow = Flow().step(Plain(writes=["to"]), "lead").route("to", agents=agents)
    graph = flow.step(Transform(action="now")).compile()
    assert [problem.node for problem in problems_of(graph)] == ["lead", "lead"]
    assert codes(graph) == ["missing-default", "unbounded-cycle"]


def test_a_command_without_goto_and_edges() -> None:
    routes: Any = [{"when": "k=a", "goto": "b"}]
    nodes: dict[str, Node] = {"a": CommandNode(routes=routes), "b": Plain()}
    assert codes(Graph(nodes, [], "a")) == ["missing-default"]
    assert codes(Graph(nodes, [Edge("a", "b")], "a")) == []
    nodes["a"] = CommandNode(routes=routes, goto="STOP")
    assert codes(Graph(nodes, [], "a")) == []


def test_functions_on_edges_may_be_objects_without_a_hash() -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, state: Any) -> bool:
            raise AssertionError("a check asks nothing")

    odd = Odd()
    assert codes(branches(odd)) == ["missing-default"]
    assert codes(branches(odd, odd, None)) == ["shadowed-edge"]


def test_very_many_conditions_are_not_searched_for_ever() -> None:
    conditions = [" and ".join(f"k{n}={v}" for n in range(12)) for v in range(12)]
    assert set(codes(branches(*conditions), *(f"k{n}" for n in range(12)))) <= {"missing-default"}


# Ways that are never taken.


@pytest.mark.parametrize(
    "conditions",
    [
        [None, "k"],
        [None, None],
        ["k=a", "k=A", None],
        ["k=a,b", "k=b", None],
        ["k", "k=yes", None],
        ["k!=a", "k=a", "x"],
        ["k>1", "k>2", None],
    ],
)
def test_a_way_that_an_earlier_one_always_takes(conditions: Sequence[Any]) -> None:
    assert codes(branches(*conditions)) == ["shadowed-edge"]


@pytest.mark.parametrize(
    "conditions",
    [
        ["k=a", "k=a,b", None],
        ["k>2", "k>1", None],
        ["k='a'", "k=A", None],
        ["k", "k!=", None],
        ["k='1'", "k=1", None],
        [lambda state: True, lambda state: False, None],
        ["k contains a", "k=a", None],
    ],
)
def test_a_way_that_some_state_takes(conditions: Sequence[Any]) -> None:
    assert codes(branches(*conditions)) == []


def test_a_shadowed_edge_says_by_what() -> None:
    problem = only(graph_of(("a", "b"), ("a", "c", "k")), "shadowed-edge")
    assert problem.message == (
        "the edge to 'c' from node 'a' with the condition 'k' is never taken: "
        "the edge to 'b' comes first."
    )


def test_edges_of_a_node_that_always_says_where_to_go() -> None:
    nodes = {"a": CommandNode(goto="b")}
    assert codes(graph_of(("a", "b"), nodes=nodes)) == ["shadowed-edge"]


def test_only_the_first_error_edge_counts() -> None:
    graph = graph_of(("a", "b", "__error__"), ("a", "c", "__error__"))
    assert codes(graph) == ["shadowed-edge"]


# Conditions that mean something else.


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("k!=null", "is missing"),
        ("k!=''", "is missing"),
        ("x and not k!=null", "is missing"),
        ("k=a and k=b", "never true"),
        ("k>2 and k<2", "never true"),
        ("k!=a or k!=b", "always true"),
        ("k or not k", "always true"),
    ],
)
def test_a_condition_that_cannot_be_meant(condition: str, said: str) -> None:
    problem = only(branches(condition, None), "condition-trap")
    assert said in problem.message
    assert condition in problem.message


@pytest.mark.parametrize(
    "condition",
    ["k!=", "k=null", "k!=nil", "k=a or k=b", "k>1 and k<2", "k>1 and k<1.5", "k=a and not x"],
)
def test_a_condition_that_can_be_meant(condition: str) -> None:
    assert codes(branches(condition, None)) == []


def test_conditions_of_a_command_are_looked_at() -> None:
    node = CommandNode(routes=[{"when": "k!=null", "goto": "b"}], goto="b")
    assert codes(graph_of(nodes={"a": node, "b": Plain()})) == ["condition-trap"]


# Rounds.


CYCLE = (("a", "b"), ("b", "a", "k=again"), ("b", "c"))


def test_a_cycle_that_nothing_bounds() -> None:
    problem = only(graph_of(*CYCLE), "unbounded-cycle")
    assert problem.message.endswith("the rounds of 'a', 'b'.")
    assert codes(graph_of(("a", "a", "k=again"), ("a", "b"))) == ["unbounded-cycle"]
    assert codes(graph_of(("a", "b", "__error__"), ("b", "a"))) == ["unbounded-cycle"]


@pytest.mark.parametrize("limits", [Limits(max_steps=5), Limits(deadline=1.0)])
def test_limits_bound_every_cycle(limits: Limits) -> None:
    assert codes(graph_of(*CYCLE, limits=limits)) == []
    inner = graph_of(*CYCLE)
    assert codes(Graph({"sub": SubFlow(inner)}, [], "sub", limits=limits)) == []
    assert codes(Graph({"sub": SubFlow(inner)}, [], "sub")) == ["unbounded-cycle"]
    assert codes(Graph({"sub": SubFlow(inner, max_iterations=9)}, [], "sub")) == []


def test_a_limit_of_model_calls_bounds_a_cycle_with_a_model() -> None:
    limits = Limits(max_model_calls=5)
    assert codes(graph_of(*CYCLE, limits=limits)) == ["unbounded-cycle"]
    assert codes(graph_of(*CYCLE, limits=limits, nodes={"b": LLM(prompt="hi")})) == []


@pytest.mark.parametrize(
    "node", [Interrupt(key="k"), Plain(bounds=True), Plain(children=[Plain(bounds=True)])]
)
def test_a_node_that_counts_bounds_the_cycles_through_it(node: Node) -> None:
    assert codes(graph_of(*CYCLE, nodes={"b": node})) == []
    around = graph_of(("a", "d", "x"), ("d", "a"), *CYCLE, nodes={"b": node})
    assert codes(around) == ["unbounded-cycle"]


def test_long_ways_are_looked_at_without_recursion() -> None:
    ways = [(f"n{n}", f"n{n + 1}") for n in range(3000)]
    assert codes(graph_of(*ways)) == []
    problem = only(graph_of(*ways, ("n3000", "n0")), "unbounded-cycle")
    assert problem.message.endswith("'n5' and 2995 more.")


# Keys that nothing writes.


def test_a_key_that_nothing_writes() -> None:
    graph = graph_of(("a", "b"), nodes={"a": Plain(writes=["name"]), "b": Plain(reads=["nmae"])})
    problem = only(graph, "unwritten-key")
    assert (problem.node, problem.hint) == ("b", "Did you mean 'name'?")
    assert codes(graph, "nmae") == []


def test_a_key_with_a_default_is_not_asked_for() -> None:
    def node(template: str) -> Graph:
        return Graph({"a": Transform(action="render", template=template)}, [], "a")

    assert codes(node("{name|friend}")) == []
    assert codes(node("{name}")) == ["unwritten-key"]
    assert codes(Graph({"a": LLM(prompt="{name|you}")}, [], "a")) == []


def test_where_a_node_may_write_anything_nothing_is_claimed() -> None:
    free = make_function_node(lambda ctx, state: {})
    assert codes(graph_of(("a", "b"), nodes={"a": free, "b": Plain(reads=["z"])})) == []


def test_keys_that_a_schema_or_a_reducer_names_are_known() -> None:
    nodes = {"a": Plain(reads=["z"])}
    assert codes(Graph(nodes, [], "a", reducers={"z": "append"})) == []
    assert codes(Graph(nodes, [], "a", state={"z": str})) == []


def test_where_a_missing_value_may_come_from() -> None:
    problem = only(Graph({"a": Plain(reads=["zzz"])}, [], "a"), "unwritten-key")
    assert problem.hint.startswith("Give it in the input or the initial state. Known: ")


def test_a_key_that_a_node_writes_and_the_schema_does_not_declare() -> None:
    nodes = {"a": Plain(writes=["cuont", "_scratch", "messages"]), "b": Gate()}
    graph = graph_of(
        ("a", "b"), nodes=nodes, state={"count": int, "verdict": bool, "decision": str}
    )
    problem = only(graph, "undeclared-key")
    assert (problem.node, problem.hint) == ("a", "Did you mean 'count'?")
    assert "undeclared-key" not in codes(
        graph_of(("a", "b"), nodes=nodes, state={"count": int}, validate="off")
    )


def test_a_condition_on_a_key_that_nothing_writes() -> None:
    graph = branches("rout=a", None, nodes={"a": Plain(writes=["route"])})
    problem = only(graph, "unwritten-condition-key")
    assert "the condition 'rout=a' after node 'a' looks at 'rout'" in problem.message
    assert problem.hint == "Did you mean 'route'?"
    assert codes(branches("route.x=a", None, nodes={"a": Plain(writes=["route"])})) == []
    assert codes(branches("rout=a", None), "rout") == []


# Graphs inside.


def test_a_graph_inside_is_looked_at_with_the_keys_that_come_in() -> None:
    inner = Graph({"use": Plain(reads=["topic"])}, [], "use")
    whole = Graph({"sub": SubFlow(inner)}, [], "sub")
    problem = only(whole, "unwritten-key")
    assert (problem.node, problem.within) == ("sub", ("use",))
    assert problem.message.startswith("in 'sub': node 'use' reads")
    assert codes(whole, "topic") == []
    mapped = Graph({"sub": SubFlow(inner, input_map={"topic": "x"})}, [], "sub")
    assert codes(mapped) == []
    unmapped = Graph({"sub": SubFlow(inner, input_map={"other": "x"})}, [], "sub")
    assert codes(unmapped, "topic") == ["unwritten-key"]


def test_an_input_map_that_names_a_key_that_nothing_writes() -> None:
    inner = Graph({"use": Plain(reads=["topic"])}, [], "use")
    graph = Graph({"sub": SubFlow(inner, input_map={"topic": "tpoic"})}, [], "sub")
    assert only(graph, "unwritten-key").within == ()


def test_an_output_map_that_names_a_key_that_nothing_writes() -> None:
    def graph(key: str, **more: Any) -> Graph:
        inner = Graph({"work": Plain(writes=["answer"])}, [], "work", **more)
        return Graph({"sub": SubFlow(inner, output_map={"output": key})}, [], "sub")

    problem = only(graph("anwser"), "unwritten-key")
    assert (problem.node, problem.hint) == ("sub", "Did you mean 'answer'?")
    assert codes(graph("answer")) == codes(graph("z", reducers={"z": "append"})) == []


def test_findings_deep_inside_name_the_way() -> None:
    inner = graph_of(*CYCLE)
    middle = Graph({"mid": SubFlow(inner)}, [], "mid")
    problem = only(Graph({"top": SubFlow(middle)}, [], "top"), "unbounded-cycle")
    assert (problem.node, problem.within) == ("top", ("mid", "a"))
    assert problem.message.startswith("in 'top': in 'mid': the run may")
    assert isinstance(problem.as_error(), ConfigError)


# Branches that write the same key.


def test_branches_that_write_one_key() -> None:
    sides = [[Plain(writes=["x"])], [Plain(writes=["y"]), Plain(writes=["x", "_scratch"])]]
    node = Plain(branches=sides)
    problem = only(Graph({"both": node}, [], "both"), "colliding-writes")
    assert "2 branches of node 'both' write the state key 'x'" in problem.message
    assert codes(Graph({"both": node}, [], "both", reducers={"x": "append"})) == []
    apart = Plain(branches=[[Plain(writes=["x"]), Plain(writes=["x"])], Plain(writes=["y"])])
    assert codes(Graph({"both": apart}, [], "both")) == []


def test_branches_that_add_to_one_conversation_do_not_collide() -> None:
    def side(key: str) -> LLM:
        return LLM(prompt="hi", output_key=key, messages_key="messages", append_reply=True)

    assert codes(Graph({"a": Plain(branches=[side("x"), side("y")])}, [], "a")) == []
    assert codes(Graph({"a": Plain(branches=[side("x"), side("x")])}, [], "a")) == [
        "colliding-writes"
    ]


# What is sent to a model.


def test_a_model_that_is_sent_everything() -> None:
    problem = only(Graph({"ask": LLM()}, [], "ask"), "whole-state-prompt")
    assert "'ask' sends the whole state" in problem.message
    within = Graph({"outer": Plain(children=[LLM(system="Be brief.")])}, [], "outer")
    assert codes(within) == ["whole-state-prompt"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LLM(prompt="hi"),
        lambda: LLM(input_key="input"),
        lambda: LLM(messages_key="messages"),
        lambda: ReActAgent(),
    ],
)
def test_a_model_that_is_sent_what_is_named(make: Callable[[], Node]) -> None:
    assert codes(Graph({"ask": make()}, [], "ask")) == []


# All of it.


def ring_of_typos(size: int) -> Graph:
    """Make a graph in which every node and every condition has a key of its own, misspelt."""
    nodes = {
        f"n{number}": Plain(writes=[f"key_{number}"], reads=[f"kee_{number}"])
        for number in range(size)
    }
    edges = [
        Edge(f"n{number}", f"n{(number + 1) % size}", f"key-{number}=yes") for number in range(size)
    ]
    return Graph(nodes, edges, "n0", limits=Limits(max_steps=size))


def test_the_cost_of_hints_grows_with_the_graph_and_not_with_its_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0

    def count(name: str, known: Iterable[str]) -> str:
        nonlocal compared
        names = list(known)
        compared += len(names)
        return suggest(name, names)

    monkeypatch.setattr("teff.graph.check.nearest.suggest", count)
    costs = []
    for size in (100, 200):
        compared = 0
        problems = ring_of_typos(size).check()
        assert sum("Did you mean 'key_" in problem.hint for problem in problems) == 2 * size
        costs.append(compared)
    assert costs[0] < costs[1] <= 2.2 * costs[0]


def test_a_key_that_is_missed_often_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def note(name: str, known: Iterable[str]) -> str:
        asked.append(name)
        return suggest(name, known)

    monkeypatch.setattr("teff.graph.check.nearest.suggest", note)
    graph = branches(*(f"gone={number}" for number in range(50)), None)
    assert codes(graph) == ["unwritten-condition-key"] * 50
    assert asked == ["gone"]


@pytest.mark.parametrize("wrong", ["qustomer_17", "custoner_17", "customer_17x", "CUSTOMER_17"])
def test_among_many_keys_the_one_that_was_meant_is_found(wrong: str) -> None:
    keys = [f"{word}_{number}" for word in ("customer", "order", "item") for number in range(300)]
    graph = Graph({"a": Plain(writes=keys, reads=[wrong])}, [], "a")
    assert only(graph, "unwritten-key").hint == "Did you mean 'customer_17'?"


def test_every_code_has_a_line() -> None:
    for code, line in CODES.items():
        assert code == code.lower()
        assert line.endswith(".")
        assert "\n" not in line
