"""The idioms that ask: a person, whose answer is judged, or a model, for fields of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from teff.errors import ConfigError
from teff.flow import Flow
from teff.node import LLM, Ask, Extract, Interrupt
from teff.node.ask import MODEL_OPTIONS, AskOptions
from teff.workflow.idiom import Idiom, described, node_maker, required
from teff.workflow.options import fields_of
from teff.workflow.part import Part

if TYPE_CHECKING:
    from teff.workflow.steps import Steps

__all__ = ["CLASSIFIER", "QUESTIONS", "STRATEGY"]

#: The options of a strategy, and those of the model that may judge for it, under ``llm``.
STRATEGY = fields_of(AskOptions, without=MODEL_OPTIONS)
CLASSIFIER = {name: hint for name, hint in fields_of(AskOptions).items() if name in MODEL_OPTIONS}

_INTERRUPT = fields_of(Interrupt)
_EXTRACT = {
    **fields_of(LLM, without=["json_schema", "output_type"]),
    **fields_of(Extract.model, without=["options"]),
}


def _interrupt(flow: Flow, part: Part, steps: Steps) -> None:
    """Ask a person, and judge the answer."""
    part.check_keys([*_INTERRUPT, "strategy"], what=described(part), kind="option")
    _asked(flow, part.without(["strategy"]), _strategy(part["strategy"], part, steps), steps)


def _ask(flow: Flow, part: Part, steps: Steps) -> None:
    """Ask a person, and judge the answer by what stands under ``accept`` or beside the question."""
    known = [*_INTERRUPT, "accept", "strategy", "llm", *STRATEGY]
    part.check_keys(known, what=described(part), kind="option")
    accept, beside = _accept(part)
    if accept is None:
        judged = part.without([name for name in part.entries() if name not in beside])
        _asked(flow, part.without(beside), _strategy(judged, part, steps), steps)
    else:
        question = part.without(["accept", "strategy"])
        if beside:
            raise part[beside[0]].error(
                f"{beside[0]!r} stands beside {accept.named()}, not below it.",
                f"Indent it to make it a part of {accept.named()}.",
            )
        _asked(flow, question, _strategy(accept, part, steps), steps)


def _accept(part: Part) -> tuple[Part | None, list[str]]:
    """Return the mapping that says how an answer is judged, and what says so without one."""
    nested = [
        name
        for name in ("accept", "strategy")
        if name in part and isinstance(part[name].value, dict)
    ]
    if len(nested) > 1:
        raise part["strategy"].error("give 'accept' or 'strategy', not both.")
    if "accept" in part and not nested:
        part["accept"].entries()
    accept = part[nested[0]] if nested else None
    beside = [name for name in part.entries() if name in {*STRATEGY, "llm"} and name not in nested]
    return accept, beside


def _asked(flow: Flow, question: Part, accept: Ask, steps: Steps) -> None:
    options = steps.references.read(question, _INTERRUPT, what=described(question))
    required(question, "key")
    flow.interrupt(options.pop("key"), options.pop("prompt", ""), accept=accept, **options)


def _interrupt_loop(flow: Flow, part: Part, steps: Steps) -> None:
    """Ask a person until the answer passes; the body runs after each refusal."""
    fields = {name: _INTERRUPT[name] for name in ("id", "key", "prompt")}
    written = ("strategy", "accept", "body", "done")
    part.check_keys([*fields, *written], what=described(part), kind="option")
    options = steps.references.read(part.without(written), fields, what=described(part))
    key = required(part, "key")
    accept = part.find("accept") or required(part, "strategy")
    if "accept" in part and "strategy" in part:
        raise part["strategy"].error("give 'accept' or 'strategy', not both.")
    options.setdefault("id", key.id())
    flow.interrupt_loop(
        accept=_strategy(accept, part, steps),
        body=steps.chain(required(part, "body")),
        done=steps.chain(required(part, "done")),
        **options,
    )


def _strategy(part: Part, step: Part, steps: Steps) -> Ask:
    """Return how an answer is judged."""
    part.check_keys([*STRATEGY, "llm"], what=f"the strategy of {described(step)}")
    told = part.without(["llm"])
    options = steps.references.read(told, STRATEGY, what=f"the strategy of {described(step)}")
    place = part
    if "llm" in part:
        place = part["llm"]
        options["llm"] = steps.references.read(place, CLASSIFIER, what="'llm' of the strategy")
    with part.errors_here():
        ask = Ask.from_mapping(options)
    if ask.needs_classifier():
        steps.references.expect_model(place, options.get("llm", {}), what=described(step))
    return ask


def _extract(flow: Flow, part: Part, steps: Steps) -> None:
    """Add the model that extracts fields, and what fills those that it leaves empty."""
    what = described(part)
    part.check_keys([*_EXTRACT, "fallbacks"], what=what, kind="option")
    options = steps.references.read(part.without(["fallbacks"]), _EXTRACT, what=what)
    steps.references.expect_model(part, options, what=what)
    required(part, "schema")
    options.setdefault("id", _free_id(flow, f"{part.place.source.prefix}extract"))
    recipe = Extract.model(**options)
    fallbacks = part["fallbacks"].entries() if "fallbacks" in part else {}
    for field, value in fallbacks.items():
        with value.errors_here():
            if value.value is None:
                raise ConfigError(f"the fallback of {field!r} has no value.")
            recipe.fallback(field, value=value.value)
    flow.extract(recipe)


def _free_id(flow: Flow, name: str) -> str:
    if name not in flow.nodes:
        return name
    number = 2
    while f"{name}_{number}" in flow.nodes:
        number += 1
    return f"{name}_{number}"


_JUDGED: Mapping[str, Any] = {"accept": "strategy", "strategy": "strategy"}

#: Idioms by name.
QUESTIONS: Mapping[str, Idiom] = {
    "ask": Idiom(
        add=_ask,
        fields={**{n: h for n, h in STRATEGY.items() if n != "strategy"}, **_INTERRUPT},
        parts={"accept": "strategy", "strategy": "strategy_or_name", "llm": "classifier"},
        needed=["key"],
        about=(Interrupt,),
    ),
    "extract": Idiom(
        add=_extract,
        fields=_EXTRACT,
        parts={"fallbacks": "any_mapping"},
        needed=["schema"],
        about=(Extract.model, LLM),
    ),
    "interrupt": Idiom(
        make=node_maker(Interrupt),
        add=_interrupt,
        piece_keys=["strategy"],
        fields=_INTERRUPT,
        parts={"strategy": "strategy"},
        needed=["key"],
        about=(Interrupt,),
    ),
    "interrupt_loop": Idiom(
        add=_interrupt_loop,
        fields={name: _INTERRUPT[name] for name in ("id", "key", "prompt")},
        parts={**_JUDGED, "body": "steps", "done": "steps"},
        needed=["key", "body", "done"],
        about=(Interrupt,),
    ),
}
