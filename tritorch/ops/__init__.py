"""Every operator, declared once, one family a file; importing this attaches Tensor's methods."""

from tritorch.ops import (
    arithmetic,
    comparison,
    copying,
    factory,
    indexing,
    joining,
    pointwise,
    reduction,
    shape,
)
from tritorch.ops.declare import OPERATORS, PUBLIC
