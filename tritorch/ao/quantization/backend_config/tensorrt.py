"""Patterns that TensorRT quantizes: activations and weights are signed."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch.ao.quantization.backend_config._common_operator_config_utils import (
    _backend,
    _config,
)
from tritorch.ao.quantization.backend_config.backend_config import BackendConfig, DTypeConfig

__all__ = ["get_tensorrt_backend_config", "get_tensorrt_backend_config_dict"]


def get_tensorrt_backend_config() -> BackendConfig:
    """Returns what TensorRT quantizes."""
    weighted = [DTypeConfig(torch.qint8, torch.qint8, torch.qint8, torch.float)]
    plain = [DTypeConfig(torch.qint8, torch.qint8)]
    out = _backend(
        "tensorrt",
        conv=weighted,
        linear=weighted,
        binary=weighted,
        cat=plain,
        share=plain,
        info=plain,
    )
    places = {"bias": 0, "input": 1, "weight": 2}
    return out.set_backend_pattern_config(_config(torch.addmm, weighted, places=places))


def get_tensorrt_backend_config_dict() -> dict[str, Any]:
    """`get_tensorrt_backend_config` as a dict."""
    return get_tensorrt_backend_config().to_dict()
