from __future__ import annotations

import asyncio
import sys
from types import ModuleType

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import AmbiguousName, ConfigError, PluginError, PluginLoadError
from teff.plugins import Catalogue, PluginEntry
from teff.provider import Capabilities, ChatReply, Provider, ProviderRegistry


class Answering:
    """What every provider of these tests can do."""

    capabilities = Capabilities()
    closed = 0

    async def chat(self, request):
        return ChatReply(text=self.name)

    def stream(self, request):
        raise NotImplementedError

    async def aclose(self):
        self.closed += 1


@attrs.define(eq=False, slots=False, kw_only=True)
class Cloud(Answering):
    """A type with typed options."""

    name: str
    base_url: str = "https://cloud.test"
    api_key_env: str = ""
    timeout: float = attrs.field(default=60.0, validator=attrs.validators.gt(0))


@attrs.define(eq=False, slots=False, kw_only=True)
class Strict(Answering):
    """A type with an option that has no default."""

    name: str
    region: str


class Plain(Answering):
    def __init__(self, name, size=1):
        self.name, self.size = name, size


class Unclosable(Plain):
    async def aclose(self):
        await super().aclose()
        raise OSError("still in use")


def plain_factory(*, name, size=1):
    return Plain(name, size)


def half_a_provider(*, name):
    return object()


TYPES = {
    "cloud": Cloud,
    "strict": Strict,
    "plain": plain_factory,
    "unclosable": Unclosable,
    "half": half_a_provider,
    "number": 3,
}


@pytest.fixture
def types(monkeypatch) -> Catalogue:
    monkeypatch.delenv("TEFF_PLUGINS", raising=False)
    monkeypatch.delenv("TEFF_DISABLE_PLUGINS", raising=False)
    module = ModuleType("acme_provider_types")
    vars(module).update(TYPES)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    rows = [
        PluginEntry(
            distribution="acme",
            group="teff.providers",
            name=name,
            target=f"{module.__name__}:{name}",
        )
        for name in [*TYPES, "missing"]
    ]
    twins = [
        PluginEntry(distribution=origin, group="teff.providers", name="twin", target="m:Twin")
        for origin in ("one", "two")
    ]
    return Catalogue(entry_points=lambda: [*rows, *twins])


def test_a_declared_provider_is_made_of_its_options_once(types):
    registry = ProviderRegistry(
        {"fast": {"type": "cloud", "base_url": "http://localhost:1", "timeout": "5"}},
        catalogue=types,
    )
    provider = registry.resolve("fast")
    assert isinstance(provider, Provider)
    assert (provider.name, provider.base_url, provider.timeout) == ("fast", "http://localhost:1", 5)
    assert registry.resolve("fast") is provider


def test_an_installed_type_needs_no_declaration(types):
    provider = ProviderRegistry(catalogue=types).resolve("cloud")
    assert (provider.name, provider.base_url) == ("cloud", "https://cloud.test")


def test_a_type_that_is_not_named_is_the_name_itself(types):
    registry = ProviderRegistry({"cloud": {"timeout": 3}}, catalogue=types)
    assert registry.resolve("cloud").timeout == 3


def test_without_a_type_the_message_lists_the_installed_ones(types):
    registry = ProviderRegistry({"mine": {"base_url": "http://x"}}, catalogue=types)
    with pytest.raises(ConfigError, match=r"'mine' has no 'type'.*Installed types: .*cloud.*plain"):
        registry.resolve("mine")


def test_without_a_type_a_known_name_that_is_not_installed_gives_the_pip_line(types):
    registry = ProviderRegistry({"openai": {"base_url": "http://x"}}, catalogue=types)
    with pytest.raises(ConfigError, match="pip install teff-providers-openai"):
        registry.resolve("openai")


def test_an_object_is_used_as_it_is(types):
    provider = Plain("whatever")
    registry = ProviderRegistry({"mine": provider}, catalogue=types)
    assert registry.resolve("mine") is provider
    registry.check("mine")


def test_a_plain_function_or_class_gets_name_and_options(types):
    registry = ProviderRegistry({"mine": {"type": "plain", "size": 3}}, catalogue=types)
    provider = registry.resolve("mine")
    assert (provider.name, provider.size) == ("mine", 3)
    with pytest.raises(ConfigError, match=r"provider 'other'.*colour"):
        ProviderRegistry({"other": {"type": "plain", "colour": 1}}, catalogue=types).check("other")


