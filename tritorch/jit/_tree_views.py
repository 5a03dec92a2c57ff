"""Trees of TorchScript's source, and the signature that a `# type:` comment writes.

    # type: (int, List[Tensor]) -> Tensor

Of expressions, those that types are made of.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tritorch.jit._sources import SourceRange, SourceRangeFactory
from tritorch.schema.source import highlight
from tritorch.schema.tokens import Token, Tokens

__all__ = [
    "Const", "Decl", "Dots", "EmptyTypeAnnotation", "Expr", "FalseLiteral", "Ident", "ListLiteral",
    "NoneLiteral", "Param", "Select", "SourceRange", "SourceRangeFactory", "StringLiteral",
    "Subscript", "TreeView", "TrueLiteral", "TupleLiteral", "Var",
]  # fmt: skip

_WIDTH = 40
Range = SourceRange
Many = Sequence[Any]


class TreeView:
    """A node: its kind, what is below it (nodes, words, and lists of them), and where it is."""

    _kind: str
    _below: tuple[Any, ...]
    _range: SourceRange

    def range(self) -> SourceRange:
        """Where it is."""
        return self._range

    def dump(self) -> None:
        """Prints the tree."""
        print(self)

    def __str__(self) -> str:
        return _written(self, 0) + "\n"


class Expr(TreeView):
    """An expression."""


class _Branch(TreeView):
    """What is a node in the text only: a list, or what may be there."""

    def __init__(self, kind: str, below: Sequence[Any]) -> None:
        self._kind, self._below = kind, tuple(below)


def _flat(node: Any) -> str:
    if isinstance(node, str):
        return node
    return f"({' '.join([node._kind, *map(_flat, node._below)])})"


def _written(node: Any, indent: int) -> str:
    flat = _flat(node)
    if isinstance(node, str) or indent + len(flat) < _WIDTH:
        return flat
    space = "\n" + " " * (indent + 2)
    return f"({node._kind}{''.join(space + _written(n, indent + 2) for n in node._below)})"


def _maybe(node: Any) -> _Branch:
    return _Branch("option", () if node is None else (node,))


def _leaf(kind: str) -> Callable[..., None]:
    def __init__(self: Any, range: SourceRange) -> None:
        self._kind, self._below, self._range = kind, (), range

    return __init__


def _literal(kind: str) -> Callable[..., None]:
    def __init__(self: Any, range: SourceRange, value: str) -> None:
        self._kind, self._below, self._range = kind, (value,), range

    return __init__


def _sequence(kind: str) -> Callable[..., None]:
    def __init__(self: Any, range: SourceRange, values: Many) -> None:
        self._kind, self._below, self._range = kind, (_Branch("list", values),), range

    return __init__


class Ident(TreeView):
    """A name."""

    __init__ = _literal("ident")

    @property
    def name(self) -> str:
        """The name."""
        return self._below[0]


class Var(Expr):
    """A name that is an expression."""

    def __init__(self, name: Ident) -> None:
        self._kind, self._below, self._range = "variable", (name,), name.range()

    @property
    def name(self) -> Ident:
        """The name."""
        return self._below[0]


class Const(Expr):
    """A number."""

    __init__ = _literal("const")


class StringLiteral(Expr):
    """A string."""

    __init__ = _literal("string_literal")


class TupleLiteral(Expr):
    """A tuple."""

    __init__ = _sequence("tuple-literal")


class ListLiteral(Expr):
    """A list."""

    __init__ = _sequence("list-literal")


class Dots(Expr):
    """An ellipsis."""

    __init__ = _leaf("dots")


class NoneLiteral(Expr):
    """None."""

    __init__ = _leaf("None")


class TrueLiteral(Expr):
    """True."""

    __init__ = _leaf("True")


class FalseLiteral(Expr):
    """False."""

    __init__ = _leaf("False")


class Select(Expr):
    """An attribute."""

    def __init__(self, value: Expr, name: Ident) -> None:
        self._kind, self._below, self._range = ".", (value, name), value.range()


class Subscript(Expr):
    """What is in brackets behind a value."""

    def __init__(self, base: Expr, indices: Many) -> None:
        self._kind, self._range = "subscript", base.range()
        self._below = (base, _Branch("list", indices))


class EmptyTypeAnnotation(TreeView):
    """No type."""

    def __init__(self, range: SourceRange) -> None:
        self._kind, self._below, self._range = "option", (), range


class Param(TreeView):
    """A parameter: its type (if any), name, and whether it goes by its name only."""

    def __init__(self, type: Any, name: Ident, kwarg_only: bool) -> None:
        kind = type if isinstance(type, EmptyTypeAnnotation) else _maybe(type)
        word = _Branch("True" if kwarg_only else "False", ())
        self._kind, self._below = "param", (name, kind, _maybe(None), word)
        self._range = name.range()


class Decl(TreeView):
    """A function's parameters and type of its result (if any)."""

    def __init__(self, range: SourceRange, params: Many, return_type: Any) -> None:
        for param in params:
            if not isinstance(param, Param):
                raise TypeError(f"Decl(): expected Params, got {param!r}")
        if isinstance(return_type, EmptyTypeAnnotation):
            return_type = None
        self._kind, self._range = "decl", range
        self._below = (_Branch("list", params), _maybe(return_type))


