"""Workflow files: YAML to `Workflow`, with every error at its file, line and column."""

from teff.workflow.load import from_yaml, load, loads
from teff.workflow.workflow import CODES, Finding, Workflow

__all__ = ["CODES", "Finding", "Workflow", "from_yaml", "load", "loads"]
