"""The product of vectors of three numbers, as torch.cross and linalg.cross."""

from __future__ import annotations

from tritorch.core import defaults
from tritorch.core.dims import wrap_dim
from tritorch.core.promotion import category, not_implemented
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import broadcast_shapes, require_scalar_type, require_tensor
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public, with_out

_cross: Operator = Operator(
    "linalg_cross", "a b", "dim",
    cpu="vectors.cross",
    grad=(
        lambda g, b, dim: _cross.call((b.conj().expand(g.shape), g), (dim,)),
        lambda g, a, dim: _cross.call((g, a.conj().expand(g.shape)), (dim,)),
    ),
    rules=Rules(
        infer=lambda a, b, dim: a.new(broadcast_shapes(a.shape, b.shape)),
        axes="along", batch="dims",
    ),
)  # fmt: skip


def _product(input: Tensor, other: Tensor, dim: int) -> Tensor:
    require_tensor(input, "linalg_cross", "input", 1)
    require_tensor(other, "linalg_cross", "other", 2)
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    sizes = [x.shape[wrap_dim(dim, x.ndim, allow_scalar=False)] for x in (input, other)]
    if sizes != [3, 3]:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and "
            f"{sizes[1]}"
        )
    shape = broadcast_shapes(input.shape, other.shape)
    require_scalar_type(input, other)
    if category(input.dtype) == 0:
        raise not_implemented("cross", input.dtype)
    return _cross.call((input.expand(shape), other.expand(shape)), (wrap_dim(dim, input.ndim),))


@with_out
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors along a dim of three; other dims broadcast."""
    return _product(input, other, dim)


@public(out=True)
@autocast("cuda:widest")
@exact_out("structured")
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """linalg.cross along the first dim of three, if none is given."""
    if dim is None:
        dim = next((i for i, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
        defaults.warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\n"
            "Please either pass the dim explicitly or simply use torch.linalg.cross.\n"
            "The default value of dim will change to agree with that of linalg.cross in a future "
            "release.",
            stacklevel=2,
        )
    return _product(input, other, dim)
