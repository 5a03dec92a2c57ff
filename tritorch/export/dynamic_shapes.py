"""Dynamic sizes of a program's inputs: names, hints and what is said of each.

    batch = Dim("batch", max=1024)
    dynamic_shapes = {"x": {0: batch}, "y": {0: 2 * batch + 1, 1: Dim.AUTO}}

`specified` pairs what a program says with the leaves of its arguments.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tritorch.compat.torch_private._dynamo.exc import UserError, UserErrorType
from tritorch.core.tensor import Tensor
from tritorch.utils._pytree import (
    SUPPORTED_NODES,
    _get_node_type,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map_with_path,
)

__all__ = [
    "AdditionalInputs", "Constraint", "Dim", "ShapesCollection", "dims",
    "refine_dynamic_shapes_from_suggested_fixes",
]  # fmt: skip


class _DimHintType(enum.Enum):
    """What is asked for of a size: that it is as open as it can be, open, or its number."""

    AUTO = enum.auto()
    DYNAMIC = enum.auto()
    STATIC = enum.auto()


@dataclasses.dataclass
class _DimHint:
    """A size without a name; calling `Dim.AUTO` and `Dim.DYNAMIC` says between which numbers."""

    type: _DimHintType
    min: int | None = None
    max: int | None = None
    _factory: bool | None = True

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:
        if not self._factory:
            raise TypeError(f"'{type(self)}' object is not callable")
        for name, value in (("min", min), ("max", max)):
            if value is not None and value < 0:
                raise AssertionError(f"{name} must be non-negative, got {value}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return _DimHint(self.type, min, max, False)

    def __repr__(self) -> str:
        ends = [f"{n}={v}" for n, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"DimHint({', '.join([self.type.name, *ends])})"


class Dim:
    """A dynamic size, by name: equal names are equal sizes.

    min, max: between which numbers it lies.  `2 * dim + 1` is a size that follows from it."""

    AUTO: ClassVar[_DimHint] = _DimHint(_DimHintType.AUTO)
    DYNAMIC: ClassVar[_DimHint] = _DimHint(_DimHintType.DYNAMIC)
    STATIC: ClassVar[_DimHint] = _DimHint(_DimHintType.STATIC)

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low, high = 0 if min is None else min, math.inf if max is None else max
        if not high > low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__, self.min, self.max = name, low, high

    def __add__(self, other: Any) -> Dim:
        if type(other) is not int:
            raise self._refused("add", f"{other} to", "an integer was")
        return self._derive(1, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dim:
        if type(other) is not int:
            raise self._refused("subtract", f"{other} from", "an integer was")
        return self._derive(1, -other)

    def __rsub__(self, other: Any) -> Dim:
        raise NotImplementedError(
            f"Attempted to negate {self.__name__}. "
            "(Only increasing linear operations with integer coefficients are supported.)"
        )

    def __mul__(self, other: Any) -> Dim:
        if type(other) is not int or other <= 0:
            raise self._refused("multiply", f"{other} with", "a positive integer was")
        return self._derive(other, 0)

    __rmul__ = __mul__

    def _refused(self, what: str, operands: str, wanted: str) -> NotImplementedError:
        return NotImplementedError(
            f"Attempted to {what} {operands} {self.__name__}, where {wanted} expected. "
            "(Only increasing linear operations with integer coefficients are supported.)"
        )

    def _derive(self, factor: int, addend: int) -> Dim:
        return _DerivedDim(self, factor, addend)

    @staticmethod
    def _readable(name: str, low: float, high: float) -> str:
        """How a program writes a dim."""
        ends = ([] if low in (0, 2) else [f"min={low}"]) + (
            [] if high == math.inf else [f"max={high}"]
        )
        return f"Dim({', '.join([repr(name), *ends])})"

    def __repr__(self) -> str:
        return Dim._readable(self.__name__, self.min, self.max)


class _DerivedDim(Dim):
    """factor * root + addend."""

    def __init__(self, root: Dim, factor: int, addend: int) -> None:
        self.root, self.factor, self.addend = root, factor, addend
        product = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        sign = f" {'+' if addend > 0 else '-'} {abs(addend)}" if addend else ""
        self.__name__ = product + sign

    @property
    def min(self) -> int:  # type: ignore[override]
        """The least size."""
        found = self.root.min * self.factor + self.addend
        if found < 0:
            raise AssertionError(
                f"Expected derived min value of {self.__name__} to be >= 0. Please specify an "
                f"appropriate min value for {self.root.__name__} (currently {self.root.min})."
            )
        return int(found)

    @property
    def max(self) -> float:  # type: ignore[override]
        """The largest size."""
        return self.root.max * self.factor + self.addend

    def _derive(self, factor: int, addend: int) -> Dim:
        return _DerivedDim(self.root, self.factor * factor, self.addend * factor + addend)

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several dims between the same numbers."""
    return tuple(Dim(name, min=min, max=max) for name in names)


