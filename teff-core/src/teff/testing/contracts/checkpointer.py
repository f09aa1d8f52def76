"""The contract of a store of runs, as a test class to inherit."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from teff.testing.contracts.capabilities import capabilities
from teff.testing.contracts.leases import LeaseChecks
from teff.testing.contracts.people import PeopleChecks
from teff.testing.contracts.records import RecordChecks
from teff.testing.contracts.survival import SurvivalChecks

__all__ = ["CheckpointerContract"]


class CheckpointerContract(RecordChecks, LeaseChecks, PeopleChecks, SurvivalChecks):
    """What every checkpointer must do, as tests.

    Inherit it, say how your store is opened, and run pytest::

        class TestMine(CheckpointerContract):
            @pytest.fixture
            def make_store(self, tmp_path):
                return functools.partial(MyCheckpointer, tmp_path / "runs.db")

    ``make_store`` gives a function that opens the store: within one test every time the same one,
    empty in the next test. It may be a coroutine function. A store with a coroutine method
    ``aclose`` is closed after use. Where the function can be sent to another process
    (``functools.partial`` of a class can, a ``lambda`` cannot), several processes are tried too.

    What a store need not have is found out, see `capabilities`: a check of something that is
    missing is skipped, and says what is missing. Two more fixtures may be given:

    - ``expire_leases``: a function of a store, after whose call the store takes every lease that
      was given out until now for run out; it moves the store's clock, for example.
    - ``damage``: a function of a run id and an owner that changes a byte of what is stored of the
      run, while no store is open.

    Both may be coroutine functions. A check that does not apply is left out with
    ``test_name = None`` in the class.
    """

    #: How many sequences of calls are tried against the model, and how many calls each has.
    model_examples = 25
    model_steps = 30

    @pytest.fixture
    def make_store(self) -> Callable[[], Any]:
        """Return a function that opens the store that is tested."""
        raise NotImplementedError(
            "give the contract a fixture make_store that returns a function which opens your store"
        )

    @pytest.fixture
    def expire_leases(self) -> Callable[..., Any] | None:
        """Return a function of a store that lets all leases run out, or None."""
        return None

    @pytest.fixture
    def damage(self) -> Callable[..., Any] | None:
        """Return a function of a run id and an owner that damages the run, or None."""
        return None

    def test_what_the_store_can_do_is_told(
        self, make_store: Callable[[], Any], request: pytest.FixtureRequest
    ) -> None:
        """Put what is there and what is missing into the reports: ``-rP``, ``--junit-xml``."""
        found = capabilities(make_store)
        request.node.add_report_section("call", "capabilities", "\n".join(map(str, found)))
        request.node.user_properties += [(each.name, each.missing or "present") for each in found]

    def test_any_calls_in_any_order_do_what_the_model_does(
        self, make_store: Callable[[], Any]
    ) -> None:
        """Compare the store with a model; needs ``hypothesis``."""
        if find_spec("hypothesis") is None:
            pytest.skip("hypothesis is not installed: pip install 'teff-core[testing]'")
        from teff.testing.contracts.model import run_model

        run_model(make_store, examples=self.model_examples, steps=self.model_steps)