# ---- comments ------------------------------------------------------------------------------------


class _Parser:
    def __init__(self, comment: str) -> None:
        begin = re.match(r"\s*# type:", comment)
        if begin is None:
            self._refuse_start(comment)
        self.source = SourceRangeFactory(comment, None, 0, 0)
        self.tokens = Tokens(comment, begin.end())

    @staticmethod
    def _refuse_start(comment: str) -> NoReturn:
        found = Tokens(comment).next
        raise RuntimeError(
            f"expected type comment but found '{found.kind}' here:\n"
            f"{highlight(comment, found.start, found.end)}"
        )

    def decl(self) -> Decl:
        begin = self.tokens.take("(")
        types, end = self._until(")")
        params = [Param(kind, Ident(kind.range(), ""), False) for kind in types]
        returned = None
        if "\n" not in self.source.source[end.end : self.tokens.next.start]:
            returned = self._expression() if self.tokens.took("->") else None
        where = self.source.make_raw_range(begin.start, begin.start)
        return Decl(where, params, returned)

    def _range(self, token: Token) -> SourceRange:
        return self.source.make_raw_range(token.start, token.end)

    def _until(self, closing: str) -> tuple[list[Any], Token]:
        """Expressions between commas, and the word that ends them."""
        found: list[Any] = []
        while self.tokens.next.kind != closing:
            found.append(self._expression())
            if not self.tokens.took(","):
                break
        return found, self.tokens.take(closing)

    def _expression(self) -> Any:
        value = self._primary()
        while True:
            if self.tokens.took("."):
                word = self.tokens.take("ident")
                value = Select(value, Ident(self._range(word), word.text))
            elif self.tokens.took("["):
                value = Subscript(value, self._until("]")[0])
            else:
                return value

    def _primary(self) -> Any:
        token = self.tokens.next
        where = self._range(token)
        words = {"None": NoneLiteral, "True": TrueLiteral, "False": FalseLiteral, "...": Dots}
        if token.kind in words:
            self.tokens.take()
            return words[token.kind](where)
        if token.kind == "string_literal":
            return StringLiteral(where, ast.literal_eval(self.tokens.take().text))
        if token.kind in ("-", "number"):
            sign = "-" if self.tokens.took("-") else ""
            return Const(where, sign + self.tokens.take("number").text)
        if self.tokens.took("["):
            return ListLiteral(where, self._until("]")[0])
        if self.tokens.took("("):
            return self._in_parentheses(where)
        word = self.tokens.take("ident")
        return Var(Ident(where, word.text))

    def _in_parentheses(self, where: SourceRange) -> Any:
        """A tuple, or one expression that is there without a comma."""
        values, end = self._until(")")
        before = self.source.source[: end.start].rstrip()
        is_tuple = len(values) != 1 or before.endswith(",")
        return TupleLiteral(where, values) if is_tuple else values[0]


def parse_type_comment(comment: str, /) -> Decl:
    """The signature in a comment such as `# type: (int, Tensor) -> Tensor`."""
    if not isinstance(comment, str):
        raise TypeError(f"parse_type_comment(): expected a str, got {type(comment).__name__}")
    return _Parser(comment).decl()


def merge_type_from_type_comment(
    decl: Decl, type_annotation_decl: Decl, is_method: bool, /
) -> Decl:
    """The names of one signature with the types of another; a method's self keeps its own."""
    for given in (decl, type_annotation_decl):
        if not isinstance(given, Decl):
            raise TypeError(f"merge_type_from_type_comment(): expected a Decl, got {given!r}")
    (own, _), (other, returned) = decl._below, type_annotation_decl._below
    kept = own._below[:1] if is_method else ()
    named, typed = own._below[len(kept) :], other._below
    if len(named) != len(typed):
        raise RuntimeError(
            f"\nNumber of type annotations ({len(typed)}) did not match the number of function "
            f"parameters ({len(named)}):\n{decl.range().highlight()}"
        )
    merged = Decl(decl.range(), kept, None)
    params = []
    for name, kind in zip(named, typed):
        param = Param(None, name._below[0], False)
        param._below = (name._below[0], kind._below[1], *name._below[2:])
        params.append(param)
    merged._below = (_Branch("list", (*kept, *params)), returned)
    return merged


for _name in __all__:
    globals()[_name].__module__ = "tritorch.jit._tree_views"
