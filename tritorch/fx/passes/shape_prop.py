"""ShapeProp: what every node's result looks like, from a run."""

from __future__ import annotations

from typing import Any, NamedTuple

from tritorch.core.layout import channels_last, channels_last_3d, contiguous_format
from tritorch.core.tensor import Tensor
from tritorch.fx.interpreter import Interpreter
from tritorch.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What of a tensor a pass may know."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    format = None
    if include_contiguity:
        formats = (contiguous_format, channels_last, channels_last_3d)
        sizes = {channels_last: 4, channels_last_3d: 5}
        format = next(
            (
                f
                for f in formats
                if sizes.get(f, result.ndim) == result.ndim
                and result.is_contiguous(memory_format=f)
            ),
            None,
        )
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), format,
        result.is_quantized, {},
    )  # fmt: skip


class ShapeProp(Interpreter):
    """Runs a graph and notes `meta["tensor_meta"]` and `meta["type"]` of every node.

    fake_mode: arguments are made fake before."""

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        """The value of a node, noted."""
        result = super().run_node(n)
        found = False

        def noted(value: Any) -> Any:
            nonlocal found
            if isinstance(value, Tensor):
                found = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, noted)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph; gives its result."""
        if self.fake_mode is not None:
            args = tuple(
                self.fake_mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args
            )
        return super().run(*args)
