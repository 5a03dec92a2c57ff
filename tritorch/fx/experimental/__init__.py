"""Tracing below autograd."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.fx.experimental import (
        symbolic_shapes as symbolic_shapes,
        unification as unification,
    )
