"""`SymInt(node)`, `SymFloat(node)`, `SymBool(node)`: numbers that a program's own node computes.

A number that the package makes has a ShapeEnv and is computed by it; one that a program makes has
PyTorch's protocol of nodes: every operation is a method of the node, called with another node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tritorch.arrays.symbolic import SymBool, SymFloat, SymInt

_NUMBERS = (int, float, SymInt, SymFloat, SymBool)


class _OfNode:
    """The base of the three.  Their node is in the slot `env`."""

    __slots__ = ()
    env: Any

    @property
    def node(self) -> Any:
        """The program's node."""
        return self.env

    def __repr__(self) -> str:
        return self.env._graph_repr()

    def __str__(self) -> str:
        return self.env.str() if hasattr(self.env, "str") else self.env._graph_repr()


def of_node(node: Any) -> Any:
    """The number that a node is, by what the node says of itself."""
    kind = SymInt if node.is_int() else SymFloat if node.is_float() else SymBool
    return kind(node)


def _node(like: Any, number: Any) -> Any:
    """A number's node, wrapped by another's if it is a plain number."""
    if isinstance(number, (SymInt, SymFloat, SymBool)):
        return number.node
    if isinstance(number, bool):
        return like.wrap_bool(number)
    return like.wrap_int(number) if isinstance(number, int) else like.wrap_float(number)


def _as_float(number: Any) -> Any:
    if isinstance(number, float) or type(number) is FloatOfNode:
        return number
    return of_node(number.node.sym_float()) if isinstance(number, _OfNode) else float(number)


def _is_float(number: Any) -> bool:
    return isinstance(number, (float, SymFloat))


def _counted(number: Any) -> Any:
    """A condition as 0 or 1, as Python's arithmetic takes it."""
    if type(number) is BoolOfNode:
        return SymInt(number.node.wrap_int(int(number)))
    return int(number) if type(number) is bool else number


def _binary(name: str, swapped: bool = False, promotes: bool = True) -> Callable[..., Any]:
    """An operator by the node's method; of an integer and a float, both are floats."""

    def compute(self: Any, other: Any) -> Any:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        if promotes:
            self, other = _counted(self), _counted(other)
            if _is_float(self) or _is_float(other):
                self, other = _as_float(self), _as_float(other)
        theirs = _node(self.node, other)
        first, second = (theirs, self.node) if swapped else (self.node, theirs)
        result = of_node(getattr(first, name)(second))
        return result.node.guard_int("", 0) if result.node.is_constant() else result

    return compute


def _unary(name: str) -> Callable[[Any], Any]:
    return lambda self: of_node(getattr(self.node, name)())


class _Arithmetic(_OfNode):
    """Arithmetic of integers and floats of nodes."""

    __slots__ = ()

    __add__, __radd__ = _binary("add"), _binary("add", swapped=True)
    __sub__, __rsub__ = _binary("sub"), _binary("sub", swapped=True)
    __mul__, __rmul__ = _binary("mul"), _binary("mul", swapped=True)
    __mod__, __rmod__ = _binary("mod"), _binary("mod", swapped=True)
    __eq__, __ne__ = _binary("eq"), _binary("ne")
    __lt__, __le__ = _binary("lt"), _binary("le")
    __gt__, __ge__ = _binary("gt"), _binary("ge")
    __sym_max__, __sym_min__ = _binary("sym_max"), _binary("sym_min")
    __neg__, __abs__ = _unary("neg"), _unary("abs")
    __sym_float__, __sym_sqrt__ = _unary("sym_float"), _unary("sym_sqrt")
    __floor__, __ceil__ = _unary("floor"), _unary("ceil")
    __trunc__, __pos__ = _unary("trunc"), _unary("pos")


