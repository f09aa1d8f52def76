"""A release: a model leads it, a policy holds the model, and a person lets it go or sends it back."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from teff import (
    DELETE,
    ExecContext,
    Flow,
    GraphInterrupt,
    Interrupt,
    RunResult,
    Supervisor,
    agent_step,
)
from teff.checkpoint import MemoryCheckpointer
from teff.messages import user

REQUEST = "Release 2.1: search by tag, a faster start, a new login."

LEAD = """\
You lead a release. Name who acts next.
After tests that failed: fix to repair the code, plan to leave something out.
After the notes: approve to have a person decide, notes to write them again."""


class ReleaseLead(Supervisor):
    """Tests are green before the notes, notes are there before the approval, and it before the release.

    `allowed` is the policy. The model is asked where it leaves a choice, and what it proposes counts
    where it is allowed.
    """

    def allowed(self, state: Mapping[str, Any]) -> tuple[str, ...]:
        """Return who may act next; the first one does where the model names none of them."""
        approval, tests = state.get("approval"), state.get("tests")
        if state.get("released"):
            return (self.finish,)
        if not state.get("plan") or (approval is not None and not ships(approval)):
            return ("plan",)
        if not tests:
            return ("test",)
        if tests != "green":
            return ("fix", "plan")
        if not state.get("notes"):
            return ("notes",)
        return ("approve", "notes") if approval is None else ("release",)

    def decide(self, state: Mapping[str, Any], proposal: str) -> str:
        """Return the proposal where the policy allows it."""
        allowed = self.allowed(state)
        return proposal if proposal in allowed else allowed[0]

    def _needs_model(self, state: Mapping[str, Any]) -> bool:
        return len(self.allowed(state)) > 1


def ships(approval: object) -> bool:
    """Say whether an answer lets the release go; any other one is what must change."""
    return str(approval).strip(" .!").casefold() == "ship"


def run_tests(ctx: ExecContext, state: Mapping[str, Any]) -> dict[str, Any]:
    """Stand for your tests: these are red until something was fixed."""
    return {"tests": "green" if state.get("fix") else "test_login failed"}


def test_again(ctx: ExecContext, state: Mapping[str, Any]) -> dict[str, Any]:
    """Forget the result of tests of other code."""
    return {"tests": DELETE}


def start_over(ctx: ExecContext, state: Mapping[str, Any]) -> dict[str, Any]:
    """Forget what was about the plan before, the rejection too."""
    return dict.fromkeys(("tests", "notes", "approval"), DELETE)


def publish(ctx: ExecContext, state: Mapping[str, Any]) -> dict[str, Any]:
    """Stand for your publishing: the only step that ends the release, and only after "ship"."""
    return {"released": state["notes"]}


def release_flow(test: Callable[..., Any] = run_tests) -> Flow:
    """Return the flow; ``test`` is the step that writes ``tests``: ``green``, or what failed."""
    flow = Flow("release", default_provider="local", default_model="smollm2-135m-instruct")
    planner = agent_step(
        "Say in one or two sentences what goes into the release. Heed the results and the remark.",
        "plan",
        sections={"tests": "Results of the tests", "approval": "Remark of the approver"},
        max_tokens=60,
    )
    fixer = agent_step(
        "Say in one sentence how to repair what failed.",
        "fix",
        sections={"plan": "Plan", "tests": "Results of the tests"},
        max_tokens=60,
    )
    writer = agent_step(
        "Write release notes of one to three sentences.",
        "notes",
        sections={"plan": "Plan"},
        max_tokens=80,
    )
    question = "{notes}\n\nAnswer ship to release this, or say what must change."
    agents: dict[str, Any] = {
        "plan": [planner, start_over],
        "test": test,
        "fix": [fixer, test_again],
        "notes": writer,
        "approve": Interrupt(key="approval", prompt=question),
        "release": publish,
    }
    lead = ReleaseLead(
        system=LEAD,
        sections={"tests": "Results of the tests", "notes": "Notes"},
        agents=list(agents),
        done_keys="released",
        max_rounds=20,
        temperature=0,
    )
    return flow.step(lead, id="lead").route(lead.output_key, agents=agents)


async def release(request: str, answer: Callable[[str], str], **options: Any) -> RunResult:
    """Run a release to its end; ``options`` are those of `Graph.run`.

    Args:
        request: what is to be released.
        answer: asks a person; called with the question, each time the run comes to the gate.
        **options: a ``checkpointer`` and ``checkpoint_id`` of your own among them.
    """
    options = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "release", **options}
    async with release_flow().compile() as graph:
        while True:
            try:
                return await graph.run({"messages": [user(request)]}, **options)
            except GraphInterrupt as pause:
                options["resume"] = answer(f"{pause.prompt}\n> ")


def main() -> None:
    """Ask on the terminal, and print what was released."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("request", nargs="?", default=REQUEST)
    parser.add_argument("--provider", dest="default_provider", default=argparse.SUPPRESS)
    parser.add_argument("--model", dest="default_model", default=argparse.SUPPRESS)
    result = asyncio.run(release(answer=input, **vars(parser.parse_args())))
    print(f"[{result.stop_reason}] released: {result.get('released', 'nothing')}")


if __name__ == "__main__":
    main()
