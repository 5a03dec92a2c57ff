"""Every operator, declared once, one family a file; importing this attaches Tensor's methods."""

from tritorch.ops import (
    activation,
    arithmetic,
    attention,
    comparison,
    compat,
    conv,
    copies,
    copying,
    embedding,
    factory,
    indexing,
    joining,
    linear,
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

compat.publish()
