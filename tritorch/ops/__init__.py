"""Every operator, declared once, one family a file; importing this attaches Tensor's methods."""

from tritorch.core.tensor import Tensor
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

for _name in (
    "get_device", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg",
    "is_nonzero", "is_same_size", "is_signed", "numel",
):  # fmt: skip
    PUBLIC.setdefault(_name, getattr(Tensor, _name))

compat.publish()
