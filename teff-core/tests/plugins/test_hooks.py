from __future__ import annotations

import attrs
import pytest

from teff.errors import PluginError
from teff.plugins import Hooks, NodeInfo, Outcome, RunInfo, hookimpl, hookspecs

RUN = RunInfo("r-1", "support")
NODE = NodeInfo("ask", "llm_chat", "team/1/ask")


class Recorder:
    def __init__(self) -> None:
        self.seen: list[object] = []

    @hookimpl
    def teff_run_started(self, run):
        self.seen.append(run)

    @hookimpl
    def teff_node_finished(self, seconds, node):
        self.seen.append((node.id, seconds))


class Broken:
    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls = 0

    @hookimpl
    def teff_run_started(self):
        self.calls += 1
        raise self.error


def test_a_registered_plugin_is_told_with_the_arguments_it_takes():
    hooks, recorder = Hooks(), Recorder()
    hooks.register(recorder)
    hooks.tell("teff_run_started", run=RUN)
    hooks.tell("teff_node_finished", run=RUN, node=NODE, seconds=0.5)
    hooks.tell("teff_run_finished", run=RUN, outcome=Outcome("finished", "end", 1))
    assert recorder.seen == [RUN, ("ask", 0.5)]


def test_only_implemented_hooks_are_listened_to():
    hooks, recorder = Hooks(), Recorder()
    assert not hooks.listens_at_all()
    hooks.register(recorder)
    assert hooks.listens("teff_run_started")
    assert not hooks.listens("teff_llm_request")
    hooks.unregister(recorder)
    assert not hooks.listens_at_all()
    hooks.tell("teff_run_started", run=RUN)
    assert recorder.seen == []


def test_what_a_plugin_is_told_cannot_be_changed():
    for value in (RUN, NODE, Outcome("finished", "end", 1)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            value.status = "changed"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_a_failing_plugin_disturbs_nobody_and_is_muted_with_one_line(caplog, error):
    hooks, before, broken, after = Hooks(), Recorder(), Broken(error), Recorder()
    for plugin in (before, broken, after):
        hooks.register(plugin)
    for _ in range(5):
        hooks.tell("teff_run_started", run=RUN)
    assert len(before.seen) == len(after.seen) == 5
    assert broken.calls == 3
    (record,) = caplog.records
    assert "Broken failed in teff_run_started" in record.getMessage()
    assert record.name == "teff"


def test_a_hook_whose_only_plugin_is_muted_is_not_listened_to(caplog):
    hooks, broken = Hooks(), Broken(ValueError())
    hooks.register(broken)
    for _ in range(3):
        hooks.tell("teff_run_started", run=RUN)
    assert not hooks.listens_at_all()
    hooks.unregister(broken)
    hooks.register(broken)
    hooks.tell("teff_run_started", run=RUN)
    assert broken.calls == 4


def test_the_interrupt_key_is_not_swallowed():
    hooks = Hooks()
    hooks.register(Broken(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        hooks.tell("teff_run_started", run=RUN)


class Coroutine:
    @hookimpl
    async def teff_run_started(self, run):
        pass


class Wrapper:
    @hookimpl(wrapper=True)
    def teff_run_started(self, run):
        return (yield)


class Generator:
    @hookimpl
    def teff_run_started(self, run):
        yield


class UnknownArgument:
    @hookimpl
    def teff_node_started(self, run, knot):
        pass


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (Coroutine(), "coroutine"),
        (Wrapper(), "wrapper"),
        (Generator(), "generator"),
        (UnknownArgument(), "knot"),
        (Recorder, "register an instance"),
    ],
)
def test_what_cannot_observe_is_refused_and_leaves_nothing_behind(plugin, reason):
    hooks = Hooks()
    with pytest.raises(PluginError, match=reason):
        hooks.register(plugin)
    assert not hooks.listens_at_all()


def test_two_observers_of_one_class_are_two_plugins_but_one_object_is_one():
    hooks, first, second = Hooks(), Recorder(), Recorder()
    hooks.register(first)
    hooks.register(second)
    with pytest.raises(PluginError, match="registered already"):
        hooks.register(first)
    hooks.tell("teff_run_started", run=RUN)
    assert first.seen == second.seen == [RUN]
    hooks.unregister(first)
    with pytest.raises(PluginError, match="not registered"):
        hooks.unregister(first)
    hooks.tell("teff_run_started", run=RUN)
    assert (len(first.seen), len(second.seen)) == (1, 2)


def test_a_hook_of_a_newer_version_is_a_warning(caplog):
    class Newer(Recorder):
        @hookimpl
        def teff_tomorrow(self, run):
            pass

    hooks, newer = Hooks(), Newer()
    hooks.register(newer)
    assert "teff_tomorrow" in caplog.text
    hooks.tell("teff_run_started", run=RUN)
    assert newer.seen == [RUN]


def test_the_order_can_be_chosen():
    order = []

    class First:
        @hookimpl(tryfirst=True)
        def teff_run_started(self):
            order.append("first")

    class Other:
        @hookimpl
        def teff_run_started(self):
            order.append("other")

    hooks = Hooks()
    for plugin in (First(), Other()):
        hooks.register(plugin)
    hooks.tell("teff_run_started", run=RUN)
    assert order == ["first", "other"]


def test_every_hook_explains_itself_and_its_arguments():
    names = [name for name in hookspecs.__all__ if name.startswith("teff_")]
    assert names
    for name in names:
        hook = getattr(hookspecs, name)
        arguments = hook.__code__.co_varnames[: hook.__code__.co_argcount]
        _, _, described = hook.__doc__.partition("Args:")
        for argument in arguments:
            assert f"    {argument}: " in described, (name, argument)
