"""A research desk: a model has texts searched and a report written, under guards and reviews."""

from __future__ import annotations

import argparse
import asyncio
import re
from pathlib import Path
from typing import Any

from teff import Flow, RunResult
from teff.node import ToolCall
from teff.node.delegation import Guarded, Verdict, allow, block, replace
from teff.tool import tool

TEXTS = Path(__file__).with_name("texts")
QUESTION = "How long does green tea keep, and what if a tin arrives wet?"

DESK = """\
You answer questions of customers of a tea shop, from its texts and from nothing else.
Have the texts searched, once for each thing that is asked; then have a report written from what was found,
and answer with it. Say what could not be found."""

_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")


@tool("search_texts", register=False)
def search_texts(words: str) -> list[dict[str, str]]:
    """Return the texts of the shop that hold any of the words, at most two, the best first."""
    wanted = _words(words)
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(TEXTS.glob("*.md"))}
    found = {name: len(wanted & _words(text)) for name, text in texts.items()}
    best = sorted((name for name in found if found[name]), key=lambda name: -found[name])
    return [{"name": name, "text": texts[name]} for name in best[:2]]


def _words(text: str) -> set[str]:
    # Short words stand in every text.
    return set(re.findall(r"\w{4,}", text.casefold()))


def from_a_text(value: Any, about: Guarded) -> Verdict:
    """Let nothing pass as found that does not say in which of the texts."""
    names = [path.name for path in TEXTS.glob("*.md")]
    if about.name != "search" or any(name in str(value) for name in names):
        return allow()
    return block(f"It does not name the text that it is from: one of {', '.join(sorted(names))}.")


def without_addresses(value: Any) -> Verdict:
    """Take the e-mail addresses of colleagues out of whatever an agent answers."""
    cleaned = _cleaned(value)
    return allow() if cleaned == value else replace(cleaned)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _ADDRESS.sub("[address]", value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return value


def desk_flow() -> Flow:
    """Return the flow: one step; its answer is under ``output``, the record under ``output_steps``.

    The search is steps: a tool looks into the texts, whatever the model can do, and a model answers
    from what it found. The writer is a role.
    """
    search = Flow("search").step(
        ToolCall("search_texts", args={"words": "{input}"}, output_key="texts")
    )
    search.llm(
        system="Answer in one or two sentences, from the texts alone. "
        "Begin with the name of the text, such as brewing.md.",
        prompt="{input}\n\nTexts:\n{texts}",
        output_key="found",
        max_tokens=80,
    )
    agents = {
        "search": {
            "description": "Finds what the texts of the shop say of one thing.",
            "flow": search,
            "output_key": "found",
        },
        "writer": {
            "description": "Writes the report. Its task has to hold the question and what was found.",
            "system": "Write a report of two to four sentences from what you are given.",
            "max_tokens": 120,
        },
    }
    flow = Flow("research", default_provider="local", default_model="smollm2-135m-instruct")
    return flow.delegate(
        DESK,
        agents=agents,
        max_delegations=6,
        per_agent={"search": 4, "writer": 3},
        review=True,
        guards={"agent_result": [from_a_text, without_addresses]},
        temperature=0,
        max_tokens=120,
        id="desk",
    )


async def research(question: str, **options: Any) -> RunResult:
    """Have a question answered; ``options`` are those of `Graph.run`."""
    async with desk_flow().compile() as graph:
        return await graph.run({"input": question}, tools=[search_texts], **options)


def main() -> None:
    """Print what was done, and the answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--provider", dest="default_provider", default=argparse.SUPPRESS)
    parser.add_argument("--model", dest="default_model", default=argparse.SUPPRESS)
    result = asyncio.run(research(**vars(parser.parse_args())))
    for step in result["output_steps"]["steps"]:
        review = f", {step['review']}" if step["review"] else ""
        print(f"{step['step_number']}. {step['action']}: {step['status']}{review}")
    print(f"[{result.stop_reason}] {result['output']}")


if __name__ == "__main__":
    main()
