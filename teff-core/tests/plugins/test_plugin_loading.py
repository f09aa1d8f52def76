from __future__ import annotations

import sys

import pytest

from teff.plugins import Hooks, RunInfo, loader
from teff.plugins.loader import hooks, load_hooks, load_installed

RUN = RunInfo("r-1")

LISTENER = """
from teff.plugins import hookimpl

seen = []

@hookimpl
def teff_run_started(run):
    seen.append(run.run_id)
"""


def install(site, distribution: str, source: str, target: str | None = None) -> str:
    module = distribution.replace("-", "_")
    site.install(distribution, {"teff.plugins": {"it": target or module}}, modules={module: source})
    return module


def loaded(site) -> tuple[Hooks, dict[str, str]]:
    hooks, catalogue = Hooks(), site.catalogue()
    load_installed(hooks, catalogue)
    return hooks, {row.distribution: row.state for row in catalogue.entries()}


def test_an_installed_plugin_is_told(site):
    module = install(site, "listen-well", LISTENER)
    hooks, states = loaded(site)
    hooks.tell("teff_run_started", run=RUN)
    assert sys.modules[module].seen == ["r-1"]
    assert states == {"listen-well": "loaded"}


def test_a_class_is_instantiated(site):
    install(
        site,
        "listen-class",
        """
        from teff.plugins import hookimpl

        class Plugin:
            @hookimpl
            def teff_run_started(self, run):
                self.run = run
        """,
        "listen_class:Plugin",
    )
    hooks, states = loaded(site)
    assert hooks.listens("teff_run_started")
    assert states == {"listen-class": "loaded"}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import not_there_at_all", "not_there_at_all"),
        ("import sys; sys.exit()", "SystemExit"),
        ("raise BaseException('ugly')", "ugly"),
        (
            """
            from teff.plugins import hookimpl
            @hookimpl
            def teff_run_started(wrong_argument): ...
            """,
            "wrong_argument",
        ),
        (
            """
            from teff.plugins import hookimpl
            @hookimpl
            async def teff_run_started(run): ...
            """,
            "coroutine",
        ),
    ],
)
def test_a_broken_plugin_is_one_warning_and_hurts_no_other(site, caplog, source, reason):
    install(site, "a-bad", source)
    module = install(site, "b-good", LISTENER)
    hooks, states = loaded(site)
    hooks.tell("teff_run_started", run=RUN)
    assert sys.modules[module].seen == ["r-1"]
    assert states == {"a-bad": "failed", "b-good": "loaded"}
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "a-bad" in record.getMessage()
    assert reason in record.getMessage()


def test_the_reason_stands_in_the_row(site):
    install(site, "a-bad", "raise ValueError('no license')")
    catalogue = site.catalogue()
    load_installed(Hooks(), catalogue)
    (row,) = catalogue.entries("teff.plugins")
    assert row.error == "ValueError: no license"


def test_a_blocked_plugin_is_not_imported(site, monkeypatch, caplog):
    blocked, allowed = install(site, "one", LISTENER), install(site, "two", LISTENER)
    monkeypatch.setenv("TEFF_PLUGINS", "two, three")
    _, states = loaded(site)
    assert states == {"one": "blocked", "two": "loaded"}
    assert blocked not in sys.modules
    assert allowed in sys.modules
    assert not caplog.records


def test_all_plugins_can_be_switched_off(site, monkeypatch):
    module = install(site, "one", LISTENER)
    monkeypatch.setenv("TEFF_DISABLE_PLUGINS", "1")
    hooks, _ = loaded(site)
    assert not hooks.listens_at_all()
    assert module not in sys.modules


def test_plugins_of_one_name_do_not_conflict(site):
    install(site, "one", LISTENER)
    install(site, "two", LISTENER)
    _, states = loaded(site)
    assert states == {"one": "loaded", "two": "loaded"}


def test_a_plugin_that_stands_on_the_path_twice_is_told_once(site):
    module = install(site, "one", LISTENER)
    (site.root / "lib64").symlink_to(site.folder(), target_is_directory=True)
    hooks = Hooks()
    load_installed(hooks, site.catalogue("lib", "lib64"))
    hooks.tell("teff_run_started", run=RUN)
    assert sys.modules[module].seen == ["r-1"]


def test_what_a_plugin_prints_when_it_is_loaded_stays_off_standard_output(site, capsys):
    install(site, "loud", "print('ready')")
    loaded(site)
    assert capsys.readouterr().out == ""


@pytest.fixture
def process(site, monkeypatch):
    """A process of which nothing has been loaded yet."""
    catalogue = site.catalogue()
    monkeypatch.setattr(loader, "_process", None)
    monkeypatch.setattr(loader, "catalogue", lambda: catalogue)
    return site


def test_where_nobody_listens_there_are_no_hooks(process):
    assert load_hooks() is None


def test_the_plugins_of_a_process_are_loaded_once(process):
    module = install(process, "one", LISTENER + "\nseen.append('imported')\n")
    assert load_hooks() is load_hooks()
    assert sys.modules[module].seen == ["imported"]


def test_an_observer_registered_from_code_is_told_like_an_installed_one(process):
    from teff.plugins import hookimpl

    class Observer:
        @hookimpl
        def teff_run_started(self, run):
            self.run = run

    observer = Observer()
    hooks().register(observer)
    found = load_hooks()
    assert found is not None
    found.tell("teff_run_started", run=RUN)
    assert observer.run is RUN
    hooks().unregister(observer)
    assert load_hooks() is None


def test_a_plugin_may_register_an_observer_while_it_is_loaded(process):
    module = install(
        process,
        "nested",
        """
        from teff.plugins import hookimpl, hooks

        class Inner:
            seen = []
            @hookimpl
            def teff_run_started(self, run):
                self.seen.append(run.run_id)

        hooks().register(Inner())
        """,
    )
    found = load_hooks()
    assert found is not None
    found.tell("teff_run_started", run=RUN)
    assert sys.modules[module].Inner.seen == ["r-1"]


def test_a_warning_is_a_structured_event_where_structlog_is_configured(site, caplog):
    import structlog
    from structlog.testing import LogCapture

    install(site, "a-bad", "1/0")
    capture = LogCapture()
    structlog.configure(processors=[capture])
    try:
        loaded(site)
    finally:
        structlog.reset_defaults()
    (event,) = capture.entries
    assert event["plugin"] == "a-bad"
    assert event["log_level"] == "warning"
    assert not caplog.records
