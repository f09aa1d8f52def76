"""What model calls cost, by a price table of the user."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

from teff.errors import ConfigError, suggest
from teff.messages import ModelUsage

__all__ = ["Price", "Prices", "price_of", "read_prices"]

_MILLION = 1_000_000

#: No answer has more tokens; what says so is not believed.
_MOST_TOKENS = 10**12


def _amount(instance: object, attribute: Any, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        raise ConfigError(
            f"price {attribute.name} must be a number, 0 or more, for a million tokens; "
            f"not {value!r}.",
            path=attribute.name,
        )


@attrs.frozen(kw_only=True)
class Price:
    """What a million tokens of a model cost, in the user's currency.

    Attributes:
        prompt: of what is sent.
        completion: of what is answered, the reasoning included.

    Raises:
        ConfigError: an amount that is negative, infinite or no number.

    >>> from teff.messages import ModelUsage
    >>> Price(prompt=2, completion=8).cost(ModelUsage(prompt_tokens=500_000, completion_tokens=0))
    1.0
    """

    prompt: float = attrs.field(validator=_amount)
    completion: float = attrs.field(validator=_amount)

    def cost(self, used: ModelUsage) -> float:
        """Return the cost of one answer.

        Tokens that a server counts in the total alone are paid as completion, or, where it does not
        say how many were sent, as the dearer of both. Counts below 0 or above a million millions
        cost what these do.
        """
        total = _believed(used.total)
        if used.prompt_tokens is None and used.completion_tokens is None:
            return total * max(self.prompt, self.completion) / _MILLION
        prompt = _believed(used.prompt_tokens or 0)
        completion = max(_believed(used.completion_tokens or 0), total - prompt)
        return (prompt * self.prompt + completion * self.completion) / _MILLION


def _believed(tokens: int) -> int:
    return min(max(tokens, 0), _MOST_TOKENS)


#: Prices by ``provider/model``, or by the model's name alone.
Prices = Mapping[str, Price]


def read_prices(given: Any) -> dict[str, Price]:
    """Return a price table from prices, or from mappings with ``prompt`` and ``completion``.

    Raises:
        ConfigError: it is no such table.

    >>> read_prices({"m": {"prompt": 1, "completion": 2}})
    {'m': Price(prompt=1, completion=2)}
    """
    if not isinstance(given, Mapping):
        raise ConfigError(
            "prices must be a dict from model, or provider/model, to its Price, not "
            f"{type(given).__name__}.",
            path="prices",
        )
    return {str(model): _read_price(str(model), price) for model, price in given.items()}


def _read_price(model: str, given: Any) -> Price:
    if isinstance(given, Price):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"the price of {model!r} must be a Price, or a dict with prompt and completion, not "
            f"{type(given).__name__}.",
            path=f"prices.{model}",
        )
    names = [field.name for field in attrs.fields(Price)]
    for name in given:
        if name not in names:
            raise ConfigError(
                f"the price of {model!r} has no {name!r}; it has {' and '.join(names)}.",
                path=f"prices.{model}.{name}",
                hint=suggest(str(name), names).strip(),
            )
    for name in names:
        if name not in given:
            raise ConfigError(
                f"the price of {model!r} needs {name}: what a million tokens cost.",
                path=f"prices.{model}.{name}",
            )
    try:
        return Price(**given)
    except ConfigError as error:
        raise ConfigError(
            f"the price of {model!r}: {error.message}", path=f"prices.{model}.{error.path}"
        ) from error


def price_of(model: str, prices: Prices) -> Price | None:
    """Return the price of ``provider/model``, else that of the model alone, else None.

    >>> price_of("ollama/llama3", {"llama3": Price(prompt=0, completion=0)})
    Price(prompt=0, completion=0)
    """
    price = prices.get(model)
    return prices.get(model.partition("/")[2]) if price is None else price
