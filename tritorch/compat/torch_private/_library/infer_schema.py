"""The schema of an operator, from the annotations of a function."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from tritorch.core.device import device
from tritorch.core.dtype import dtype
from tritorch.core.tensor import Tensor
from tritorch.schema.tags import Tag

Number = int | float | bool
# The schema's name of a type; whether a list of it, of it or None, and a list or None, may be an
# argument.
_TYPES: tuple[tuple[Any, str, bool, bool, bool], ...] = (
    (Tensor, "Tensor", True, True, False),
    (int, "SymInt", True, False, True),
    (float, "float", True, False, True),
    (bool, "bool", True, False, True),
    (str, "str", False, False, False),
    (Number, "Scalar", True, False, False),
    (dtype, "ScalarType", False, False, False),
    (device, "Device", False, False, False),
)


def _lists_of(kind: Any) -> list[Any]:
    return [typing.Sequence[kind], typing.List[kind],  # noqa: UP006
            collections.abc.Sequence[kind], list[kind]]  # fmt: skip


def _parameters() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for kind, name, in_list, none_in_list, list_or_none in _TYPES:
        found[kind] = name
        found[typing.Optional[kind]] = f"{name}?"  # noqa: UP045
        if in_list:
            found |= dict.fromkeys(_lists_of(kind), f"{name}[]")
        if none_in_list:
            found |= dict.fromkeys(_lists_of(typing.Optional[kind]), f"{name}?[]")  # noqa: UP045
        if list_or_none:
            lists = [typing.Optional[each] for each in _lists_of(kind)]  # noqa: UP045
            found |= dict.fromkeys(lists, f"{name}[]?")
    return found


SUPPORTED_PARAM_TYPES: dict[Any, str] = _parameters()
SUPPORTED_RETURN_TYPES: dict[Any, str] = {
    Tensor: "Tensor",
    typing.List[Tensor]: "Tensor[]",  # noqa: UP006
    list[Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    Number: "Scalar",
}


def supported_param(param: inspect.Parameter) -> bool:
    """Whether a parameter has a name and one value."""
    return param.kind in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY)


def tuple_to_list(tuple_type: Any) -> Any:
    """The list type that may stand for a tuple type."""
    parts = typing.get_args(tuple_type)
    if not parts:
        return list
    if len(parts) == 1 or (len(parts) == 2 and parts[1] is ...):
        return list[parts[0]]  # type: ignore[valid-type]
    return list[typing.Union[parts]]  # type: ignore[valid-type]  # noqa: UP007


def _read(annotation: Any, scope: dict[str, Any], refuse: Callable[[str], NoReturn]) -> Any:
    """An annotation whose strings, inside of others too, are read as types."""
    if isinstance(annotation, str):
        try:
            return eval(annotation, scope)
        except NameError as error:
            refuse(
                f"Unsupported type annotation {annotation}. It is not a type. ({error}). If you "
                "are using 'from __future__ import annotations', note that annotations are "
                "evaluated lazily as strings; make sure all types referenced in annotations are "
                "importable at module scope, not only inside a local function."
            )
        except Exception as error:
            refuse(
                f"Unsupported type annotation {annotation}. It is not a type. "
                f"({type(error).__name__}: {error})"
            )
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    read = tuple(_read(part, scope, refuse) if isinstance(part, str) else part for part in parts)
    return types.GenericAlias(origin, read) if read != parts else annotation


def _parameter_type(
    name: str, given: Any, annotation: Any, refuse: Callable[[str], NoReturn]
) -> str:
    """The schema's type of a parameter."""
    try:
        return SUPPORTED_PARAM_TYPES[annotation]
    except (KeyError, TypeError):
        valid = f"The valid types are: {SUPPORTED_PARAM_TYPES.keys()}."
    if typing.get_origin(annotation) is tuple or annotation is tuple:
        instead = tuple_to_list(annotation)
        example = f"For example, {instead}.\n\n" if instead in SUPPORTED_PARAM_TYPES else "\n\n"
        refuse(
            f"Parameter {name} has unsupported type {given}. We do not support Tuple inputs in "
            "schema. As a workaround, please try to use List instead. " + example + valid
        )
    refuse(f"Parameter {name} has unsupported type {given}. {valid}")


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Tag | Sequence[Tag] | None = (),
) -> str:
    """The schema that a function's annotations say.

    mutates_args: the names of the arguments that the function writes, or "unknown" for all.
    tags: with Tag.inplace the first argument is the result, with Tag.out the written keywords."""
    signature = inspect.signature(prototype_function)
    scope = prototype_function.__globals__
    given = () if tags is None else (tags,) if isinstance(tags, Tag) else tuple(tags)
    in_place, out = Tag.inplace in given, Tag.out in given
    if in_place and out:
        raise AssertionError("torch.Tag.inplace and torch.Tag.out are mutually exclusive")

    def refuse(what: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated "
            "or the string 'unknown'. "
        )
    written = None if isinstance(mutates_args, str) else tuple(mutates_args)
    parts: list[str] = []
    outputs: dict[str, str] = {}  # alias sets of what is written by keyword, by name
    first: tuple[str, str, str] | None = None  # of what is given by place: name, type, alias set
    for place, (name, parameter) in enumerate(signature.parameters.items()):
        if not supported_param(parameter):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        by_keyword = parameter.kind is parameter.KEYWORD_ONLY
        if by_keyword and "*" not in parts:
            parts.append("*")
        if parameter.annotation is parameter.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        annotation = _read(parameter.annotation, scope, refuse)
        kind = _parameter_type(name, parameter.annotation, annotation, refuse)
        if first is None and not by_keyword:
            first = name, kind, f"a{place}"
        if kind.startswith("Tensor") if written is None else name in written:
            if not kind.startswith("Tensor"):
                refuse(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of "
                    "Tensors can be mutated"
                )
            if out and not by_keyword:
                refuse("torch.Tag.out requires mutable arguments to be keyword-only.")
            if out and kind != "Tensor":
                refuse("torch.Tag.out only supports mutable keyword-only Tensor arguments.")
            kind = f"Tensor(a{place}!){kind.removeprefix('Tensor')}"
            outputs[name] = f"a{place}"
        text = f"{kind} {name}"
        if parameter.default is not parameter.empty:
            text += f"={_default(parameter.default, name, refuse)}"
        parts.append(text)
    if written is not None and (unknown := set(written) - set(signature.parameters)):
        refuse(
            f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string "
            "'unknown' if you don't know."
        )
    returned = _read(signature.return_annotation, scope, refuse)
    if out:
        result = _outputs(returned, outputs, refuse)
    elif in_place:
        result = _first_argument(returned, first, written, refuse)
    else:
        result = parse_return(returned, refuse)
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


