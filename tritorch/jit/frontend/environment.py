"""Scopes of names while a function is compiled."""

from __future__ import annotations

from typing import Any

from tritorch.jit.frontend.source import fail
from tritorch.jit.frontend.sugared import SimpleValue
from tritorch.schema.types import Type


class Environment:
    """The names of a block.  Blocks inside see them; what those assign stays theirs until a merge.

    names: sugared values.  types: types that annotations declared.
    missing: the reasons why names that an inner block assigned are not defined after it.
    flags: whether the block was left by "return", "break" or "continue": a constant bool, or the
    value that tells it at run time; "result" is what `return` gave.
    """

    def __init__(self, parent: Environment | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Any] = {}
        self.types: dict[str, Type] = {}
        self.missing: dict[str, str] = {}
        self.flags: dict[str, Any] = {}
        self.assigned: set[str] = set()  # by a statement; other names are only refined

    def find(self, name: str) -> Any:
        """The sugared value of a name; None if no block around defines it."""
        scope: Environment | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def why_missing(self, name: str) -> str | None:
        """The reason why a name is not defined, if a block assigned it."""
        scope: Environment | None = self
        while scope is not None:
            if name in scope.missing:
                return scope.missing[name]
            scope = scope.parent
        return None

    def declared(self, name: str) -> Type | None:
        """The type that an annotation gave a name."""
        scope: Environment | None = self
        while scope is not None:
            if name in scope.types:
                return scope.types[name]
            if name in scope.names and scope.parent is None:
                return None
            scope = scope.parent
        return None

    def flag(self, name: str) -> Any:
        """The state of a flag: False where nothing set it."""
        scope: Environment | None = self
        while scope is not None:
            if name in scope.flags:
                return scope.flags[name]
            scope = scope.parent
        return False

    def refine(self, name: str, value: Any) -> None:
        """Narrows a name in this block without assigning it."""
        self.names[name] = value

    def assign(self, name: str, value: Any, place: Any, kind: Type | None = None) -> None:
        """Sets a name.  A name of a block around keeps its type there."""
        declared = kind or self.declared(name)
        if isinstance(value, SimpleValue):
            given = value.value.type()
            if kind is not None and not given.isSubtypeOf(kind):
                fail(
                    place,
                    f"Variable '{name}' is annotated with type {kind.annotation_str} but is "
                    f"being assigned to a value of type {given.annotation_str}",
                )
        outer = self.parent.find(name) if self.parent is not None else None
        if outer is not None and name not in self.assigned:
            self._check_outer(name, outer, value, declared, place, kind)
        if kind is not None:
            self.types[name] = kind
        else:
            self.types.pop(name, None)  # in its own block a name may change its type
        self.names[name] = value
        self.assigned.add(name)

    def _check_outer(
        self,
        name: str,
        outer: Any,
        value: Any,
        declared: Type | None,
        place: Any,
        kind: Type | None,
    ) -> None:
        """Refuses a value that a name of a block around cannot take."""
        if not isinstance(outer, SimpleValue):
            if value is not outer and self.parent is not None:
                fail(
                    place,
                    f"Cannot re-assign '{name}' to a value of type {value.describe()} because "
                    f"{name} is not a first-class value.  Only reassignments to first-class values "
                    "are allowed",
                )
            return
        if not isinstance(value, SimpleValue):
            fail(
                place,
                f"Cannot re-assign '{name}' to a value of type {value.describe()}",
            )
        if kind is not None:
            fail(
                place,
                f"Attempting to declare and annotate the type of variable '{name}' that is already "
                "defined in an outer block",
            )
        before = declared or outer.value.type()
        given = value.value.type()
        if not given.isSubtypeOf(unshaped(before)):
            message = (
                f"Variable '{name}' previously had type {before.annotation_str} but is now being "
                f"assigned to a value of type {given.annotation_str}"
            )
            if before.kind() == "ListType" and given.kind() == "ListType":
                message += (
                    "\nEmpty lists default to List[Tensor]. Add a variable annotation to the "
                    "assignment to create an empty list of another type "
                    "(torch.jit.annotate(List[T, []]) where T is the type of elements in the list "
                    "for Python 2)"
                )
            fail(place, message)


def unshaped(kind: Type) -> Type:
    """The type without the sizes of tensors."""
    from tritorch.schema.tensor_type import TensorType

    return TensorType.get() if isinstance(kind, TensorType) else kind
