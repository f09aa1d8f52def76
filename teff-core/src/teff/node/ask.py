"""`Ask`: how the answer of a person is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Self, TypedDict, Unpack, cast

from teff.errors import ConfigError, suggest
from teff.node.llm import LLM
from teff.node.validate import Strategy, Validate, as_texts
from teff.schema.options import structure_fields

__all__ = ["MODEL_OPTIONS", "Ask", "AskOptions", "ValidateOptions"]

#: What only ``llm`` uses: the options of the model's question.
MODEL_OPTIONS: Final = ("system", "user", "schema", "model", "provider")
_STRATEGIES: Final = ("check", "regex", "any_of", "equals")


class ValidateOptions(TypedDict, total=False):
    """The options of an `Ask` whatever its strategy; see `Validate` for what they mean."""

    input_key: str
    verdict_key: str
    ok_field: str
    output_key: str
    pass_value: str
    fail_value: str
    clear_field: str
    clarify_value: str
    value_key: str
    value_field: str
    rounds_key: str
    max_rounds: int
    missing_is_ok: bool
    on_exhausted: Literal["pass", "fail"]


class AskOptions(ValidateOptions, total=False):
    """All options of an `Ask`."""

    strategy: Literal["", "check", "regex", "any_of", "equals", "llm"]
    equals: str | bool
    any_of: Sequence[str | bool]
    regex: str
    check: Callable[[Any], Any]
    system: str
    user: str
    schema: Mapping[str, Any]
    model: str
    provider: str


class Ask:
    """A recipe for judging an answer: the nodes that follow an `Interrupt`.

    It is no node. `Flow.interrupt` and `Flow.interrupt_loop` take it as ``accept=``; what it stands
    for are a `Validate`, and before it, where a model judges, a classifier that writes the verdict.

    Make one with `equals`, `any_of`, `regex`, `check` or `llm`, or with the options themselves:
    those of `Validate`, by the same names and with the same defaults, and for a model ``system``,
    ``user``, ``schema``, ``model`` and ``provider`` (see `llm`). Where several strategies are given,
    the order is check, regex, any_of, equals, llm.

    Raises:
        ConfigError: an unknown option, a value that `Validate` refuses, or no strategy.

    >>> ask = Ask.any_of(["yes", "go"], pass_value="ship", fail_value="stop")
    >>> ask.strategy, ask.needs_classifier(), ask.decision_key
    ('any_of', False, 'decision')
    >>> ask.validate_node("approval").input_key
    'approval'
    """

    def __init__(self, **options: Unpack[AskOptions]) -> None:
        for name in options:
            if name not in AskOptions.__annotations__:
                hint = suggest(name, AskOptions.__annotations__).strip()
                raise ConfigError(f"Ask: unknown option {name!r}.", path=name, hint=hint)
        chosen: dict[str, Any] = {
            name: value
            for name, value in options.items()
            if value is not None or name not in (*_STRATEGIES, "schema")
        }
        question: dict[str, Any] = {
            name: chosen.pop(name) for name in MODEL_OPTIONS if name in chosen
        }
        self._question = structure_fields(AskOptions, question, what="Ask")
        self._judging = as_texts(chosen)
        asks_model = bool(question) or chosen.get("strategy") == "llm"
        if not asks_model and not any(name in chosen for name in _STRATEGIES):
            raise ConfigError(
                "Ask: no strategy is given; give one of equals, any_of, regex, check, or for a model "
                "strategy='llm'.",
                path="strategy",
            )
        if Validate(self._judging).chosen_strategy == "llm":
            self._prepare_for_model()
        self._validate = Validate(self._judging)

    def _prepare_for_model(self) -> None:
        """Fill in the keys that the classifier and the `Validate` have to agree on."""
        schema = cast("Mapping[str, Any] | None", self._question.get("schema"))
        properties = (schema or {}).get("properties")
        if not self._judging.get("verdict_key"):
            self._judging["verdict_key"] = "verdict"
        says_clear = schema is None or (isinstance(properties, Mapping) and "clear" in properties)
        if self._judging.get("clarify_value") and says_clear:
            self._judging.setdefault("clear_field", "clear")
        if not isinstance(properties, Mapping):
            return
        for field in filter(None, self._fields()):
            if field not in properties:
                raise ConfigError(
                    f"Ask: the schema has no property {field!r}, which the verdict is read from.",
                    path="schema",
                    hint=suggest(field, map(str, properties)).strip(),
                )

    @classmethod
    def equals(cls, value: str | float, /, **options: Unpack[ValidateOptions]) -> Self:
        """Accept one value.

        Args:
            value: compared like in the condition of an edge: "Yes!" equals "yes".
            **options: options of `Validate`.

        >>> Ask.equals("yes", max_rounds=3).strategy
        'equals'
        """
        return cls(**as_texts({"equals": value}), **options)

    @classmethod
    def any_of(cls, values: Sequence[str | float], /, **options: Unpack[ValidateOptions]) -> Self:
        """Accept one of several values.

        Args:
            values: at least one, compared as by `equals`.
            **options: options of `Validate`.
        """
        return cls(**as_texts({"any_of": values}), **options)

    @classmethod
    def regex(cls, pattern: str, /, **options: Unpack[ValidateOptions]) -> Self:
        """Accept an answer in which a pattern is found; its first group can be captured.

        Args:
            pattern: of the module ``re``.
            **options: options of `Validate`.

        >>> Ask.regex(r"^([0-9]+) EUR$", value_key="amount").strategy
        'regex'
        """
        return cls(regex=pattern, **options)

    @classmethod
    def check(cls, function: Callable[[Any], Any], /, **options: Unpack[ValidateOptions]) -> Self:
        """Accept what a function accepts.

        Args:
            function: of the answer, plain or async; returns whether it passes, or that and a value.
            **options: options of `Validate`.

        >>> Ask.check(lambda age: (int(age) > 0, int(age)), value_key="age").strategy
        'check'
        """
        return cls(check=function, **options)

    @classmethod
    def llm(
        cls,
        *,
        system: str = "",
        user: str = "",
        schema: Mapping[str, Any] | None = None,
        model: str = "",
        provider: str = "",
        **options: Unpack[ValidateOptions],
    ) -> Self:
        """Let a model judge the answer; its verdict is kept under ``verdict_key`` ("verdict").

        Args:
            system: a template: what an answer needs to pass. By default it has to agree.
            user: a template for what is judged; the answer itself where it is empty.
            schema: the JSON Schema of the verdict. By default it has ``ok_field``, with a
                ``clarify_value`` also ``clear_field`` ("clear"), and ``value_field`` where that is
                given.
            model, provider: whom to ask; the flow's where they are empty.
            **options: options of `Validate`.

        >>> ask = Ask.llm(system="Does the customer want a refund?", clarify_value="again")
        >>> ask.needs_classifier(), ask.verdict_schema["required"]
        (True, ['ok', 'clear'])
        """
        question = {"system": system, "user": user, "model": model, "provider": provider}
        if schema is not None:
            question["schema"] = cast("Any", schema)
        return cls(strategy="llm", **cast("Any", question), **options)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """Make one from the keys of ``interrupt.strategy`` in a workflow file.

        Args:
            data: ``equals``, ``any_of``, ``regex``, ``check`` or ``llm`` (a mapping with ``system``,
                ``user``, ``schema``, ``model``, ``provider``), and options of `Validate`.

        Raises:
            ConfigError: an unknown key, or a value that does not fit.

        >>> Ask.from_mapping({"equals": "yes", "pass_value": "go"}).pass_value
        'go'
        >>> Ask.from_mapping({"equal": "yes"})
        Traceback (most recent call last):
        teff.errors.ConfigError: the strategy has an unknown key 'equal'. Did you mean 'equals'?
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"a strategy is a mapping, not {type(data).__name__}.")
        known = AskOptions.__annotations__.keys() - set(MODEL_OPTIONS) | {"llm"}
        for name in data:
            if name in MODEL_OPTIONS:
                raise ConfigError(
                    f"the strategy has a key {name!r}, which belongs under 'llm'.", path=name
                )
            _refuse_unknown(name, known, "the strategy")
        options = dict(data)
        if "llm" in options:
            question = options.pop("llm")
            question = {} if question is None else question
            if not isinstance(question, Mapping):
                raise ConfigError(
                    f"'llm' of the strategy is a mapping with {', '.join(MODEL_OPTIONS)}, not "
                    f"{type(question).__name__}.",
                    path="llm",
                )
            for name in question:
                _refuse_unknown(name, MODEL_OPTIONS, "'llm' of the strategy", "llm.")
            options |= question
            if not any(name in options for name in ("strategy", *_STRATEGIES)):
                options["strategy"] = "llm"
        options = structure_fields(AskOptions, as_texts(options), what="the strategy")
        return cls(**cast("Any", options))

    @property
    def strategy(self) -> Strategy:
        """How the answer is judged."""
        return self._validate.chosen_strategy

    @property
    def decision_key(self) -> str:
        """The state key of the decision."""
        return self._validate.output_key

    @property
    def forced_key(self) -> str:
        """The state key that says whether the decision was forced by the budget."""
        return self._validate.forced_key

    @property
    def pass_value(self) -> str:
        """The decision on an answer that passes."""
        return self._validate.pass_value

    @property
    def fail_value(self) -> str:
        """The decision on an answer that does not pass."""
        return self._validate.fail_value

    @property
    def clarify_value(self) -> str:
        """The decision on an answer that is not clear, or ""."""
        return self._validate.clarify_value

    @property
    def verdict_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the verdict that a model writes."""
        schema = self._question.get("schema")
        if isinstance(schema, Mapping):
            return schema
        ok, clear, value = self._fields()
        properties: dict[str, Any] = {
            ok: {"type": "boolean", "description": "Whether the answer passes."}
        }
        if clear:
            properties[clear] = {
                "type": "boolean",
                "description": "Whether the answer can be understood; false to ask again.",
            }
        if value:
            properties[value] = {
                "type": "string",
                "description": "What the answer names or asks for; empty where it names nothing.",
            }
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    def needs_classifier(self) -> bool:
        """Say whether a model has to write a verdict before the answer can be judged."""
        return self.strategy == "llm"

    def classifier(self, input_key: str | None = None) -> LLM:
        """Return the node that asks a model for the verdict.

        Args:
            input_key: where the answer is; the option of that name where it is None.

        Raises:
            ConfigError: the strategy asks no model.
        """
        if not self.needs_classifier():
            raise ConfigError(
                f"the strategy {self.strategy!r} asks no model, see needs_classifier()."
            )
        question = cast("dict[str, str]", self._question)
        options: dict[str, Any] = {
            "system": question.get("system") or self._instruction(),
            "prompt": question.get("user", ""),
            "input_key": "" if question.get("user") else input_key or self._validate.input_key,
            "output_key": self._validate.verdict_key,
            "json_schema": self.verdict_schema,
            "model": question.get("model", ""),
            "provider": question.get("provider", ""),
            "stream": False,
        }
        return LLM(options)

    def validate_node(self, input_key: str | None = None) -> Validate:
        """Return the node that decides.

        Args:
            input_key: where the answer is; the option of that name where it is None.
        """
        return Validate({**self._judging, "input_key": input_key or self._validate.input_key})

    def _fields(self) -> tuple[str, str, str]:
        """Return the fields of the verdict: passes, is clear, is captured; "" for none."""
        fields = ("ok_field", "clear_field", "value_field")
        defaults = ("ok", "", "")
        given = (
            self._judging.get(name, default) for name, default in zip(fields, defaults, strict=True)
        )
        ok, clear, value = map(str, given)
        return ok, clear, value

    def _instruction(self) -> str:
        ok, clear, value = self._fields()
        lines = [
            "You judge a person's answer to a question.",
            f"Set {ok!r} to true where the answer agrees or accepts, and to false where it refuses, "
            "objects or asks for a change.",
        ]
        if clear:
            lines.append(f"Set {clear!r} to false where the answer cannot be read as either.")
        if value:
            lines.append(f"Put what the answer names or asks for into {value!r}.")
        return " ".join(lines)

    def __repr__(self) -> str:
        return f"<Ask {self.strategy!r}>"


def _refuse_unknown(name: object, known: Any, where: str, prefix: str = "") -> None:
    if name not in known:
        raise ConfigError(
            f"{where} has an unknown key {name!r}.",
            path=f"{prefix}{name}",
            hint=suggest(str(name), known).strip(),
        )
