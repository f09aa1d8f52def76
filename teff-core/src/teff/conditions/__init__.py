r"""The language of edge conditions: ``route=billing and not (score < 0.8 or approved)``.

A condition is text that is parsed once, when the graph is built, and asked of the state after
each step. Nothing in it is executed: there are no calls and no attributes.

**Tests.** Each names a key of the state, or a path into it (``verdict.ok``, ``items[0].price``;
see ``teff.paths``). A key that holds spaces or other signs stands in quotes and is taken literally:
``'final answer'=yes``.

=======================  ===================================================================
``key``                  filled, and neither False nor a word like "false" or "no"
``key=``                 not filled: missing, None, or an empty text, list or dict
``key!=``                filled; 0 and False are values
``key=value``            equal; ``==`` is the same
``key=one,two``          equal to one of them; an empty one (``key=one,``) means not filled
``key!=value``           the exact opposite of ``=``, with several values and a missing key too
``key>1`` (>= < <=)      in that order
``key in (one, two)``    as ``=``, and ``not in`` as ``!=``
``key contains value``   a text holds that text; a list holds an equal element; a dict that key
=======================  ===================================================================

They combine with ``not``, ``and``, ``or`` (binding in that order) and parentheses.

**Values** stand bare or in quotes. Bare text runs to a comma, a closing parenthesis, a standing
``and`` or ``or``, or the end, so ``status=in progress and retries<3`` are two tests. Where it is
compared, case, surrounding space and trailing ``.,!?;:`` do not matter: ``answer=yes`` is true of
"Yes!". Quoted text is the text itself, exactly: ``mode='read and write'``. A quote inside is written
``''`` between single quotes and ``\"`` between double ones.

**Numbers** are compared as numbers wherever both sides look like one: ``n=1`` is true of 1, 1.0 and
"1.0". In an order a boolean counts as 1 or 0; in ``=`` it equals only ``true`` or ``false``. Two
sides that are both text and no numbers are ordered as text, which suits ISO dates; a number and a
text have no order, and the test is false.

**Words.** ``true``, ``false`` and ``null`` are True, False and None, and also those words as text.
The words by which a lone key says no are "false", "no", "n", "off", "none" and "null".

**Missing keys.** A test of a missing key is false, but ``key!=value`` is true; so is
``key!=null``. To ask whether there is a value write ``key!=``.

**Lists and dicts** equal nothing but an empty value: ask with ``contains``, or by index.

>>> evaluate("route=billing and score>=0.8", {"route": "Billing.", "score": "0.9"})
True
"""

from teff.conditions.evaluate import Predicate, compile_condition, evaluate, keys_of
from teff.conditions.literal import literal
from teff.conditions.parse import parse
from teff.conditions.tree import (
    And,
    Compare,
    Condition,
    Contains,
    In,
    Key,
    Not,
    Or,
    Truthy,
    Value,
    quote,
)

__all__ = [
    "And",
    "Compare",
    "Condition",
    "Contains",
    "In",
    "Key",
    "Not",
    "Or",
    "Predicate",
    "Truthy",
    "Value",
    "compile_condition",
    "evaluate",
    "keys_of",
    "literal",
    "parse",
    "quote",
]
