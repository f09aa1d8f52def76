"""Graphs: nodes, edges, and the loop that runs them."""

from teff.graph.check import Problem
from teff.graph.edge import Edge
from teff.graph.graph import Graph
from teff.graph.options import RunOptions, TurnOptions
from teff.graph.turn import TurnResult

__all__ = ["Edge", "Graph", "Problem", "RunOptions", "TurnOptions", "TurnResult"]
