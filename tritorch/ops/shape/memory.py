"""Views of the same memory otherwise: by strides, as another dtype, without history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray
from tritorch.core import published
from tritorch.core.dispatching import asked, watching
from tritorch.core.dtype import complex32, dtype, float16
from tritorch.core.gates import Computed
from tritorch.core.promotion import scalar_name
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor, attach
from tritorch.ops.record.checks import require_storage
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.gradients import Spec
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.maker import Constant
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.views import view_operator

# ---- strides -------------------------------------------------------------------------------------


def _as_strided_grad(g: Tensor, x_spec: Spec, size: Any, stride: Any, offset: int) -> Tensor:
    # Through the flat memory that both views lie in.
    shape, strides = x_spec.shape, x_spec.stride
    reach = lambda n, s: sum((a - 1) * b for a, b in zip(n, s)) + 1
    length = max(offset + reach(size, stride), reach(shape, strides), 1)
    indices = _offsets(tuple(size), tuple(stride), offset, g.device)
    flat = g.new_zeros((length,)).index_add(0, indices, g.reshape(-1))
    back = _offsets(shape, tuple(strides), 0, g.device)
    if any(n > 1 and s == 0 for n, s in zip(shape, strides)):  # elements share a gradient
        times = g.new_zeros((length,)).index_add(0, back, g.new_ones(back.shape))
        flat = flat / times.clamp(min=1)
    return flat.index_select(0, back).reshape(shape)


def _flat_offsets(shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    out = np.full(shape, offset, np.int64)
    for dim, (n, s) in enumerate(zip(shape, strides)):
        out += (np.arange(n) * s).reshape((n, *(1,) * (len(shape) - dim - 1)))
    return out.reshape(-1)


_offsets = Constant(
    "flat_offsets", "shape strides offset", _flat_offsets,
    schema="(int[] shape, int[] strides, int offset, Device device) -> Tensor",
)  # fmt: skip
_as_strided = view_operator(
    "as_strided",
    "size stride offset",
    arrays.strided,
    _as_strided_grad,
    schema="as_strided(x, size, stride, offset + x.storage_offset())",
)


@public()
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A view of the storage by sizes, strides and offset."""
    size, stride = tuple(map(int, size)), tuple(map(int, stride))
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape ({len(stride)} vs {len(size)})"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(stride)}"
        )
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(size)}")
    own = input.storage_offset()
    offset = own if storage_offset is None else int(storage_offset)
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    _check_bounds(input, size, stride, offset)
    if offset < own:
        base = input._base if input._base is not None else input
        return _as_strided.call((base,), (size, stride, offset - base.storage_offset()))
    return _as_strided.call((input,), (size, stride, offset - own))


def _check_bounds(input: Tensor, size: Any, stride: Any, offset: int) -> None:
    if math.prod(size) == 0:
        return
    needed = (offset + sum((n - 1) * s for n, s in zip(size, stride)) + 1) * input.itemsize
    have = input.untyped_storage().nbytes()
    if needed > have:
        require_storage(size, stride)
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and "
            f"itemsize {input.itemsize} requiring a storage size of {needed} are out of bounds for "
            f"storage of size {have}"
        )


# ---- the same memory, otherwise ------------------------------------------------------------------

_alias = view_operator("alias", "", lambda a: a[...], lambda g: g)


@ends_with("alias")
def alias(input: Tensor) -> Tensor:
    """A view of the whole."""
    return _alias.call((input,), ())


@public()
def detach(input: Tensor) -> Tensor:
    """The same memory, without history."""
    if (watching or type(input) is not Tensor) and asked(input):
        from tritorch.ops.interpret import dispatch

        out = dispatch.plainly("detach", input)
        if isinstance(out, Tensor) and type(out._array) is MetaArray is type(input._array):
            out._shared = input._shared  # which counts the writes of both
        return out
    return _C.alias(input)


def detach_(self: Tensor) -> Tensor:
    """Forgets the history."""
    if self._base is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
            "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
            "function in torch/optim/optimizer.py as the solution."
        )
    self._raw_node, self.output_nr, self._leaf = None, 0, False
    return self


attach(detach_=detach_)
PUBLIC["detach_"] = detach_

_identity = Operator(
    "identity",
    "values source",
    schema="(Tensor(a) values, Tensor source) -> Tensor(a)",
    kind="internal",
    cpu=lambda v, s: v,
    gpu=lambda v, s: v,
    grad=(None, lambda g: g),
    rules=Rules(infer=lambda values, source: values, axes="...,?->...", batch="elementwise"),
)


def identity_of(values: Tensor, source: Tensor) -> Tensor:
    """`values`, with gradients going to `source`."""
    return _identity.call((values, source), ())