def _outputs(annotation: Any, outputs: dict[str, str], refuse: Callable[[str], NoReturn]) -> str:
    """The results of a form with `out`."""
    if not outputs:
        refuse("torch.Tag.out requires at least one mutable keyword-only Tensor argument.")
    one = annotation is Tensor and len(outputs) == 1
    several = typing.get_origin(annotation) is tuple and len(outputs) > 1
    if not one and not (several and typing.get_args(annotation) == (Tensor,) * len(outputs)):
        refuse(
            "torch.Tag.out requires the return annotation to match the mutable keyword-only Tensor "
            f"arguments {tuple(outputs)}."
        )
    inner = ", ".join(f"Tensor({each}!)" for each in outputs.values())
    return inner if len(outputs) == 1 else f"({inner})"


def _first_argument(
    annotation: Any, first: tuple[str, str, str] | None, written: Sequence[str] | None,
    refuse: Callable[[str], NoReturn],
) -> str:  # fmt: skip
    """The result of a form in place."""
    if first is None:
        refuse("torch.Tag.inplace requires a positional Tensor argument.")
    name, kind, aliases = first
    if kind != "Tensor":
        refuse("torch.Tag.inplace requires the first positional argument to be a Tensor.")
    if written is None or set(written) != {name}:
        refuse(
            "torch.Tag.inplace requires mutates_args to contain exactly the first positional "
            f"argument, got {'unknown' if written is None else written}."
        )
    if parse_return(annotation, refuse) != "Tensor":
        refuse("torch.Tag.inplace requires the return annotation to be torch.Tensor.")
    return f"Tensor({aliases}!)"


def _default(value: Any, name: str, refuse: Callable[[str], NoReturn]) -> str:
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, (str, device)):
        return f'"{value}"'
    if isinstance(value, dtype):
        return str(value).rpartition(".")[2]
    refuse(
        f"Parameter {name} has an unsupported default value type {type(value)}. Please file an "
        "issue on GitHub so we can prioritize this."
    )


def parse_return(annotation: Any, error_fn: Callable[[str], NoReturn]) -> str:
    """The schema's results for a function's."""
    if annotation is None:
        return "()"
    if annotation is inspect.Parameter.empty:
        error_fn("No return type annotation was provided. Please add one.")
    several = typing.get_origin(annotation) is tuple
    parts = typing.get_args(annotation) if several else (annotation,)
    try:
        names = [SUPPORTED_RETURN_TYPES[part] for part in parts]
    except (KeyError, TypeError):
        error_fn(
            f"Return has unsupported type {annotation}. The valid types are: "
            f"{SUPPORTED_RETURN_TYPES}."
        )
    if not several:
        return names[0]
    inner = ", ".join(names)
    return f"(({inner}))" if len(names) == 1 else f"({inner})"
