"""What loading a workflow file costs as it grows: the ratio of 4,000 steps to 1,000.

Run it with ``python benchmarks/loading.py``. Each figure is the least CPU time of several rounds, per
way of writing; linear is 4.
"""

from __future__ import annotations

import time

from teff.workflow import loads

ROUNDS = 3
SMALL, LARGE = 1_000, 4_000


def idioms(steps: int) -> str:
    """Return a file of so many idioms."""
    step = "  - transform: {action: value, value: 1, output_key: x}\n"
    return "steps:\n" + step * steps


def guarded(steps: int) -> str:
    """Return a file of idioms with conditions and retries beside them."""
    step = "  - transform: {action: now}\n    when: x!=1\n    retry: {max_retries: 2}\n"
    return "steps:\n  - transform: {action: now}\n" + step * (steps - 1)


def agents(steps: int) -> str:
    """Return a file of pieces that are several nodes each."""
    head = "default_provider: ollama\ndefault_model: m\nsteps:\n"
    return head + "  - agent: {system: x}\n" * steps


def nodes(steps: int) -> str:
    """Return a file of nodes with ids, and edges between them."""
    written = [
        f"  - {{id: n{number}, type: transform, config: {{action: now}}}}\n"
        for number in range(steps)
    ]
    edges = [
        f"  - {{from: n{number}, to: n{number + 1}, condition: x=1}}\n"
        for number in range(steps - 1)
    ]
    return f"steps:\n{''.join(written)}edges:\n{''.join(edges)}"


def seconds(text: str) -> tuple[float, float]:
    """Return the least CPU time for loading a file, and for checking it."""
    loading, checking = [], []
    for _ in range(ROUNDS):
        start = time.process_time()
        workflow = loads(text)
        middle = time.process_time()
        workflow.check()
        loading.append(middle - start)
        checking.append(time.process_time() - middle)
    return min(loading), min(checking)


def main() -> None:
    """Print a line for each way of writing."""
    for make in (idioms, guarded, agents, nodes):
        (load_small, check_small), (load_large, check_large) = (
            seconds(make(steps)) for steps in (SMALL, LARGE)
        )
        print(
            f"{make.__name__:8} load {load_small:.2f} s, ratio {load_large / load_small:.1f};  "
            f"check {check_small:.2f} s, ratio {check_large / check_small:.1f}"
        )


if __name__ == "__main__":
    main()
