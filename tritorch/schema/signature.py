"""Signatures: `FunctionSchema`, and the `Argument`s in it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tritorch.schema import types
from tritorch.schema.types import Type


class AliasInfo:
    """Which memory an argument or result shares, by the names of sets, and whether it is written.

    contained: of a list, what its elements share.
    """

    def __init__(
        self,
        is_write: bool,
        before: Iterable[str],
        after: Iterable[str],
        contained: AliasInfo | None = None,
    ) -> None:
        self.is_write = is_write
        self._before, self._after = tuple(before), tuple(after)
        self._contained = contained

    @property
    def before_set(self) -> set[str]:
        """The sets before the call."""
        return set(self._before)

    @property
    def after_set(self) -> set[str]:
        """The sets after the call."""
        return set(self._after)

    def containing(self, element: AliasInfo) -> AliasInfo:
        """The same for a list of such elements."""
        return AliasInfo(self.is_write, self._before, self._after, element)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AliasInfo):
            return NotImplemented
        return (
            self.is_write == other.is_write
            and self.before_set == other.before_set
            and self.after_set == other.after_set
            and self._contained == other._contained
        )

    def __hash__(self) -> int:
        return hash((self.is_write, frozenset(self._before), frozenset(self._after)))

    def __str__(self) -> str:
        if not self._before and not self._after:
            return ""
        text = "|".join(self._before) + ("!" if self.is_write else "")
        if self.before_set != self.after_set:
            text += " -> " + "|".join(self._after)
        return f"({text})"


class Argument:
    """An argument of a function, or a result.

    type is what programs see and real_type what the schema says; N is the size of a list that is
    fixed.
    """

    NO_DEFAULT: ClassVar[Any] = object()

    def __init__(
        self,
        name: str,
        type: Type,
        N: int | None,
        default_value: Any,
        kwarg_only: bool,
        alias_info: AliasInfo | None,
    ) -> None:
        default = Argument.NO_DEFAULT if default_value is None else default_value
        self._set(name, type, type, N, default, kwarg_only, alias_info)

    def _set(self, *fields: Any) -> None:
        (self.name, self.real_type, self.type, self.N, self._default, self.kwarg_only,
         self.alias_info) = fields  # fmt: skip

    @classmethod
    def _make(cls, *fields: Any) -> Argument:
        self = object.__new__(cls)
        self._set(*fields)
        return self

    @property
    def default_value(self) -> Any:
        """What it is if it is not given; None if it must be."""
        return self._default if self.has_default_value() else None

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self._default is not Argument.NO_DEFAULT

    @property
    def is_write(self) -> bool:
        """Whether its memory is written."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether it is where a result goes: written, and given by keyword."""
        return bool(self.kwarg_only and self.is_write)

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.N, self.kwarg_only, self.alias_info, self.real_type

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Argument):
            return NotImplemented
        return self._key() == other._key() and self._has_default_of(other)

    def __hash__(self) -> int:
        return hash(self._key()[:-1])

    def _has_default_of(self, other: Argument) -> bool:
        return type(self._default) is type(other._default) and bool(self._default == other._default)

    def _text(self) -> str:
        text = _written_type(self.real_type, self.alias_info, self.N)
        if self.name:
            text += f" {self.name}"
        if self.has_default_value():
            text += f"={_written_default(self.real_type, self._default, self.N)}"
        return text

    def _shares_shape(self, other: Argument) -> bool:
        return self.name == other.name and self.N == other.N and self.alias_info == other.alias_info

    def _accepts(self, old: Argument) -> bool:
        """Whether a call that was right for the old argument is right for this one."""
        return (
            self._shares_shape(old)
            and not (self.kwarg_only and not old.kwarg_only)
            and (not old.has_default_value() or self._has_default_of(old))
            and old.type.isSubtypeOf(self.type)
        )

    def _is_accepted_by(self, old: Argument) -> bool:
        """Whether a call that is right for this argument was right for the old one."""
        return (
            self._shares_shape(old)
            and not (self.kwarg_only and not old.kwarg_only)
            and self._has_default_of(old)
            and self.type.isSubtypeOf(old.type)
        )


def _written_type(kind: Type, alias: AliasInfo | None, size: int | None) -> str:
    if isinstance(kind, types.OptionalType):
        return _written_type(kind.getElementType(), alias, size) + "?"
    if isinstance(kind, types.ListType):
        inside = _written_type(kind.getElementType(), alias and alias._contained, None)
        return f"{inside}[{'' if size is None else size}]{alias or ''}"
    return f"{kind._in_schema()}{alias or ''}"


_ESCAPES = {
    "\\": r"\\", "'": r"\'", '"': r"\"", "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n",
    "\r": r"\r", "\t": r"\t", "\v": r"\v",
}  # fmt: skip


def quoted(text: str) -> str:
    """A text in double quotes, as schemas write it."""
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in text) + '"'


def _written_default(kind: Type, value: Any, size: int | None) -> str:
    if isinstance(kind, types.OptionalType):
        kind = kind.getElementType()
    if isinstance(value, list):
        element = kind.containedTypes()[0]
        # One number for all places of an int[2] is written once.
        is_same = size is not None and len(value) == size > 1 and len(set(value)) == 1
        if is_same and isinstance(element, types.IntType):
            return str(value[0])
        return f"[{', '.join(_written(item) for item in value)}]"
    return _written(value)


