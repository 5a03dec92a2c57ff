"""Quantization of TorchScript's graphs: the names. The passes over graphs are not built."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch.ao.quantization.qconfig import QConfig

__all__ = [
    "convert_dynamic_jit",
    "convert_jit",
    "fuse_conv_bn_jit",
    "prepare_dynamic_jit",
    "prepare_jit",
    "quantize_dynamic_jit",
    "quantize_jit",
    "script_qconfig",
    "script_qconfig_dict",
]


def _check_is_script_module(model: Any) -> None:
    if not isinstance(model, torch.jit.ScriptModule):
        raise ValueError("input must be a script module, got: " + str(type(model)))


def _not_built(model: Any, name: str) -> Any:
    _check_is_script_module(model)
    raise NotImplementedError(
        f"torch.ao.quantization.{name}: tritorch has no passes that quantize TorchScript's "
        "graphs; quantize the module before it is scripted, with prepare and convert or with "
        "torch.ao.quantization.quantize_fx"
    )


def script_qconfig(qconfig: Any) -> QConfig:
    """A QConfig of scripted observers."""
    return QConfig(
        activation=torch.jit.script(qconfig.activation())._c,
        weight=torch.jit.script(qconfig.weight())._c,
    )


def script_qconfig_dict(qconfig_dict: dict[str, Any]) -> dict[str, Any]:
    """`script_qconfig` of each QConfig that is not None."""
    return {name: script_qconfig(q) if q else None for name, q in qconfig_dict.items()}


def fuse_conv_bn_jit(model: Any, inplace: bool = False) -> Any:
    """Puts batch norms into convolutions of a scripted model. Not built."""
    return _not_built(model, "fuse_conv_bn_jit")


def prepare_jit(model: Any, qconfig_dict: dict[str, Any], inplace: bool = False) -> Any:
    """Puts observers into a scripted model. Not built."""
    return _not_built(model, "prepare_jit")


def prepare_dynamic_jit(model: Any, qconfig_dict: dict[str, Any], inplace: bool = False) -> Any:
    """Puts observers of weights into a scripted model. Not built."""
    return _not_built(model, "prepare_dynamic_jit")


def convert_jit(
    model: Any, inplace: bool = False, debug: bool = False, preserved_attrs: Any = None
) -> Any:
    """Replaces a scripted model's operators by quantized ones. Not built."""
    return _not_built(model, "convert_jit")


def convert_dynamic_jit(
    model: Any, inplace: bool = False, debug: bool = False, preserved_attrs: Any = None
) -> Any:
    """Replaces a scripted model's operators by dynamically quantized ones. Not built."""
    return _not_built(model, "convert_dynamic_jit")


def quantize_jit(
    model: Any,
    qconfig_dict: dict[str, Any],
    run_fn: Any,
    run_args: Any,
    inplace: bool = False,
    debug: bool = False,
) -> Any:
    """Quantizes a scripted model. Not built."""
    return _not_built(model, "quantize_jit")


def quantize_dynamic_jit(
    model: Any, qconfig_dict: dict[str, Any], inplace: bool = False, debug: bool = False
) -> Any:
    """Quantizes a scripted model's weights. Not built."""
    return _not_built(model, "quantize_dynamic_jit")
