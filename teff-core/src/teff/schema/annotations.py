"""What a class or a function declares: its fields or parameters, with their types resolved.

Annotations may be text (``from __future__ import annotations``); they are looked up one by one, so
an error names the field and the missing name.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, Required

import attrs

from teff.errors import ConfigError
from teff.schema.docstring import read_docstring

__all__ = [
    "INJECTED",
    "MISSING",
    "Field",
    "class_fields",
    "function_name",
    "function_parameters",
    "injected_names",
    "is_class_with_fields",
    "plain_type",
]

#: Stands for "no default", since None is one.
MISSING: Any = dataclasses.MISSING

#: The parameters that a run fills in; a model never sees them.
INJECTED = ("__state__", "__ctx__")


@attrs.frozen(kw_only=True)
class Field:
    """One field of a class, or one parameter of a function.

    Attributes:
        name: as it is passed to the class or the function (an attrs alias, where there is one).
        type: the resolved annotation, without ``Annotated``, ``Required`` and ``NotRequired``.
        required: whether it has to be given.
        default: the value without a factory, else `MISSING`.
        description: from ``Annotated[type, "text"]`` or from the docstring, or "".
    """

    name: str
    type: Any
    required: bool
    default: Any = MISSING
    description: str = ""


def plain_type(annotation: Any) -> tuple[Any, str]:
    """Take the wrappers off an annotation; return what is left, and its description or "".

    >>> plain_type(Annotated[int, "how many"])
    (<class 'int'>, 'how many')
    """
    description = ""
    while True:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            texts = [note for note in annotation.__metadata__ if isinstance(note, str)]
            description = description or " ".join(texts)
            annotation = annotation.__origin__
        elif origin in (Required, NotRequired, typing.Final):
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation, description


def is_class_with_fields(annotation: Any) -> bool:
    """Say whether values of this type are written as a mapping of its fields."""
    return isinstance(annotation, type) and (
        attrs.has(annotation)
        or dataclasses.is_dataclass(annotation)
        or typing.is_typeddict(annotation)
    )


def class_fields(owner: type) -> tuple[Field, ...]:
    """Return what can be given to an attrs class, a dataclass or a TypedDict, inherited included.

    Raises:
        ConfigError: an annotation names something that cannot be found.
    """
    return _class_fields(owner)


@functools.cache
def _class_fields(owner: type) -> tuple[Field, ...]:
    if typing.is_typeddict(owner):
        hints = {name: _class_hint(owner, name) for name in owner.__annotations__}
        return tuple(
            _field(name, hint, required=_is_required(owner, name, hint))
            for name, hint in hints.items()
        )
    if attrs.has(owner):
        return tuple(_attrs_field(owner, field) for field in attrs.fields(owner) if field.init)
    if dataclasses.is_dataclass(owner):
        return tuple(
            _field(
                field.name,
                _class_hint(owner, field.name),
                required=field.default is MISSING and field.default_factory is MISSING,
                default=field.default,
            )
            for field in dataclasses.fields(owner)
            if field.init
        )
    raise TypeError(f"{owner!r} is no attrs class, dataclass or TypedDict")


def _attrs_field(owner: type, field: attrs.Attribute[Any]) -> Field:
    required = field.default is attrs.NOTHING
    has_value = not required and not hasattr(field.default, "takes_self")  # no attrs.Factory
    return _field(
        field.alias or field.name,
        _converter_input(field, _class_hint(owner, field.name, field.type)),
        required=required,
        default=field.default if has_value else MISSING,
    )


def _field(name: str, hint: Any, *, required: bool, default: Any = MISSING) -> Field:
    bare, description = plain_type(hint)
    return Field(name=name, type=bare, required=required, default=default, description=description)


def _converter_input(field: attrs.Attribute[Any], hint: Any) -> Any:
    """Return what may be given to a field: the input type of its converter, where it has one."""
    converter: Any = field.converter
    if converter is None or converter in (tuple, list, dict, set, frozenset):
        return hint
    try:
        parameters = function_parameters(converter)
    except (ConfigError, TypeError, ValueError):
        return Any
    return parameters[0].type if parameters else Any


def _is_required(owner: Any, name: str, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        origin = typing.get_origin(hint.__origin__)
    if origin in (Required, NotRequired):
        return origin is Required
    return name in owner.__required_keys__


def _class_hint(owner: type, name: str, fallback: Any = None) -> Any:
    """Return the resolved annotation of a field, from the class that declares it last."""
    for base in owner.__mro__:
        annotations = inspect.get_annotations(base)
        if name in annotations:
            module = sys.modules.get(base.__module__)
            names = {**vars(base), **vars(builtins), **(vars(module) if module else {})}
            return _resolve(annotations[name], names, f"field {name!r} of {base.__qualname__}")
    return Any if fallback is None else fallback


def _resolve(annotation: Any, names: Mapping[str, Any], place: str) -> Any:
    try:
        if isinstance(annotation, str):
            annotation = typing.ForwardRef(annotation, is_argument=False, is_class=True)
        # get_type_hints turns None into NoneType and resolves text inside of other types too.
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        return typing.get_type_hints(holder, dict(names), include_extras=True)["it"]
    except NameError as error:
        raise ConfigError(
            f"the annotation of {place} names {error.name!r}, which its module does not define "
            "when it runs.",
            hint="Import it outside `if TYPE_CHECKING:`, and define it at the top of a module.",
        ) from error
    except (SyntaxError, TypeError, AttributeError) as error:
        raise ConfigError(f"the annotation of {place} cannot be read: {error}") from error


def _underlying(function: Callable[..., Any]) -> Any:
    """Return the plain function that holds the annotations."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if isinstance(function, types.MethodType):
        return inspect.unwrap(function.__func__)
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return inspect.unwrap(type(function).__call__)