def _written(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    return written_float(value) if isinstance(value, float) else str(value)


def written_float(value: float) -> str:
    """All digits of a float, and a point if it is whole, as schemas and TorchScript write it."""
    text = f"{value:.17g}"
    return text + "." if text.lstrip("-").isdigit() else text


class FunctionSchema:
    """The name of an operator and an overload of it, with its arguments and results."""

    def __init__(
        self,
        name: str,
        overload_name: str,
        arguments: Sequence[Argument],
        returns: Sequence[Argument],
        is_vararg: bool,
        is_varret: bool,
    ) -> None:
        self.name, self.overload_name = name, overload_name
        self._arguments, self._returns = tuple(arguments), tuple(returns)
        self._is_vararg, self._is_varret = is_vararg, is_varret
        has_default = False
        for argument in arguments:
            if has_default and not argument.has_default_value() and not argument.kwarg_only:
                raise RuntimeError(
                    "Non-default positional argument follows default argument. Parameter "
                    f"{argument.name} in {self}"
                )
            has_default = argument.has_default_value()

    @property
    def arguments(self) -> list[Argument]:
        """The arguments."""
        return list(self._arguments)

    @property
    def returns(self) -> list[Argument]:
        """The results."""
        return list(self._returns)

    @functools.cached_property
    def is_mutable(self) -> bool:
        """Whether it writes to any of its arguments."""
        return any(argument.is_write for argument in self._arguments)

    def _is_view_op(self) -> bool:
        """Whether an argument's memory is shared and not written."""
        return any(a.alias_info is not None and not a.is_write for a in self._arguments)

    def __str__(self) -> str:
        inside: list[str] = []
        is_keyword = False
        for argument in self._arguments:
            if argument.kwarg_only and not is_keyword:
                inside.append("*")
                is_keyword = True
            inside.append(argument._text())
        inside += ["..."] * self._is_vararg
        outside = [result._text() for result in self._returns] + ["..."] * self._is_varret
        results = ", ".join(outside)
        if len(outside) != 1 or results.startswith("("):
            results = f"({results})"
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(inside)}) -> {results}"

    __repr__ = __str__

    def _key(self) -> tuple[Any, ...]:
        return (self.name, self.overload_name, self._arguments, self._returns, self._is_vararg,
                self._is_varret)  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionSchema):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __getstate__(self) -> str:
        return str(self)

    def __setstate__(self, state: str) -> None:
        from tritorch.schema.parser import parse_schema

        self.__dict__.update(parse_schema(state).__dict__)

    # ---- compatibility ---------------------------------------------------------------------------

    def _resembles(self, old: FunctionSchema) -> bool:
        return (
            self.name == old.name
            and self.overload_name == old.overload_name
            and self._is_vararg == old._is_vararg
            and self._is_varret == old._is_varret
            and len(self._returns) == len(old._returns)
        )

    def _parts(self) -> tuple[list[Argument], list[Argument]]:
        """The arguments before the first that is for a result, and those from it on."""
        is_out = [argument.is_out for argument in self._arguments]
        first = is_out.index(True) if True in is_out else len(is_out)
        return list(self._arguments[:first]), list(self._arguments[first:])

    def is_backward_compatible_with(self, old: FunctionSchema) -> bool:
        """Whether every call that was right for the old schema is right for this one."""
        if not self._resembles(old) or len(self._arguments) < len(old._arguments):
            return False
        (ours, ours_out), (theirs, theirs_out) = self._parts(), old._parts()
        if len(ours) < len(theirs) or len(ours_out) < len(theirs_out):
            return False
        return (
            all(was._accepts(now) for now, was in zip(self._returns, old._returns))
            and all(now._accepts(was) for now, was in zip(ours, theirs))
            and all(now.has_default_value() for now in ours[len(theirs) :])
            and all(now._accepts(was) for now, was in zip(ours_out, theirs_out))
        )

    def check_forward_compatible_with(self, old: FunctionSchema) -> tuple[bool, str]:
        """Whether calls that are right for this schema were right for the old one, or why not."""
        if not self._resembles(old):
            return False, ""
        (ours, ours_out), (theirs, theirs_out) = self._parts(), old._parts()
        if len(ours_out) != len(theirs_out):
            return False, "Function schema should have the same number of out arguments"
        for now, was in zip(ours, theirs):
            if not now._is_accepted_by(was):
                return False, (
                    f"'{now.name}' is not forward compatible with the older version of the schema"
                )
        for now in ours[len(theirs) :]:
            start = (
                "Function schema is not forward compatible since the new argument "
                f"'{now.name}' of type {now.type.str()} "
            )
            if not now.has_default_value():
                return False, start + "did not provide a default value."
            if isinstance(now.default_value, (list, dict, tuple)):
                return False, start + "has a container type as its default value."
        for now, was in zip(ours_out, theirs_out):
            if not now._is_accepted_by(was):
                return False, (
                    f"Out argument '{now.name}' is not FC with the older version of the schema"
                )
        return True, ""
