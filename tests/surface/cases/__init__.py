"""Families of expressions, each a list of lines; PREPARE is run before each line."""

from . import (
    around,
    devices,
    eager,
    graphs,
    names,
    private,
    settings,
    storages,
    types,
    utilities,
    wrong,
)

PREPARE = """
__name__ = "__main__"
import contextlib, copy, io, pickle, sys, tempfile, warnings
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
x = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
v = torch.tensor([1.0, 2.0, 3.0])
g = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
i = torch.tensor([0, 1, 1])
b = torch.tensor([True, False])
"""

FAMILIES: dict[str, list[str]] = {}
for _module in (
    wrong,
    names,
    storages,
    devices,
    utilities,
    private,
    types,
    graphs,
    settings,
    around,
    eager,
):
    FAMILIES |= {name: list(lines) for name, lines in _module.FAMILIES.items()}
