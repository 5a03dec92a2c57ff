"""`torch.jit.Attribute`: a value with the type that TorchScript shall take it for."""

from __future__ import annotations

from typing import Any, NamedTuple


class Attribute(NamedTuple):
    """A value of a module, and its type."""

    value: Any
    type: Any
