"""ShapeProp: what every node's result looks like, from a run."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from tritorch.core.layout import channels_last, channels_last_3d, contiguous_format, strided
from tritorch.core.tensor import Tensor
from tritorch.fx._compatibility import compatibility
from tritorch.fx.interpreter import Interpreter
from tritorch.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


@compatibility(is_backward_compatible=True)
class TensorMetadata(NamedTuple):
    """What of a tensor a pass may know."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


# The number of dims that a memory format is of.
_FORMATS = {contiguous_format: None, channels_last: 4, channels_last_3d: 5}


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    dense = result.layout is strided
    found = None
    if include_contiguity and dense:
        fits = (f for f, dims in _FORMATS.items() if dims in (None, result.ndim))
        found = next((f for f in fits if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride() if dense else (), found,
        result.is_quantized, _quantization(result) if result.is_quantized else {},
    )  # fmt: skip


def _quantization(result: Any) -> dict[str, Any]:
    scheme = result.qscheme()
    if "per_channel" in str(scheme):
        return {
            "qscheme": scheme,
            "scale": result.q_per_channel_scales().tolist(),
            "zero_point": result.q_per_channel_zero_points().tolist(),
            "axis": result.q_per_channel_axis(),
        }
    return {"qscheme": scheme, "scale": result.q_scale(), "zero_point": result.q_zero_point()}


@compatibility(is_backward_compatible=True)
class ShapeProp(Interpreter):
    """Runs a graph and notes `meta["tensor_meta"]` and `meta["type"]` of every node.

    fake_mode: the graph runs on fakes of its arguments and of its module's tensors."""

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.fake_module = None if fake_mode is None else _faked(self.module, fake_mode)
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """The value of a node, noted."""
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                self.module = self.fake_module
                try:
                    with self.fake_mode:
                        result = super().run_node(n)
                finally:
                    self.module = self.real_module
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
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


def _faked(module: Any, mode: Any) -> Any:
    """A copy of a module whose tensors are fakes."""
    import copy

    memo = {
        id(value): mode.from_tensor(value) for value in (*module.parameters(), *module.buffers())
    }
    return copy.deepcopy(module, memo)
