"""Quantized operations for QNNPACK, which are those of the native backend."""

from __future__ import annotations

from tritorch.ao.quantization.fx._lower_to_native_backend import _lower_to_native_backend
from tritorch.ao.quantization.qconfig import QConfigAny
from tritorch.fx import GraphModule

__all__ = ["lower_to_qnnpack"]


def lower_to_qnnpack(
    model: GraphModule,
    qconfig_map: dict[str, QConfigAny],
    node_name_to_scope: dict[str, tuple[str, type]],
) -> GraphModule:
    """The graph with quantized operations in place of reference patterns."""
    return _lower_to_native_backend(model, qconfig_map, node_name_to_scope)
