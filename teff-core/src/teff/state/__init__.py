"""The state of a run: a dict of frozen values, and how updates change it."""

from typing import TYPE_CHECKING

from teff.lazy import lazy_names
from teff.state.filled import is_filled
from teff.state.fold import combined, in_one, not_replayable, note_written
from teff.state.frozen import FrozenDict, FrozenList, FrozenSet, freeze, thaw
from teff.state.operators import DELETE, Append, Overwrite
from teff.state.reducers import (
    Reducer,
    Reducers,
    changed_keys,
    compile_reducers,
    effects_of,
    freeze_update,
    merge,
    merge_into,
    plain_update,
    read_update,
    rebound_keys,
)

if TYPE_CHECKING:
    from teff.state.check import StateCheck
    from teff.state.keys import StateKey
    from teff.state.schema import StateSchema, reducers_from_schema
    from teff.state.typed import State, state_schema_to_jsonschema, validate_state
    from teff.state.written import state_schema_to_mapping

__all__ = [
    "DELETE",
    "Append",
    "FrozenDict",
    "FrozenList",
    "FrozenSet",
    "Overwrite",
    "Reducer",
    "Reducers",
    "State",
    "StateCheck",
    "StateKey",
    "StateSchema",
    "changed_keys",
    "combined",
    "compile_reducers",
    "effects_of",
    "freeze",
    "freeze_update",
    "in_one",
    "is_filled",
    "merge",
    "merge_into",
    "not_replayable",
    "note_written",
    "plain_update",
    "read_update",
    "rebound_keys",
    "reducers_from_schema",
    "state_schema_to_jsonschema",
    "state_schema_to_mapping",
    "thaw",
    "validate_state",
]

_HOMES = {
    "teff.state.check": ("StateCheck",),
    "teff.state.keys": ("StateKey",),
    "teff.state.schema": ("StateSchema", "reducers_from_schema"),
    "teff.state.typed": ("State", "state_schema_to_jsonschema", "validate_state"),
    "teff.state.written": ("state_schema_to_mapping",),
}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
