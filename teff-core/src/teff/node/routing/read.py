"""From a reply to a name, by the strongest evidence in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby

from teff.node.routing.clauses import Clause, clauses_of
from teff.node.routing.cleaning import answer_text, plain_prose
from teff.node.routing.names import RouteNames, route_names
from teff.node.routing.values import read_json, read_tags

__all__ = ["last_known_word", "read_route"]


def read_route(reply: str, names: Iterable[str]) -> str:
    """Return the one name that a model's reply chooses, or "" where it chooses none.

    Thinking parts and chat tokens go first. Then the strongest evidence decides: a reply that is a
    name; a JSON value; a tag; what follows a label such as ``Next agent:``; a name that stands
    alone in its line or clause; a cue ("send this to …", "… should answer"); the last clause. What
    is denied does not count, nor what stands in a reason or an aside. Two names without such a
    difference are no decision, neither are an unknown name or an inflected word.

    Names are compared after NFKC and casefold, longest first; ``_``, ``-``, space and camel case
    are alike; a name is never a part of a longer word.

    >>> read_route("That is technical, not billing.", ["billing", "technical", "finish"])
    'technical'
    >>> read_route("billing or technical", ["billing", "technical", "finish"])
    ''

    Args:
        reply: what the model wrote, of any length.
        names: the registered names, with the word that ends the conversation. Of two that are
            compared as one, such as ``qa`` and ``QA``, write one.

    Returns:
        A name as it is registered, or "". Nothing in ``reply`` makes it raise.
    """
    known = route_names(names)
    if name := known.whole(reply):
        return name
    text = answer_text(reply, lru_cache(maxsize=256)(known.whole))
    if name := known.whole(text):
        return name

    def read_text(value: str) -> str:
        return _read_prose(value, known)

    for read_form in (read_json, read_tags):
        found = read_form(text, known, read_text)
        if found is not None:
            return found
    return _read_prose(text, known)


def last_known_word(reply: str, names: Iterable[str]) -> str:
    """Return the last word of a reply that is one of ``names``, or "".

    Words end at spaces, commas and colons; enclosing punctuation is taken off. Denials and all else
    that `read_route` weighs play no part.

    >>> last_known_word("Not the coder: 'Planner'!", ["planner", "coder"])
    'planner'
    """
    return route_names(names).last_word(reply)


def _read_prose(text: str, known: RouteNames) -> str:
    clauses = [clause for clause in clauses_of(known.mark(plain_prose(text))) if not clause.remark]
    labelled = [clause for clause in clauses if clause.label]
    groups = groupby(labelled, key=lambda clause: clause.label)
    announced = {_strongest(list(group)) for _, group in groups} - {""}
    if len(announced) > 1:
        return ""
    mark = announced.pop() if announced else _strongest(clauses)
    return known.name(mark) if mark else ""


def _strongest(clauses: Sequence[Clause]) -> str:
    """Return the mark of the one name that clauses choose, or ""."""
    main = [clause for clause in clauses if not clause.aside and not clause.says_why]
    said = [clause for clause in main if not clause.asks]
    for part, ending in ((said, main), (main, main), (clauses, clauses)):
        if any(clause.chosen for clause in part):
            alone = _chosen_by(clause for clause in part if clause.bare)
            pointed_at = _chosen_by(clause for clause in part if clause.pointed_at)
            found = alone or pointed_at or _chosen_last(ending)
            return found.pop() if len(found) == 1 else ""
    return ""


def _chosen_by(clauses: Iterable[Clause]) -> set[str]:
    return {mark for clause in clauses if len(clause.chosen) == 1 for mark in clause.chosen}


def _chosen_last(clauses: Sequence[Clause]) -> set[str]:
    """Return what the last clause chooses; politeness and denials after it choose nothing."""
    denied: set[str] = set()
    for clause in reversed(clauses):
        if clause.chosen or not (clause.closing or clause.denied):
            return set(clause.chosen - denied)
        denied |= clause.denied
    return set()
