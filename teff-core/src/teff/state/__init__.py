"""The state of a run: a dict of frozen values, and how updates change it."""

from teff.state.filled import is_filled
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
    reducers_from_schema,
)

__all__ = [
    "DELETE",
    "Append",
    "FrozenDict",
    "FrozenList",
    "FrozenSet",
    "Overwrite",
    "Reducer",
    "Reducers",
    "changed_keys",
    "compile_reducers",
    "effects_of",
    "freeze",
    "freeze_update",
    "is_filled",
    "merge",
    "merge_into",
    "plain_update",
    "read_update",
    "rebound_keys",
    "reducers_from_schema",
    "thaw",
]