@dataclasses.dataclass
class Constraint:
    """What is said of one size of an input: its place, its dim's name and range."""

    source: str
    name: str
    min: float
    max: float


# ---- what a program says -------------------------------------------------------------------------


def combined(mod: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """A call's arguments by the names of `forward`'s parameters."""
    function = mod.forward if hasattr(mod, "forward") else mod
    bound = inspect.signature(function).bind(*args, **(kwargs or {}))
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
        else:
            found[name] = value
    return found


def _refuse(message: str) -> UserError:
    return UserError(UserErrorType.INVALID_INPUT, message, case_name="dynamic_shapes_validation")


def _by_name(arguments: dict[str, Any], shapes: Any) -> dict[str, Any]:
    """What is said of each argument."""
    if isinstance(shapes, (tuple, list)):
        if len(shapes) != len(arguments):
            raise _refuse(
                f"Expected `dynamic_shapes` to have {len(arguments)} items, one for each of "
                f"{list(arguments)} of `inputs`, but got {len(shapes)}"
            )
        return dict(zip(arguments, shapes, strict=True))
    if not isinstance(shapes, dict):
        raise _refuse(f"Expected `dynamic_shapes` to be a dict, tuple or list, got {type(shapes)}")
    if set(shapes) != set(arguments):
        raise _refuse(
            "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
            f"names {list(arguments)} of `inputs`, but here they are {list(shapes)}. "
            "Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` "
            "as a list/tuple matching `inputs`."
        )
    return shapes


def _is_dims(value: Any) -> bool:
    """Whether a value says what the sizes of one tensor are."""
    if isinstance(value, dict):
        return all(isinstance(key, int) for key in value)
    kinds = (int, Dim, _DimHint)
    return isinstance(value, (tuple, list)) and all(
        x is None or isinstance(x, kinds) for x in value
    )


def _of_tensor(path: str, tensor: Tensor, said: Any) -> tuple[Any, ...]:
    """What is said of each size of a tensor."""
    if said is None:
        return (None,) * tensor.ndim
    if isinstance(said, dict):
        wrong = [dim for dim in said if not -tensor.ndim <= dim < tensor.ndim]
        if wrong:
            raise _refuse(f"`dynamic_shapes` of {path} names dim {wrong[0]} of {tensor.ndim}")
        said = {dim % tensor.ndim: value for dim, value in said.items()}
        return tuple(said.get(dim) for dim in range(tensor.ndim))
    if not isinstance(said, (tuple, list)) or len(said) != tensor.ndim:
        raise _refuse(
            f"Expected dynamic shape spec {said} of tensor {path} to have {tensor.ndim} items, "
            f"one for each dim of shape {list(tensor.shape)}"
        )
    return tuple(said)


def _paired(path: str, value: Any, said: Any, found: list[Any]) -> None:
    """Appends what is said of each leaf of a value."""
    if isinstance(value, Tensor):
        if said is not None and not _is_dims(said):
            raise _refuse(f"Unexpected dynamic shape {said} of tensor {path}")
        found.append(_of_tensor(path, value, said))
    elif _get_node_type(value) not in SUPPORTED_NODES:
        found.append(said if isinstance(said, (Dim, _DimHint)) else None)
    elif said is None:
        found += [
            (None,) * leaf.ndim if isinstance(leaf, Tensor) else None for leaf in tree_leaves(value)
        ]
    else:
        kind = SUPPORTED_NODES[_get_node_type(value)]
        children, _ = kind.flatten_fn(value)
        if isinstance(value, dict):
            if not isinstance(said, dict) or set(said) != set(value):
                raise _refuse(
                    f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
                    f"{path} has the keys {list(value)}, `dynamic_shapes` {said}"
                )
            parts = [said[key] for key in value]
        else:
            parts = list(kind.flatten_fn(said)[0]) if type(said) is type(value) else list(said)
        if len(parts) != len(children):
            raise _refuse(
                f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
                f"{path} has {len(children)} items, `dynamic_shapes` {len(parts)}"
            )
        for place, (child, part) in enumerate(zip(children, parts, strict=True)):
            _paired(f"{path}[{place}]", child, part, found)


def specified(arguments: dict[str, Any], shapes: Any) -> list[Any]:
    """What is said of each leaf of a call's arguments: of a tensor, something for each dim."""
    if isinstance(shapes, (ShapesCollection, AdditionalInputs)):
        raise _refuse(f"{type(shapes).__name__} says it of a module and its arguments")
    said = dict.fromkeys(arguments) if shapes is None else _by_name(arguments, shapes)
    found: list[Any] = []
    for name, value in arguments.items():
        _paired(f"inputs['{name}']", value, said[name], found)
    _require_consistent(found)
    return found


def _require_consistent(found: list[Any]) -> None:
    """Refuses two dims of one name that are not the same."""
    named: dict[str, Dim] = {}
    for said in found:
        for each in said if isinstance(said, tuple) else (said,):
            dim = each.root if isinstance(each, _DerivedDim) else each
            if not isinstance(dim, Dim):
                continue
            other = named.setdefault(dim.__name__, dim)
            if (other.min, other.max) != (dim.min, dim.max):
                raise _refuse(
                    f"Found different definitions {other} and {dim} for the same symbolic "
                    f"dimension {dim.__name__}!"
                )


# ---- collections ---------------------------------------------------------------------------------


class ShapesCollection:
    """What is said of tensors' sizes, by the tensors themselves."""

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}
        self._kept: list[Any] = []  # so that ids stay their own

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, (Tensor, int)):
            raise AssertionError(f"Cannot assign shape to non-tensor type {type(t)}")
        if id(t) in self._shapes and self._shapes[id(t)] != shape:
            raise AssertionError(f"Shapes assigned to input must be consistent: {shape}")
        self._shapes[id(t)] = shape
        self._kept.append(t)

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), {})

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: Any, kwargs: Any = None) -> Any:
        """The same for a module's arguments, as `export` takes it."""
        met: set[int] = set()

        def said(path: Any, leaf: Any) -> Any:
            met.add(id(leaf))
            return self._shapes.get(id(leaf))

        found = tree_map_with_path(said, combined(m, args, kwargs))
        if self._shapes.keys() - met:
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args. Maybe such "
                "tensors were copied when passing them as args? Maybe such tensors are contained "
                "in classes that were not registered with pytree?"
            )
        return found


