"""Reading a model's reply: which of the registered names it chooses."""

from teff.node.routing.names import folded_name
from teff.node.routing.read import last_known_word, read_route

__all__ = ["folded_name", "last_known_word", "read_route"]
