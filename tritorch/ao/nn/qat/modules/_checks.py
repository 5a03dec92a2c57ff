"""Checks of the modules that are made for quantization-aware training."""

from __future__ import annotations

from typing import Any

import tritorch as torch

FLOATS = torch.per_channel_affine_float_qparams


def required(qconfig: Any) -> Any:
    """The qconfig; AssertionError if there is none."""
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    return qconfig


def check_float(mod: Any) -> None:
    """AssertionError if a float module has no qconfig."""
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    if not mod.qconfig:
        raise AssertionError("Input float module must have a valid qconfig")


def check_rows(qconfig: Any, what: str) -> None:
    """AssertionError if weights are not quantized by row, with floats as zero points."""
    scheme = qconfig.weight().qscheme
    if scheme != FLOATS:
        raise AssertionError(
            f"{what} weights requires a qscheme of torch.per_channel_affine_float_qparams Got "
            f"{scheme}"
        )


def copied(parameter: Any) -> Any:
    """A parameter with the same memory and a gradient of its own; None of None."""
    return None if parameter is None else torch.nn.Parameter(parameter.detach())