class AdditionalInputs:
    """Further arguments of a program: sizes that differ among them are dynamic."""

    def __init__(self) -> None:
        self._examples: list[tuple[Any, Any]] = []

    def add(self, args: Any, kwargs: Any = None) -> None:
        """Adds a call's arguments."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args must be a tuple, got {type(args)}")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(
                f"Representative kwargs must be None or a dict, got {type(kwargs)}"
            )
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m: Any, args: Any, kwargs: Any = None) -> Any:
        """What differs among the calls, as `export` takes it."""
        calls = [combined(m, *call) for call in [(args, kwargs), *self._examples]]
        flat = [tree_flatten_with_path(call) for call in calls]
        if any(spec != flat[0][1] for _, spec in flat):
            raise ValueError("additional inputs have another structure than the first")
        leaves = [[leaf for _, leaf in found] for found, _ in flat]
        said = iter([_differing(*each) for each in zip(*leaves, strict=True)])
        return tree_map_with_path(lambda path, leaf: next(said), calls[0])

    def verify(self, ep: Any) -> None:
        """Runs an exported program on each call."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **(kwargs or {}))


def _differing(first: Any, *others: Any) -> Any:
    """The dynamic ones of a leaf's sizes, or a number, that are others in other calls."""
    if isinstance(first, Tensor):
        sizes = zip(first.shape, *(x.shape for x in others), strict=True)
        return tuple(Dim.DYNAMIC if len(set(size)) > 1 else None for size in sizes)
    if type(first) is int:
        return Dim.DYNAMIC if any(x != first for x in others) else None
    if any(x != first for x in others):
        raise ValueError(f"{first} is another value in additional inputs: only numbers can be open")
    return None


# ---- fixes ---------------------------------------------------------------------------------------


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes: Any) -> Any:
    """What a program said of sizes, with the fixes that an error's text suggests."""
    _, _, fixes = msg.partition("Suggested fixes:")
    roots: dict[str, Any] = {}
    for line in fixes.strip().splitlines():
        name, equals, text = line.strip().partition(" = ")
        if equals:
            roots[name] = _parsed(text.strip(), roots)

    def refined(each: Any) -> Any:
        if isinstance(each, _DerivedDim):
            root = roots.get(each.root.__name__, each.root)
            return each.factor * root + each.addend
        return roots.get(each.__name__, each) if isinstance(each, Dim) else each

    return _mapped(dynamic_shapes, refined)


def _parsed(text: str, known: dict[str, Any]) -> Any:
    """The dim or number that a fix says."""
    import ast

    def read(node: Any) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return known.setdefault(node.id, Dim(node.id))
        if isinstance(node, ast.Call):
            ends = {k.arg: read(k.value) for k in node.keywords if k.arg}
            return Dim(read(node.args[0]), **ends)
        if isinstance(node, ast.BinOp):
            a, b = read(node.left), read(node.right)
            if isinstance(node.op, ast.Mult):
                return a * b
            return a + b if isinstance(node.op, ast.Add) else a - b
        raise ValueError(f"no dim: {text}")

    return read(ast.parse(text, mode="eval").body)


def _mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _mapped(value, function) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(_mapped(value, function) for value in tree)
    leaves, _ = tree_flatten(tree)
    return function(leaves[0] if len(leaves) == 1 else tree)