attach(_with_history_of=identity_of)


def _unpaired(array: Any) -> Any:
    kind = arrays.dtype_of(array).to_complex()
    if arrays.dtype_of(array) is float16:
        kind = complex32
    strides = arrays.strides_of(array)
    if array.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(stride % 2 for stride in strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if type(array) is ndarray:
        first = arrays.np_strided(array, (2 * (array.size > 0),), (1,), 0).view(kind.numpy)
        return arrays.np_strided(first, array.shape[:-1], [s // 2 for s in strides[:-1]], 0)
    flat = array.as_strided((array.storage_nbytes // kind.itemsize * 2,), (1,), 0).view_dtype(kind)
    return flat.as_strided(
        array.shape[:-1], [s // 2 for s in strides[:-1]], array.storage_offset() // 2
    )


def _paired(array: Any) -> bool:
    """Whether the parts are not NumPy's."""
    return type(array) is not ndarray or array.dtype.names is not None


def _real_gradient(g: Tensor) -> Tensor:
    return view_as_complex(g.contiguous())


def _complex_gradient(g: Tensor) -> Tensor:
    return view_as_real(g)


_view_as_real = view_operator("view_as_real", "", arrays.pairs, _real_gradient, axes="...->...r")
_view_as_complex = view_operator(
    "view_as_complex", "", _unpaired, _complex_gradient, axes="...r->..."
)
_real = view_operator(
    "real", "", lambda a: arrays.pairs(a)[..., 0] if _paired(a) else a.real,
    lambda g: published.public.complex(g, g.new_zeros(g.shape)),
    axes="...->...",
)  # fmt: skip
_imag = view_operator(
    "imag", "", lambda a: arrays.pairs(a)[..., 1] if _paired(a) else a.imag,
    lambda g: published.public.complex(g.new_zeros(g.shape), g),
    axes="...->...",
)  # fmt: skip


@public(method=False)
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor as real pairs, in a new last dim."""
    if not input.is_complex():
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return _view_as_real.call((input,), ())


@public(method=False)
@autocast("cpu:float32")
def view_as_complex(input: Tensor) -> Tensor:
    """Real pairs in the last dim as a complex tensor."""
    if input.dtype.name not in ("float32", "float64", "float16"):
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {input.dtype}"
        )
    if not input.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    return _view_as_complex.call((input,), ())


@public(method=False)
@ends_with("{'select.int' if input.is_complex() else ''}")
def real(input: Tensor) -> Tensor:
    """The real parts, as a view."""
    return _real.call((input,), ()) if input.is_complex() else input


@public(method=False)
@ends_with("select.int")
def imag(input: Tensor) -> Tensor:
    """The imaginary parts, as a view."""
    if not input.is_complex():
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _imag.call((input,), ())


def _set_part(part: Any) -> Any:
    return lambda self, value: part(self).copy_(
        value if isinstance(value, Tensor) else self.new_tensor(value)
    )


attach(real=Computed(real, _set_part(real)))
attach(imag=Computed(imag, _set_part(imag)))


def _view_dtype_array(array: Any, kind: dtype) -> Any:
    return array.view(kind.numpy) if type(array) is ndarray else array.view_dtype(kind)


def _check_view_dtype(self: Tensor, kind: dtype, old: dtype) -> None:
    """The conditions under which elements of another size can be viewed."""
    what = f"to view {scalar_name(old)} as {scalar_name(kind)} (different element sizes)"
    if self.ndim == 0:
        raise RuntimeError(f"self.dim() cannot be 0 {what}")
    shape, strides = self.shape, self.stride()
    if strides[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {what}, but got {strides[-1]}")
    ratio = kind.itemsize // old.itemsize
    if ratio > 1:
        needed = [("self.size(-1)", shape[-1]), ("self.storage_offset()", self.storage_offset())]
        needed += [(f"self.stride({i})", stride) for i, stride in enumerate(strides[:-1])]
        for name, value in needed:
            if value % ratio:
                raise RuntimeError(f"{name} must be divisible by {ratio} {what}, but got {value}")


_view_dtype = view_operator(
    "view_dtype",
    "kind",
    _view_dtype_array,
    None,
    schema="view.dtype(x, kind)",
)


def view_dtype(self: Tensor, kind: dtype) -> Tensor:
    """The same memory as another dtype, without history: PyTorch has no derivative of it."""
    old = self.dtype
    if kind.itemsize != old.itemsize and type(self._array) in (ndarray, _C.Array):
        _check_view_dtype(self, kind, old)
    return _view_dtype.call((self.detach() if self.requires_grad else self,), (kind,))
