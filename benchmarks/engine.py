"""What a step of the engine costs, as a ratio to a bare ``await node.execute(...)`` loop.

Run it with ``python benchmarks/engine.py``. Each figure is taken in turn with its rival, in the same
process, in CPU time; the median of the rounds is printed with the lowest and the highest.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from teff.graph import Edge, Graph
from teff.node import Node
from teff.runtime import ExecContext, Limits

ROUNDS = 9
STEPS = 20_000


class Count(Node):
    """The cheapest node that changes the state."""

    type = "count"

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        """Add one."""
        return {"n": state["n"] + 1}


def ignore(event: object) -> None:
    """Hear an event, and do nothing."""


async def bare(steps: int) -> None:
    """Run the floor: the same node in a plain loop."""
    nodes = [Count(), Count()]
    ctx = ExecContext()
    state = {"n": 0}
    for step in range(steps):
        state = await nodes[step & 1].execute(ctx, state)


def cycle() -> Graph:
    """Return two nodes that lead to each other."""
    return Graph({"a": Count(), "b": Count()}, [Edge("a", "b"), Edge("b", "a")], "a")


def guarded_loop(steps: int) -> Graph:
    """Return one node that repeats itself under a condition of the language."""
    return Graph({"a": Count()}, [Edge("a", "a", f"n < {steps}")], "a")


def chain(length: int) -> Graph:
    """Return ``length`` nodes in a row."""
    nodes = {f"step-{number}": Count() for number in range(length)}
    names = list(nodes)
    edges = [Edge(first, second) for first, second in itertools.pairwise(names)]
    return Graph(nodes, edges, names[0])


async def run_cycle(graph: Graph, steps: int, **options: Any) -> None:
    """Run ``steps`` steps of a cycle."""
    result = await graph.run({"n": 0}, limits=Limits(max_steps=steps), **options)
    assert result["n"] == steps


async def run_chain(graph: Graph, times: int) -> None:
    """Run a chain so often that all chains have the same number of steps."""
    for _ in range(times):
        await graph.run({"n": 0})


def cpu_per_step(work: Callable[[], Awaitable[None]], steps: int) -> float:
    """Return the microseconds of CPU time that one step takes."""
    started = time.process_time()
    asyncio.run(_awaited(work))
    return (time.process_time() - started) / steps * 1e6


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def main() -> None:
    """Measure, and print one line for each scenario."""
    looped, conditional = cycle(), guarded_loop(STEPS)
    chains = {length: chain(length) for length in (100, 1_000, 4_000)}
    scenarios: dict[str, Callable[[], Awaitable[None]]] = {
        "cycle, nobody listens": lambda: run_cycle(looped, STEPS),
        "cycle, one listener": lambda: run_cycle(looped, STEPS, emit=ignore),
        "loop with a condition": lambda: run_chain(conditional, 1),
        **{
            f"chain of {length}": lambda length=length: run_chain(  # type: ignore[misc]  # bound early
                chains[length], STEPS // length
            )
            for length in chains
        },
    }
    ratios: dict[str, list[float]] = {name: [] for name in scenarios}
    costs: dict[str, list[float]] = {name: [] for name in scenarios}
    for _ in range(ROUNDS):
        for name, work in scenarios.items():
            floor = cpu_per_step(lambda: bare(STEPS), STEPS)
            cost = cpu_per_step(work, STEPS)
            costs[name].append(cost)
            ratios[name].append(cost / floor)
    print(f"python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}, {ROUNDS} rounds")
    print(f"{'scenario':26}{'us/step':>9}{'x bare':>9}{'lowest':>9}{'highest':>9}")
    for name, values in ratios.items():
        middle = statistics.median(values)
        print(
            f"{name:26}{statistics.median(costs[name]):9.2f}{middle:9.1f}"
            f"{min(values):9.1f}{max(values):9.1f}"
        )


if __name__ == "__main__":
    main()