def function_parameters(function: Callable[..., Any]) -> tuple[Field, ...]:
    """Return the parameters of a function that a caller fills in, in their order.

    Names that start with ``__`` are hidden. A parameter without an annotation is text, or has the
    type of its default where that is text, a number or a truth value.

    Raises:
        ConfigError: a parameter cannot be passed by name, or its annotation cannot be resolved.
    """
    name = function_name(function)
    holder = _underlying(function)
    names = {**vars(builtins), **getattr(holder, "__globals__", {})}
    annotations = inspect.get_annotations(holder)
    descriptions = read_docstring(inspect.getdoc(holder) or "").parameters
    fields = []
    for parameter in inspect.signature(function).parameters.values():
        _check_passable(name, parameter)
        if parameter.name.startswith("__"):
            continue
        annotation = annotations.get(parameter.name, MISSING)
        if annotation is MISSING:
            hint = _type_of_default(parameter)
        else:
            place = f"parameter {parameter.name!r} of {name}()"
            hint = _resolve(annotation, names, place)
        bare, description = plain_type(hint)
        no_default = parameter.default is parameter.empty
        fields.append(
            Field(
                name=parameter.name,
                type=bare,
                required=no_default,
                default=MISSING if no_default else parameter.default,
                description=description or descriptions.get(parameter.name, ""),
            )
        )
    return tuple(fields)


def _check_passable(name: str, parameter: inspect.Parameter) -> None:
    if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else "*"
        raise ConfigError(
            f"{name}() takes {stars}{parameter.name}: its arguments have no names and types that "
            "a model could be told.",
            path=parameter.name,
            hint="Name each parameter.",
        )
    if parameter.kind is parameter.POSITIONAL_ONLY and not parameter.name.startswith("__"):
        raise ConfigError(
            f"{name}() takes {parameter.name!r} by position only, and arguments come by name.",
            path=parameter.name,
            hint="Remove the `/` from its signature.",
        )


def _type_of_default(parameter: inspect.Parameter) -> Any:
    known = (bool, int, float)
    return type(parameter.default) if type(parameter.default) in known else str


def injected_names(function: Callable[..., Any]) -> frozenset[str]:
    """Return which of `INJECTED` the function declares. Annotations are not looked at.

    Raises:
        ConfigError: a parameter cannot be passed by name, or it is hidden and has no default, so
            nobody could fill it in.
    """
    name = function_name(function)
    found = set()
    for parameter in inspect.signature(function).parameters.values():
        _check_passable(name, parameter)
        if parameter.name in INJECTED:
            found.add(parameter.name)
        elif parameter.name.startswith("__") and parameter.default is parameter.empty:
            raise ConfigError(
                f"{name}() hides its parameter {parameter.name!r} from the model, but nothing "
                "fills it in.",
                path=parameter.name,
                hint=f"Give it a default, or use one of {', '.join(INJECTED)}.",
            )
    return frozenset(found)


def function_name(function: Callable[..., Any]) -> str:
    """Return how a function is called in messages: its name, with its class where it has one."""
    name: str = getattr(function, "__qualname__", type(function).__name__)
    return name.rpartition("<locals>.")[2]