@pytest.mark.parametrize("name", ["clod", "Cloud", "CLOUD"])
def test_names_are_compared_exactly_and_the_nearest_is_suggested(types, name):
    registry = ProviderRegistry(catalogue=types)
    for attempt in (registry.resolve, registry.check):
        with pytest.raises(ConfigError, match=f"unknown provider '{name}'.*'cloud'"):
            attempt(name)


def test_declared_names_are_suggested_too(types):
    registry = ProviderRegistry({"Frontier": {"type": "cloud"}}, catalogue=types)
    with pytest.raises(ConfigError, match="Did you mean 'Frontier'"):
        registry.resolve("frontier")


def test_an_unknown_type_names_the_provider_that_asks_for_it(types):
    registry = ProviderRegistry({"fast": {"type": "clod"}}, catalogue=types)
    with pytest.raises(ConfigError, match=r"provider 'fast': unknown provider 'clod'.*'cloud'"):
        registry.check("fast")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "cloud", "base_urll": "http://x"}, "base_urll.*base_url"),
        ({"type": "cloud", "timeout": "soon"}, "timeout"),
        ({"type": "strict"}, "needs region"),
        ({"type": 3}, "its type is a name"),
    ],
)
def test_wrong_options_are_found_without_making_the_provider(types, options, message):
    registry = ProviderRegistry({"mine": options}, catalogue=types)
    with pytest.raises(ConfigError, match=f"provider 'mine'.*{message}"):
        registry.check("mine")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"type": "cloud", "max_paralel": 2}, "Did you mean 'max_parallel'?"),
        ({"type": "plain", "max_paralel": 2}, "Did you mean 'max_parallel'?"),
        ({"type": "cloud", "max_concurrency": 2}, "Did you mean 'max_parallel'?"),
        ({"type": "cloud", "url": "http://x"}, "Did you mean 'base_url'?"),
        ({"type": "cloud", "Host": "x"}, "Did you mean 'base_url'?"),
        ({"type": "cloud", "model": "m"}, "The model is named where it is asked"),
        ({"type": "plain", "url": "http://x"}, "Known: max_parallel, size, type."),
        ({"type": "cloud", "zzz": 1}, "Known: api_key_env, base_url, max_parallel, timeout, type."),
    ],
)
def test_an_unknown_option_comes_with_what_was_probably_meant(types, options, hint):
    with pytest.raises(ConfigError, match="provider 'mine': unknown option") as caught:
        ProviderRegistry({"mine": options}, catalogue=types).resolve("mine")
    assert hint in str(caught.value)


def test_a_value_that_the_type_refuses_is_a_configuration_error(types):
    registry = ProviderRegistry({"mine": {"type": "cloud", "timeout": -1}}, catalogue=types)
    with pytest.raises(ConfigError, match=r"provider 'mine'.*timeout"):
        registry.resolve("mine")


@pytest.mark.parametrize(
    "option",
    ["api_key", "api-key", "API_KEY", "key", "token", "apiKey", "authKey", "client_secret"],
)
def test_a_raw_secret_is_refused_and_never_shown(types, option):
    with pytest.raises(ConfigError, match="api_key_env") as caught:
        ProviderRegistry({"mine": {"type": "cloud", option: "sk-test-12345"}}, catalogue=types)
    assert "sk-test-12345" not in f"{caught.value!r} {caught.value}"
    with pytest.raises(ConfigError, match="api_key_env"):
        ProviderRegistry(catalogue=types).derive("cloud", {option: "sk-test-12345"})


def test_check_finds_what_only_making_a_provider_shows(types):
    registry = ProviderRegistry({"mine": {"type": "openai", "base_url": "no-scheme:80"}})
    pytest.importorskip("teff_providers_openai")
    with pytest.raises(ConfigError, match="no http or https URL"):
        registry.check("mine")


def test_a_variant_has_the_options_of_a_node_and_is_made_once(types):
    registry = ProviderRegistry({"fast": {"type": "cloud", "timeout": 3}}, catalogue=types)
    changed = {"base_url": "http://other", "api_key_env": None}
    variant = registry.derive("fast", changed)
    assert (variant.name, variant.base_url, variant.timeout) == ("fast", "http://other", 3)
    assert registry.derive("fast", dict(reversed(changed.items()))) is variant
    assert registry.resolve("fast") is not variant
    assert registry.derive("fast", {"base_url": None}) is registry.resolve("fast")
    registry.check("fast", changed)
    with pytest.raises(ConfigError, match="chat_path"):
        registry.check("fast", {"chat_path": "/x"})


def test_an_object_has_no_variants(types):
    registry = ProviderRegistry({"mine": Plain("mine")}, catalogue=types)
    with pytest.raises(ConfigError, match="given as an object, so base_url cannot be set"):
        registry.derive("mine", {"base_url": "http://x"})


