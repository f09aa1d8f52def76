"""What it costs to send many items through ``Map``: time against the items, and memory.

Run it with ``python benchmarks/fanout.py``. It exits with 1 where ten times the items take more than
12 times the time, or where the memory for 100,000 items exceeds 60 MB above that of the list itself.
Each size runs in a process of its own, so that no figure depends on what ran before.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from teff.graph import Graph
from teff.node import Map

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 3
MOST_TIMES = 12.0
MOST_MEGABYTES = 60.0


async def never_waits(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Do the least that gives a result."""
    return {"result": state["item"] + 1}


async def waits_once(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Let others run before there is a result."""
    await asyncio.sleep(0)
    return {"result": state["item"] + 1}


def plain(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Give a result from a thread."""
    return {"result": state["item"] + 1}


PROCESSORS: dict[str, Callable[..., Any]] = {
    "never waits": never_waits,
    "waits once": waits_once,
    "plain function": plain,
}


def measure(processor: str, size: int) -> dict[str, float]:
    """Return the seconds of CPU time, and the megabytes at the peak above the list and its run."""
    node = Map(PROCESSORS[processor], input_keys="item", output_key="results", result_key="result")
    graph = Graph({"map": node}, [], "map")
    asyncio.run(graph.run({"item": list(range(100))}))  # what is loaded and cached once
    items = list(range(size))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    result = asyncio.run(graph.run({"item": items}))
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert result["results"] == [item + 1 for item in items]
    return {"seconds": seconds, "megabytes": (peak - before) / 1024}


def measure_apart(processor: str, size: int) -> dict[str, float]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, processor, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def least_ratio(rounds: Sequence[Mapping[int, Mapping[str, float]]], size: int) -> float:
    """Return the time for ``size`` items against that for a tenth of them, measured side by side.

    The least disturbed round counts: what grows too fast does so in every round.
    """
    tenth = size // 10
    if tenth not in SIZES:
        return 0.0
    return min(measured[size]["seconds"] / measured[tenth]["seconds"] for measured in rounds)


def main() -> int:
    """Measure each kind of item, print a line for each size, and return the exit code."""
    load = os.getloadavg()[0]
    print(f"python {sys.version.split()[0]}, load {load:.1f}, best of {ROUNDS} rounds")
    print(f"{'items':16}{'count':>9}{'us/item':>9}{'x tenth':>9}{'MB':>7}")
    holds = True
    for processor in PROCESSORS:
        rounds = [{size: measure_apart(processor, size) for size in SIZES} for _ in range(ROUNDS)]
        for size in SIZES:
            seconds = min(measured[size]["seconds"] for measured in rounds)
            megabytes = max(measured[size]["megabytes"] for measured in rounds)
            times = least_ratio(rounds, size)
            shown = f"{times:.1f}" if times else ""
            per_item = seconds / size * 1e6
            print(f"{processor:16}{size:9,}{per_item:9.1f}{shown:>9}{megabytes:7.1f}")
            holds = holds and times <= MOST_TIMES and megabytes <= MOST_MEGABYTES
    bounds = f"at most {MOST_TIMES:g} times for ten times the items, {MOST_MEGABYTES:g} MB"
    print(f"{'holds' if holds else 'DOES NOT HOLD'}: {bounds}")
    return 0 if holds else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        sys.exit(main())
