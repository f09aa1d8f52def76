"""Static checks: what can be known of a graph before its first step.

Nothing of the workflow is executed: no node, no condition on a state of a user, no function. What
the codes of the findings mean stands in `CODES`.
"""

from teff.graph.check.errors import find_errors
from teff.graph.check.needs import (
    Need,
    check_models_and_tools,
    find_needs,
    missing_models_and_tools,
)
from teff.graph.check.problem import CODES, Problem

__all__ = [
    "CODES",
    "Need",
    "Problem",
    "check_models_and_tools",
    "find_errors",
    "find_needs",
    "missing_models_and_tools",
]