def test_a_name_is_declared_once_unless_it_is_replaced(types):
    registry = ProviderRegistry({"mine": {"type": "cloud"}}, catalogue=types)
    first = registry.resolve("mine")
    with pytest.raises(ConfigError, match="replace=True"):
        registry.register("mine", {"type": "plain"})
    assert registry.resolve("mine") is first
    registry.register("mine", {"type": "plain"}, replace=True)
    assert isinstance(registry.resolve("mine"), Plain)
    asyncio.run(registry.aclose())
    assert first.closed == 1


def test_a_declaration_may_have_the_name_of_a_type(types):
    registry = ProviderRegistry(catalogue=types)
    registry.register("cloud", {"type": "plain"})
    assert isinstance(registry.resolve("cloud"), Plain)


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("mine", 3, "neither options nor a provider"),
        ("mine", "cloud", "neither options nor a provider"),
        ("mine", Plain, "is the class Plain"),
        ("mine", {"name": "other"}, "the name is not an option"),
        ("mine", {1: "x"}, "option 1 is not a text"),
        ("", {"type": "cloud"}, "not empty"),
        (3, {"type": "cloud"}, "not 3"),
    ],
)
def test_what_is_no_declaration_is_refused_at_once(name, source, message):
    with pytest.raises(ConfigError, match=message):
        ProviderRegistry({name: source})


@pytest.mark.parametrize("kind", ["half", "number"])
def test_a_type_that_makes_no_provider_is_the_fault_of_the_plugin(types, kind):
    with pytest.raises(PluginError, match=f"provider '{kind}'"):
        ProviderRegistry(catalogue=types).resolve(kind)


def test_a_plugin_that_cannot_be_used_is_said_so(types):
    registry = ProviderRegistry(catalogue=types)
    with pytest.raises(PluginLoadError, match="acme"):
        registry.resolve("missing")
    with pytest.raises(AmbiguousName, match="one/twin"):
        registry.resolve("twin")


def test_a_registry_made_of_another_has_its_declarations(types):
    given = Plain("given")
    first = ProviderRegistry({"fast": {"type": "cloud"}, "given": given}, catalogue=types)
    second = ProviderRegistry(first)
    second.register("more", {"type": "cloud"})
    assert second.resolve("given") is given
    assert second.resolve("fast").name == "fast"
    assert "more" not in first.names()
    assert ProviderRegistry.of(first) is first
    assert ProviderRegistry.of({"given": given}).resolve("given") is given


def test_names_are_the_declared_and_the_installed_ones(types):
    registry = ProviderRegistry({"zeta": {"type": "cloud"}}, catalogue=types)
    names = registry.names()
    assert names == sorted(names)
    assert {"zeta", "cloud", "one/twin", "two/twin"} <= set(names)


def test_presets_declare_installed_types(types):
    registry = ProviderRegistry.from_presets("cloud", "plain", catalogue=types)
    assert registry.resolve("cloud").name == "cloud"
    with pytest.raises(ConfigError, match="pip install teff-providers-ollama"):
        ProviderRegistry.from_presets("ollama", catalogue=types)
    assert ProviderRegistry.from_presets(catalogue=types).resolve("plain").name == "plain"


def test_closing_closes_what_was_made_and_leaves_given_objects_alone(types):
    given = Plain("given")
    registry = ProviderRegistry({"given": given, "fast": {"type": "cloud"}}, catalogue=types)
    registry.resolve("given")
    made = [
        registry.resolve("fast"),
        registry.derive("fast", {"timeout": 1}),
        registry.resolve("plain"),
    ]
    asyncio.run(registry.aclose())
    assert [provider.closed for provider in made] == [1, 1, 1]
    assert given.closed == 0
    assert registry.resolve("fast") is made[0]


def test_all_are_closed_even_where_one_fails(types):
    registry = ProviderRegistry(catalogue=types)
    made = [registry.resolve("unclosable"), registry.resolve("cloud")]
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(registry.aclose())
    assert [str(error) for error in caught.value.exceptions] == ["still in use"]
    assert [provider.closed for provider in made] == [1, 1]


@given(st.dictionaries(st.text(min_size=1), st.floats(0.1, 100), max_size=5))
def test_every_declared_name_is_reached_as_it_is_written(timeouts):
    registry = ProviderRegistry({name: Plain(name, size) for name, size in timeouts.items()})
    for name, size in timeouts.items():
        provider = registry.resolve(name)
        assert (provider.name, provider.size) == (name, size)
