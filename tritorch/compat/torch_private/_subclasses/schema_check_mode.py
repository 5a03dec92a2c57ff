"""SchemaCheckMode: whether operators write and share what their schemas say, and nothing else."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

from tritorch.core.tensor import Tensor
from tritorch.ops.pointwise.comparison import allclose
from tritorch.ops.record.overloads import bind
from tritorch.schema.signature import Argument
from tritorch.trees.walk import tree_leaves
from tritorch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Aliasing", "Mutation", "SchemaCheckMode"]

# These are not what their schemas say, in PyTorch neither.
_UNSAFE = ("aten::_unsafe_view", "aten::unsafe_split")
_GIVE_BACK = ("aten::lift", "aten::lift_fresh")


class Mutation(NamedTuple):
    """An argument that an operator wrote."""

    op_name: str
    arg_name: str


class Aliasing(NamedTuple):
    """An argument whose memory an output shares."""

    op_name: str
    arg_name: str
    output_number: str


def _name(argument: Argument) -> str:
    return "input" if argument.name == "self" else argument.name


def _tensors(value: Any) -> list[Tensor]:
    inner = (getattr(x, "elem", x) for x in tree_leaves(value) if isinstance(x, Tensor))
    return [x for x in inner if isinstance(x, Tensor)]


def _share(a: Any, b: Any) -> bool:
    """Whether tensors of two values share memory."""
    seen = {id(x._shared) for x in _tensors(a)}
    return any(id(x._shared) in seen for x in _tensors(b))


def _may_share(a: Argument, b: Argument) -> bool:
    return (
        a.alias_info is not None
        and b.alias_info is not None
        and bool(a.alias_info.after_set & b.alias_info.after_set)
    )


class _Before(NamedTuple):
    """What a tensor was before a call."""

    tensor: Tensor
    copy: Tensor
    layout: tuple[Any, Any, int]

    @classmethod
    def of(cls, tensor: Tensor) -> _Before:
        return cls(tensor, tensor.detach().clone(), cls.layout_of(tensor))

    @staticmethod
    def layout_of(tensor: Tensor) -> tuple[Any, Any, int]:
        return tuple(tensor.shape), tuple(tensor.stride()), id(tensor._shared)

    def is_as_before(self) -> bool:
        now = self.tensor.detach()
        same = self.layout == self.layout_of(self.tensor)
        return same and allclose(now, self.copy, equal_nan=True)


class SchemaCheckMode(TorchDispatchMode):
    """Refuses operators that write or share against their schema; `mutated` and `aliasing` have
    what was written and shared as it says."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []
        self.mutated: list[Mutation] = []
        self.aliasing: list[Aliasing] = []

    def reset_cache(self) -> None:
        """Forgets what was seen."""
        self.ops.clear()
        self.mutated.clear()
        self.aliasing.clear()

    def display_ops(self) -> None:
        """Prints the operators that were seen."""
        print(*self.ops, sep=",")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = func._schema
        self.ops.append(schema.name)
        values = bind(schema, args, kwargs or {})
        before = {name: [_Before.of(x) for x in _tensors(v)] for name, v in values.items()}
        result = func(*args, **(kwargs or {}))
        outputs = result if isinstance(result, tuple) else (result,)
        for argument in schema.arguments:
            value = values[argument.name]
            self._shared_by_outputs(func, argument, value, outputs)
            if not all(x.is_as_before() for x in before[argument.name]):
                if not argument.is_write:
                    raise RuntimeError(
                        f"Argument {_name(argument)} is not defined as mutable but was mutated"
                    )
                self.mutated.append(Mutation(schema.name, _name(argument)))
        for i, j in combinations(range(min(len(schema.returns), len(outputs))), 2):
            if _share(outputs[i], outputs[j]) and not _may_share(
                schema.returns[i], schema.returns[j]
            ):
                raise RuntimeError(f"Outputs {i} and {j} alias unexpectedly")
        return result

    def _shared_by_outputs(self, func: Any, argument: Argument, value: Any, outputs: Any) -> None:
        schema = func._schema
        for place, (returned, output) in enumerate(zip(schema.returns, outputs)):
            if _share(output, value) and schema.name not in _UNSAFE:
                if not _may_share(argument, returned):
                    raise RuntimeError(
                        f"Argument {_name(argument)} is not defined to alias output but was "
                        "aliasing"
                    )
                self.aliasing.append(Aliasing(schema.name, _name(argument), f"output_{place}"))
            if isinstance(value, Tensor) and value is output and not argument.is_write:
                if schema.name not in _GIVE_BACK:
                    raise RuntimeError(
                        "Dispatcher operators below autograd are not allowed to directly return "
                        f"inputs.\nHowever, we found that `outputs[{place}] is {_name(argument)}"
                    )
