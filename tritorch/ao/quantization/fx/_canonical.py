"""Calls of functions in the form that patterns have: one name for each, options by keyword.

PyTorch's functions of `torch.nn.functional` pass options on by keyword, defaults too, and some are
those of `torch` or methods.
"""

from __future__ import annotations

import ast
from typing import Any

import tritorch
from tritorch.nn import functional as F

_OPTIONS = {
    "relu": "inplace=False",
    "relu6": "inplace=False",
    "elu": "alpha=1.0, inplace=False",
    "celu": "alpha=1.0, inplace=False",
    "selu": "inplace=False",
    "silu": "inplace=False",
    "mish": "inplace=False",
    "hardswish": "inplace=False",
    "hardsigmoid": "inplace=False",
    "hardtanh": "min_val=-1.0, max_val=1.0, inplace=False",
    "leaky_relu": "negative_slope=0.01, inplace=False",
    "dropout": "p=0.5, training=True, inplace=False",
    "layer_norm": "weight=None, bias=None, eps=1e-05",
    "group_norm": "weight=None, bias=None, eps=1e-05",
    "batch_norm": "weight=None, bias=None, training=False, momentum=0.1, eps=1e-05",
    "instance_norm": (
        "running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, "
        "momentum=0.1, eps=1e-05"
    ),
    "interpolate": (
        "size=None, scale_factor=None, mode='nearest', align_corners=None, "
        "recompute_scale_factor=None, antialias=False"
    ),
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d", "max_pool3d"),
        "stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False",
    ),
}
_REQUIRED = {
    "layer_norm": 2,
    "group_norm": 2,
    "batch_norm": 3,
    "max_pool1d": 2,
    "max_pool2d": 2,
    "max_pool3d": 2,
}

_OF_FUNCTIONAL = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "pixel_shuffle",
    "pixel_unshuffle",
]
_OF_TORCH = ("adaptive_avg_pool1d", "avg_pool1d", "channel_shuffle")

_renamed = {
    **{getattr(tritorch, name): getattr(F, name) for name in _OF_FUNCTIONAL},
    **{getattr(F, name): getattr(tritorch, name) for name in _OF_TORCH},
}
_methods = {F.sigmoid: "sigmoid", F.tanh: "tanh"}


def _options(text: str) -> dict[str, Any]:
    """Names and defaults of parameters."""
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}


_options_of = {
    getattr(F, name): (_REQUIRED.get(name, 1), _options(text)) for name, text in _OPTIONS.items()
}


def canonical(
    kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, Any, tuple[Any, ...], dict[str, Any]]:
    """A call's kind, target and arguments in that form."""
    if kind != "call_function":
        return kind, target, args, kwargs
    if target in _methods and not kwargs:
        return "call_method", _methods[target], args, kwargs
    if target in _options_of:
        required, options = _options_of[target]
        given = dict(zip(options, args[required:]))
        if len(args) >= required and kwargs.keys() <= options.keys():
            return kind, target, args[:required], {**options, **given, **kwargs}
    return kind, _renamed.get(target, target), args, kwargs
