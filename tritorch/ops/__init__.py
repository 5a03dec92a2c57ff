"""Every operator, declared once, one family a file; importing this attaches Tensor's methods."""

from tritorch.ops import (
    activation,
    arithmetic,
    attention,
    comparison,
    conv,
    copying,
    embedding,
    factory,
    indexing,
    joining,
    loss,
    matmul,
    norm,
    padding,
    pointwise,
    pooling,
    random,
    reduction,
    scan,
    shape,
    softmax,
    sorting,
    upsample,
)
from tritorch.ops.declare import OPERATORS, PUBLIC