class IntOfNode(_Arithmetic, SymInt):
    """`SymInt(node)`."""

    __slots__ = ()

    _int_floordiv = _binary("int_floordiv", promotes=False)
    _rint_floordiv = _binary("int_floordiv", swapped=True, promotes=False)
    _int_truediv = _binary("int_truediv", promotes=False)
    _rint_truediv = _binary("int_truediv", swapped=True, promotes=False)
    __lshift__, __rshift__ = _binary("lshift"), _binary("rshift")
    __and__, __or__ = _binary("bitwise_and"), _binary("bitwise_or")
    __trunc__ = __floor__ = __ceil__ = lambda self: self

    def __truediv__(self, other: Any) -> Any:
        return _as_float(self) / other if _is_float(other) else self._int_truediv(other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / _as_float(self) if _is_float(other) else self._rint_truediv(other)

    def __floordiv__(self, other: Any) -> Any:
        return _as_float(self) // other if _is_float(other) else self._int_floordiv(other)

    def __rfloordiv__(self, other: Any) -> Any:
        return other // _as_float(self) if _is_float(other) else self._rint_floordiv(other)

    def __pow__(self, other: Any, modulo: None = None) -> Any:
        if _is_float(other) or other < 0:
            return _as_float(self) ** _as_float(other)
        return _binary("pow_by_natural", promotes=False)(self, other)

    def __rpow__(self, other: Any, modulo: None = None) -> Any:
        if _is_float(other) or self < 0:
            return _as_float(other) ** _as_float(self)
        return _binary("pow_by_natural", swapped=True, promotes=False)(self, other)

    def __round__(self, ndigits: int | None = None) -> Any:
        return self

    def __int__(self) -> int:
        return self.node.int_()

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __hash__(self) -> int:
        if self.node.is_nested_int():
            return hash(self.node.nested_int())
        raise TypeError("unhashable type: non-nested SymInt")

    def as_integer_ratio(self) -> tuple[Any, int]:
        """Itself over 1."""
        return self, 1


class FloatOfNode(_Arithmetic, SymFloat):
    """`SymFloat(node)`."""

    __slots__ = ()

    __truediv__, __rtruediv__ = _binary("float_truediv"), _binary("float_truediv", swapped=True)
    is_integer = _unary("is_integer")

    def __floordiv__(self, other: Any) -> Any:
        return _as_float(math.floor(self / _as_float(other)))

    def __rfloordiv__(self, other: Any) -> Any:
        return _as_float(math.floor(_as_float(other) / self))

    def __pow__(self, other: Any, modulo: None = None) -> Any:
        return _binary("float_pow")(self, other)

    def __rpow__(self, other: Any, modulo: None = None) -> Any:
        return _binary("float_pow", swapped=True)(self, other)

    def __round__(self, ndigits: int | None = None) -> Any:
        return of_node(self.node.round(ndigits))

    def __float__(self) -> float:
        return self.node.guard_float("", 0)

    def __int__(self) -> int:
        return self.__trunc__().__int__()

    def __bool__(self) -> bool:
        return self.node.bool_()

    def __hash__(self) -> int:
        return hash(float(self))

    def as_integer_ratio(self) -> tuple[int, int]:
        """The two integers whose ratio it is."""
        return float(self).as_integer_ratio()

    def hex(self) -> str:
        """Its hexadecimal digits."""
        return float(self).hex()


class BoolOfNode(_OfNode, SymBool):
    """`SymBool(node)`."""

    __slots__ = ()

    __and__, __rand__ = _binary("sym_and", promotes=False), _binary("sym_and", True, False)
    __or__, __ror__ = _binary("sym_or", promotes=False), _binary("sym_or", True, False)
    __eq__ = _binary("eq", promotes=False)
    __sym_not__, __sym_float__ = _unary("sym_not"), _unary("sym_float")

    def __invert__(self) -> Any:
        raise TypeError("bad operand type for unary ~: 'SymBool'")  # ~True is -2: see sym_not

    def __sym_ite__(self, then: Any, otherwise: Any) -> Any:
        """One of two numbers, by this condition."""
        return of_node(self.node.sym_ite(_node(self.node, then), _node(self.node, otherwise)))

    def __bool__(self) -> bool:
        return self.node.bool_()

    def __int__(self) -> int:
        return int(self.node.bool_())

    def __hash__(self) -> int:
        return hash(bool(self))


OF_NODE: dict[type, type] = {SymInt: IntOfNode, SymFloat: FloatOfNode, SymBool: BoolOfNode}
for _kind, _class in OF_NODE.items():  # they say that they are the public classes
    _class.__name__ = _class.__qualname__ = _kind.__name__
    _class.__module__ = _kind.__module__
