"""Chat with the workshop: each line of the standard input is one message."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from teff import TurnResult
from teff.checkpoint import MemoryCheckpointer
from teff.workflow import load

FLOW = Path(__file__).with_name("flow.yaml")


async def chat(messages: Iterable[str], **options: Any) -> AsyncIterator[TurnResult]:
    """Give what comes of each message; ``options`` are those of `Workflow.turn`.

    The conversation and the catalogue stay from turn to turn. Which agents have acted, what they
    wrote and how many rounds there were belongs to one turn, and is gone in the next.
    """
    workflow = load(FLOW)
    options = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "chat", **options}
    async with workflow.graph:
        for message in messages:
            yield await workflow.turn(message, **options)


async def main() -> None:
    """Print the reply to each line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", dest="default_provider", default=argparse.SUPPRESS)
    parser.add_argument("--model", dest="default_model", default=argparse.SUPPRESS)
    options = vars(parser.parse_args())
    async for turn in chat(filter(None, map(str.strip, sys.stdin)), **options):
        print(f"[{turn.stop_reason}] {turn.reply}\n", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
