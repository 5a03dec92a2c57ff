"""Quantized operations for the CPU's native backend."""

from __future__ import annotations

from tritorch.ao.quantization.fx._lower_to_native_backend import _lower_to_native_backend
from tritorch.ao.quantization.qconfig import QConfigAny
from tritorch.fx import GraphModule

__all__ = ["lower_to_fbgemm"]


def lower_to_fbgemm(
    model: GraphModule,
    qconfig_map: dict[str, QConfigAny],
    node_name_to_scope: dict[str, tuple[str, type]],
    keep_original_weights: bool = False,
) -> GraphModule:
    """The graph with quantized operations in place of reference patterns."""
    return _lower_to_native_backend(model, qconfig_map, node_name_to_scope, keep_original_weights)
