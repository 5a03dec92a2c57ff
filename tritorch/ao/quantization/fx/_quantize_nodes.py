"""Observers' nodes in graphs become quantization and dequantization."""

from __future__ import annotations

import operator
from typing import Any

import tritorch
from tritorch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401
from tritorch.ao.quantization.fx.utils import create_getattr_from_value
from tritorch.ao.quantization.utils import is_per_channel, to_underlying_dtype
from tritorch.fx import GraphModule
from tritorch.fx.node import Node
from tritorch.nn import Module, functional

_QUANTIZED = [
    tritorch.quint8,
    tritorch.qint8,
    tritorch.qint32,
    tritorch.float8_e5m2,
    tritorch.float8_e4m3fn,
]
SUPPORTED_QDTYPES = [
    *_QUANTIZED,
    tritorch.uint8,
    tritorch.int8,
    tritorch.uint16,
    tritorch.int16,
    tritorch.int32,
]

_ops = tritorch.ops.quantized_decomposed
_CHOOSE = {
    tritorch.per_tensor_affine: _ops.choose_qparams.tensor,
    tritorch.per_tensor_symmetric: _ops.choose_qparams_symmetric.tensor,
}


def is_conversion_supported(observer: Any) -> bool:
    """True if an observer's type can be quantized."""
    is_dynamic = getattr(observer, "is_dynamic", False)
    return is_dynamic or observer.dtype in SUPPORTED_QDTYPES or observer.dtype == tritorch.float16


def has_none_qconfig(node: Any, node_name_to_qconfig: dict[str, Any]) -> bool:
    """True if the user asked not to quantize a node."""
    missing = object()
    return isinstance(node, Node) and node_name_to_qconfig.get(node.name, missing) is None


def _path_and_prefix(
    node: Node, node_name_to_scope: dict[str, Any], node_name_to_qconfig: dict[str, Any]
) -> str:
    """The start of the names of an observer's scale and zero point.

    It is the path of the module that has the observed node; of one that is observed for its users
    alone, the path of the first user (a linear function first of all) and "_input".
    """
    observed: Any = node.args[0]
    if not isinstance(observed, Node):
        raise AssertionError(f"Expecting observed node to be a Node, but got {observed}")
    suffix = ""
    if has_none_qconfig(observed, node_name_to_qconfig):
        users = list(node.users)
        linear = (user for user in users if user.target is functional.linear)
        observed = next(linear, users[0] if users else None)
        suffix = "_input"
    path = ""
    if observed is not None and observed.name in node_name_to_scope:
        path, _ = node_name_to_scope[observed.name]
    return path + suffix


class ObserverReplacement:
    """Replaces observers of one model, by operations on quantized tensors or on plain ones."""

    def __init__(
        self,
        model: GraphModule,
        modules: dict[str, Module],
        node_name_to_scope: dict[str, tuple[str, type]],
        node_name_to_qconfig: dict[str, Any],
        is_decomposed: bool,
        device: Any,
    ) -> None:
        self.model, self.graph, self.modules = model, model.graph, modules
        self.scopes, self.qconfigs = node_name_to_scope, node_name_to_qconfig
        self.is_decomposed = is_decomposed
        self.device = device

    def replace(self, node: Node) -> None:
        """Replaces one observer's node; nothing is left of it if no neighbour is quantized."""
        observer: Any = self.modules[str(node.target)]
        prefix = _path_and_prefix(node, self.scopes, self.qconfigs)
        if self.is_decomposed and hasattr(observer, "convert"):
            observer.convert(self.model, node)
            return
        neighbours = [*node.args, *node.users]
        skipped = all(has_none_qconfig(each, self.qconfigs) for each in neighbours)
        with self.graph.inserting_before(node):
            result: Any = node.args[0]
            if not skipped and is_conversion_supported(observer):
                convert = self._decomposed if self.is_decomposed else self._converted
                result = convert(result, observer, prefix)
            if result is None:
                return
            node.replace_all_uses_with(result)
            self.graph.erase_node(node)

    def _attribute(self, name: str, value: Any) -> Node:
        return create_getattr_from_value(self.model, self.graph, name, value, self.device)

    def _converted(self, source: Node, observer: Any, prefix: str) -> Node | None:
        """Quantized and dequantized by `quantize_per_tensor` and its like."""
        dtype = observer.dtype
        if getattr(observer, "is_dynamic", False):
            reduce_range = tritorch.backends.quantized.engine in ("fbgemm", "x86")
            quantized = self.graph.call_function(
                tritorch.quantize_per_tensor_dynamic, (source, dtype, reduce_range)
            )
        elif dtype in _QUANTIZED:
            scale, zero_point = observer.calculate_qparams()
            if is_per_channel(observer.qscheme):
                rest: tuple[Any, ...] = (int(observer.ch_axis), dtype)
                quantize: Any = tritorch.quantize_per_channel
            else:
                scale, zero_point = float(scale), int(zero_point)
                rest, quantize = (dtype,), tritorch.quantize_per_tensor
            scale_node = self._attribute(f"{prefix}_scale_", scale)
            zero_point_node = self._attribute(f"{prefix}_zero_point_", zero_point)
            quantized = self.graph.call_function(
                quantize, (source, scale_node, zero_point_node, *rest)
            )
        elif dtype == tritorch.float16:
            quantized = self.graph.call_method("to", (source, dtype))
        else:
            return None
        return self.graph.call_method("dequantize", (quantized,))

    def _decomposed(self, source: Node, observer: Any, prefix: str) -> Node:
        """Quantized and dequantized by operators of `quantized_decomposed`."""
        ops, call = tritorch.ops.quantized_decomposed, self.graph.call_function
        dtype = observer.dtype
        is_dynamic = getattr(observer, "is_dynamic", False)
        if dtype == tritorch.float16 and not is_dynamic:
            half = call(ops.convert_element_type.no_fuse, (source, tritorch.float16))
            return call(ops.convert_element_type.no_fuse, (half, tritorch.float32))
        stored = to_underlying_dtype(dtype)
        limits = (observer.quant_min, observer.quant_max)
        if is_dynamic:
            if stored not in (tritorch.uint8, tritorch.int8):
                raise AssertionError(
                    "only uint8 and int8 are supported in reference flow for dynamic "
                    "quantization right now"
                )
            scheme = getattr(observer, "qscheme", tritorch.per_tensor_affine)
            eps = getattr(observer, "eps", tritorch.finfo(tritorch.float32).eps)
            chosen = call(_CHOOSE[scheme], (source, *limits, eps, stored))
            parameters: tuple[Any, ...] = tuple(
                call(operator.getitem, (chosen, index)) for index in (0, 1)
            )
            quantize = ops.quantize_per_tensor.tensor
            dequantize = ops.dequantize_per_tensor.tensor
        else:
            scale, zero_point = observer.calculate_qparams()
            if is_per_channel(observer.qscheme):
                parameters = (
                    self._attribute(f"{prefix}_scale_", scale),
                    self._attribute(f"{prefix}_zero_point_", zero_point),
                    int(observer.ch_axis),
                )
                quantize = ops.quantize_per_channel.default
                dequantize = ops.dequantize_per_channel.default
            else:
                parameters = (float(scale), int(zero_point))
                quantize = ops.quantize_per_tensor.default
                dequantize = ops.dequantize_per_tensor.default
        arguments = (*parameters, *limits, stored)
        quantized = call(quantize, (source, *arguments))
        value = source.meta.get("val")
        named = {}
        if value is not None and value.dtype != tritorch.float32:
            named = {"out_dtype": value.dtype}
        return call(dequantize, (quantized, *arguments), named)
