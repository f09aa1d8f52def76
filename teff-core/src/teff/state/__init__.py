"""The state of a run: a dict of frozen values, and how updates change it."""

from teff.state.check import StateCheck
from teff.state.filled import is_filled
from teff.state.fold import combined, in_one, not_replayable, note_written
from teff.state.frozen import FrozenDict, FrozenList, FrozenSet, freeze, thaw
from teff.state.keys import StateKey
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
