"""Sparse quantized modules by the float modules that they replace."""

from __future__ import annotations

from tritorch.nn import Linear, Module

__all__ = ["get_dynamic_sparse_quantized_mapping", "get_static_sparse_quantized_mapping"]


def get_static_sparse_quantized_mapping() -> dict[type[Module], type[Module]]:
    """Sparse modules with static quantization by float module type."""
    from tritorch.ao.nn.sparse import quantized

    return {Linear: quantized.Linear}


def get_dynamic_sparse_quantized_mapping() -> dict[type[Module], type[Module]]:
    """Sparse modules with dynamic quantization by float module type."""
    from tritorch.ao.nn.sparse.quantized import dynamic

    return {Linear: dynamic.Linear}
