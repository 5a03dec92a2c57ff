"""Operators that run on quantized tensors as they are; public in `utils`."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn

module_type_list: set[Any] = {
    *(
        getattr(nn, f"{kind}{n}d")
        for kind in ("AdaptiveAvgPool", "AvgPool", "MaxPool")
        for n in (1, 2, 3)
    ),
    nn.ReLU,
    nn.ReLU6,
    nn.Identity,
    nn.Hardsigmoid,
    nn.Sigmoid,
    nn.Tanh,
}
func_list: set[Any] = {
    *(
        getattr(nn.functional, f"{kind}_pool{n}d")
        for kind in ("adaptive_avg", "max")
        for n in (1, 2, 3)
    ),
    nn.functional.elu,
    nn.functional.hardswish,
    nn.functional.instance_norm,
    nn.functional.layer_norm,
    nn.functional.leaky_relu,
    nn.functional.silu,
    nn.functional.mish,
    nn.functional.dropout,
    nn.functional.relu,
    nn.functional.hardtanh,
    nn.functional.hardtanh_,
    nn.functional.hardsigmoid,
    nn.functional.sigmoid,
    torch.transpose,
    torch.repeat_interleave,
    torch.sigmoid,
    torch.squeeze,
    torch.stack,
    torch.sum,
    torch.tanh,
    torch.unsqueeze,
    torch.cat,
}
_INPLACE_TOO = ("relu", "detach", "hardsigmoid", "sigmoid", "squeeze", "tanh", "unsqueeze")
method_list: set[Any] = {
    torch.mean,
    *(name + ending for name in _INPLACE_TOO for ending in ("", "_")),
    "contiguous",
    "permute",
    "repeat",
    "repeat_interleave",
    "reshape",
    "resize_",
    "shape",
    "size",
    "transpose",
    "view",
}
