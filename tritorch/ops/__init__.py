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
    ctc,
    embedding,
    factory,
    folding,
    gather,
    indexing,
    joining,
    linear,
    loss,
    matmul,
    memory,
    norm,
    padding,
    parts,
    pointwise,
    pooling,
    random,
    reduction,
    scan,
    shape,
    softmax,
    sorting,
    upsample,
    views,
)
from tritorch.ops.declare import OPERATORS, PUBLIC

compat.publish()
