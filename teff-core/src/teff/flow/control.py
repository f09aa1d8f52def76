"""The methods of `Flow` that choose the way: branches, loops, and questions to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import teff.node as nodes
from teff.errors import ConfigError
from teff.flow.chain import Case, Chain, as_node, as_nodes, differs, equals
from teff.flow.wiring import Wiring
from teff.graph.options import check_text

if TYPE_CHECKING:
    from teff.node import Ask, Extract

__all__ = ["ControlSteps"]


class ControlSteps(Wiring):
    """Methods that add several nodes, and the conditions on the ways between them."""

    def branch(self, key: str, *cases: Case, default: Chain | None = None) -> Self:
        """Go one of several ways by the value under ``key``; the next step joins them again.

        Args:
            key: a state key, or a dotted path.
            *cases: looked at in order; see `Case`.
            default: for every other value; without it the run ends there.

        Raises:
            ConfigError: there is no step before, or no case, or a case without steps.
        """
        self._need_predecessor("branch()")
        if not cases:
            raise ConfigError(f"branch({key!r}) needs at least one Case.")
        for case in cases:
            if not isinstance(case, Case):
                raise ConfigError(
                    f"branch({key!r}) takes cases such as Case('yes').add(step), "
                    f"not {type(case).__name__}."
                )
            if not case.steps:
                raise ConfigError(f"Case({case.value!r}) of branch({key!r}) has no steps.")
        start, ends = list(self._open), []
        for case in cases:
            self._open = start
            self._chain(
                [(as_node(step), name) for step, name in case.steps], when=equals(key, case.value)
            )
            ends += self._open
        if default is not None:
            self._open = start
            self._chain([(node, None) for node in as_nodes(default)])
            ends += self._open
        self._open = ends
        return self

    def loop(
        self,
        key: str,
        until: object,
        done: Chain,
        body: Chain,
        *,
        max_rounds: int | None = None,
        id: str | None = None,
    ) -> Self:
        """Repeat ``body`` until the value under ``key`` is ``until``; then go on with ``done``.

        Without ``max_rounds`` the last step is the decider: it runs again after each round of the
        body, and nothing but its decision ends the loop. With ``max_rounds`` the body is one `Loop`
        node that runs at least once and writes ``key`` itself.

        Args:
            key: a state key, or a dotted path.
            until: the value that ends the loop.
            done: the steps after it.
            body: the steps of a round.
            max_rounds: how often the body may run.
            id: of the `Loop` node; with ``max_rounds`` only.

        Raises:
            ConfigError: there is no step before, or no steps to repeat or to go on with.
        """
        after, repeated = as_nodes(done), as_nodes(body)
        if not after or not repeated:
            raise ConfigError(f"loop({key!r}) needs steps to repeat and steps to go on with.")
        if max_rounds is not None:
            self.step(nodes.Loop(repeated, key=key, until=until, max_rounds=max_rounds), id)
            self._chain([(node, None) for node in after])
            return self
        if id is not None:
            raise ConfigError(f"loop({key!r}) without max_rounds is no node, so it takes no id.")
        decider = self._decider(f"loop({key!r}) without max_rounds")
        return self._repeat(key, until, after=done, body=body, back_to=decider)

    def interrupt(
        self,
        key: str,
        prompt: str = "",
        *,
        accept: Ask | None = None,
        id: str | None = None,
        **config: Any,
    ) -> Self:
        """Ask a person; the answer goes into the state under ``key``.

        Args:
            key: what is asked for.
            prompt: a template for the question.
            accept: how the answer is judged: the nodes ``<id>-classifier``, where a model judges,
                and ``<id>-validate`` follow, and the decision stands under its ``decision_key``.
            id: the node's id.
            **config: further options of `Interrupt`.
        """
        self.step(nodes.Interrupt(key=key, prompt=prompt, **config), id)
        if accept is not None:
            self._judge(accept, key, self._open[0][0])
        return self

    def ask(
        self,
        key: str,
        prompt: str = "",
        *,
        accept: Ask | None = None,
        id: str | None = None,
        **how: Any,
    ) -> Self:
        """Ask a person and judge the answer: `interrupt` with the options of an `Ask`.

        >>> from teff.flow import Flow
        >>> flow = Flow().ask("ship", "Ship it?", equals="yes", pass_value="go", id="ship")
        >>> list(flow.nodes)
        ['ship', 'ship-validate']
        """
        if (accept is None) == (not how):
            raise ConfigError(f"ask({key!r}) takes an Ask, or the options of one.")
        return self.interrupt(key, prompt, accept=accept or nodes.Ask(**how), id=id)

    def interrupt_loop(
        self,
        key: str,
        *,
        accept: Ask,
        body: Chain,
        done: Chain,
        prompt: str = "",
        id: str | None = None,
    ) -> Self:
        """Ask a person until the answer passes; after each refusal the body runs first.

        The nodes are ``<id>-interrupt``, ``<id>-classifier`` where a model judges, and
        ``<id>-validate``. An answer that is unclear is asked for again at once.

        Args:
            key: what is asked for.
            accept: how the answer is judged.
            body: the steps after a refusal.
            done: the steps after an answer that passes.
            prompt: a template for the question.
            id: what the ids of the nodes begin with; ``key`` where it is None.

        Raises:
            ConfigError: an id is taken, or there are no steps to repeat or to go on with.
        """
        name = id or key
        self.step(nodes.Interrupt(key=key, prompt=prompt), f"{name}-interrupt")
        self._judge(accept, key, name)
        judge, decision = self._open[0][0], accept.decision_key
        if accept.clarify_value:
            self._open = [(judge, equals(decision, accept.clarify_value))]
            self._connect(f"{name}-interrupt")
        self._open = [(judge, None)]
        back = f"{name}-interrupt"
        return self._repeat(decision, accept.pass_value, after=done, body=body, back_to=back)

    def extract(self, recipe: Extract) -> Self:
        """Add the nodes of an `Extract`: a model that extracts, and what fills in the rest."""
        if not isinstance(recipe, nodes.Extract):
            raise ConfigError(f"extract() takes an Extract(...), not {type(recipe).__name__}.")
        for node in recipe.nodes():
            self.step(node)
        return self

    def label(self, name: str) -> Self:
        """Name the last step, after a `loop` its decider, for the ``goto`` of a later `command`.

        Raises:
            ConfigError: there is no such step, or the name is taken.
        """
        check_text("name", name, optional=False)
        if name in self._labels or name in self._nodes:
            raise ConfigError(f"label {name!r} is taken already; choose another name.")
        self._labels[name] = self._loop_decider or self._decider("label()")
        return self

    def _judge(self, accept: Ask, key: str, name: str) -> None:
        """Add the nodes that judge the answer under ``key``."""
        if not isinstance(accept, nodes.Ask):
            raise ConfigError(
                f"accept= of the question {key!r} takes an Ask, such as Ask.equals('yes'), "
                f"not {type(accept).__name__}."
            )
        if accept.needs_classifier():
            self.step(accept.classifier(key), f"{name}-classifier")
        self.step(accept.validate_node(key), f"{name}-validate")

    def _decider(self, what: str) -> str:
        self._need_predecessor(what)
        if len(self._open) != 1:
            raise ConfigError(f"{what} follows one step; join the ways before it with a step.")
        return self._open[0][0]

    def _repeat(self, key: str, until: object, *, after: Chain, body: Chain, back_to: str) -> Self:
        """Lead the last step to ``after`` where its decision is ``until``, else through ``body``."""
        decider = self._open[0][0]
        steps, then = as_nodes(body), as_nodes(after)
        if not steps or not then:
            raise ConfigError(f"a loop on {key!r} needs steps to repeat and steps to go on with.")
        self._open = [(decider, None)]
        self._chain([(node, None) for node in then], when=equals(key, until))
        ends = self._open
        self._open = [(decider, None)]
        self._chain([(node, None) for node in steps], when=differs(key, until))
        self._connect(back_to)
        self._open = ends
        self._loop_decider = decider
        return self
