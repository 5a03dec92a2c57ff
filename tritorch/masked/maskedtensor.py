"""MaskedTensor: a tensor with a mask of which elements count.

It is a subclass that shares its data's memory and history; what is called with one comes to
`__torch_function__`, which runs it on the data and says what becomes of the mask.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeGuard, cast

from tritorch import _C
from tritorch.autograd.graph import check_inplace
from tritorch.core import published, scopes
from tritorch.core.dtype import (
    bool_,
    dtype as Dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from tritorch.core.naming import torch_name
from tritorch.core.tensor import Tensor
from tritorch.masked import _ops
from tritorch.ops.record.publishing import record_of

_TYPES: tuple[Dtype, ...] = (
    float16, float32, float64, bool_, int8, int16, int32, int64, uint8,
)  # fmt: skip
_WIDTH = 8
_MISMATCH = "Input masks must match. If you need support for this, please open an issue on Github."


# ---- what becomes of the mask --------------------------------------------------------------------

# Functions without a record of their own; what becomes of the others, their records say.
_SAME = """
    __invert__ __pos__ clamp clip contiguous detach logit nan_to_num positive
    bool byte char cpu cuda double float half int long short to type
    log_softmax ones_like softmax softmin zeros_like
    """
_MOVED = """
    __getitem__ broadcast_to cat chunk clone concat concatenate expand_as flatten movedim narrow
    reshape split stack unbind unflatten view_as
    """
_REDUCED = "amax amin argmax argmin mean prod std sum var"
_PLAIN = """
    __bool__ __complex__ __contains__ __float__ __format__ __hash__ __index__ __int__ __len__
    as_subclass backward data_ptr dim element_size get_device is_complex is_contiguous
    is_floating_point is_nonzero is_signed item nelement numel register_hook requires_grad_
    retain_grad size storage_offset stride type_as
    """


def _of(x: Any) -> Any:
    """The data of a MaskedTensor, also in lists."""
    if isinstance(x, MaskedTensor):
        return x.as_subclass(Tensor)
    return type(x)(map(_of, x)) if type(x) in (list, tuple) else x


def _mask_of(x: Any) -> Any:
    """The mask in place of a MaskedTensor, also in lists."""
    if isinstance(x, MaskedTensor):
        return x.get_mask()
    return type(x)(map(_mask_of, x)) if type(x) in (list, tuple) else x


def _paired(data: Any, mask: Any) -> Any:
    if isinstance(data, (tuple, list)):
        return type(data)(map(_paired, data, mask))
    return MaskedTensor._from_values(data, mask)


def _masked(x: Tensor, mask: Tensor) -> Any:
    return MaskedTensor._from_values(x, mask)


def _same(func: Any, args: Any, kwargs: Any) -> Any:
    """Element by element of one tensor."""
    if func.__name__.endswith("softmax") or func.__name__ == "softmin":
        lowest = float("inf") if func.__name__ == "softmin" else float("-inf")
        filled = args[0].to_tensor(lowest)
        return _masked(func(filled, *args[1:], **kwargs), args[0].get_mask())
    mask = args[0].get_mask()
    data = func(_of(args[0]), *args[1:], **kwargs)
    return _masked(data, mask if data.device == mask.device else mask.to(data.device))


def _together(func: Any, args: Any, kwargs: Any) -> Any:
    """Element by element of two tensors, whose masks must be the same."""
    masks = [x.get_mask() for x in args[:2] if isinstance(x, MaskedTensor)]
    if len(masks) == 2 and not (
        masks[0].shape == masks[1].shape and bool((masks[0] == masks[1]).all())
    ):
        raise ValueError(_MISMATCH)
    data = func(*_of(tuple(args)), **{name: _of(x) for name, x in kwargs.items()})
    mask = masks[0]
    return _masked(data, mask if mask.shape == data.shape else mask.broadcast_to(data.shape))


def _moved(func: Any, args: Any, kwargs: Any) -> Any:
    """Data and mask alike."""
    return _paired(func(*_of(tuple(args)), **kwargs), func(*_mask_of(tuple(args)), **kwargs))


def _any(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return mask.any()
    return mask.any(dim, keepdim)


def _reduced(func: Any, args: Any, kwargs: Any) -> Any:
    """A masked reduction; a result counts if anything in it does."""
    x, *rest = args
    name = func.__name__
    # argmax and argmin take one dim, the others also several or none.
    dim = kwargs.pop("dim", kwargs.pop("axis", None))
    if dim is None and rest:
        dim = rest.pop(0)
    if rest:
        kwargs["unbiased" if name in ("var", "std") else "keepdim"] = rest.pop(0)
    if isinstance(dim, bool):  # var(unbiased)
        kwargs["unbiased"], dim = dim, None
    out = _ops.FUNCTIONS[name](x, dim, **kwargs)
    return _masked(out, _any(x.get_mask(), dim, bool(kwargs.get("keepdim"))))


def _all(func: Any, args: Any, kwargs: Any) -> Any:
    x, *rest = args
    dim = kwargs.get("dim", rest[0] if rest else None)
    keepdim = kwargs.get("keepdim", rest[1] if len(rest) > 1 else False)
    filled = x.to_tensor(True)
    out = filled.all() if dim is None else filled.all(dim, keepdim)
    return _masked(out, _any(x.get_mask(), dim, keepdim))


def _where(func: Any, args: Any, kwargs: Any) -> Any:
    condition, *values = args
    masks = [
        x.get_mask() if isinstance(x, MaskedTensor) else published.public.ones_like(x, dtype=bool_)
        for x in values
    ]
    return _masked(func(condition, *map(_of, values), **kwargs), func(condition, *masks))


def _copy(func: Any, args: Any, kwargs: Any) -> Any:
    _together(func, args, kwargs)
    return args[0]


def _plain(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **kwargs)


_WAYS: dict[str, Callable[..., Any]] = {
    name: way
    for names, way in (
        (_SAME, _same), (_MOVED, _moved), (_REDUCED, _reduced),
        (_PLAIN, _plain), ("all", _all), ("where", _where), ("copy_", _copy),
    )
    for name in names.split()
}  # fmt: skip


@functools.cache
def _way(func: Any) -> Callable[..., Any] | None:
    """What a function of the package does to masks."""
    name = func.__name__
    found = _WAYS.get(name)
    op = record_of(func)
    if found is not None or op is None:
        return found
    if op.kind == "pointwise" and not op.masks:
        found = {1: _same, 2: _together}.get(len(op.inputs))
    elif op.is_view:
        found = _moved
    return found


_ATTRIBUTES: dict[Any, Callable[..., Any]] = {
    vars(base)[name]: way
    for names, way in (("T mT H mH", _moved), ("data real imag", _same))
    for name in names.split()
    for base in (Tensor, _C.TensorBase)
    if name in vars(base)
}


def _attribute(func: Any, args: Any, kwargs: Any) -> Any:
    """A property, read or written."""
    way = _ATTRIBUTES.get(func.__self__) if func.__name__ == "__get__" else None
    return (way or _plain)(func, args, kwargs)


# ---- the class -----------------------------------------------------------------------------------


class MaskedTensor(Tensor):
    """Data and a mask of the same shape, which says what of it counts."""

    _masked_mask: Tensor

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
        if not isinstance(data, Tensor) or isinstance(data, MaskedTensor):
            raise TypeError("data must be a Tensor")
        if not isinstance(mask, Tensor) or isinstance(mask, MaskedTensor):
            raise TypeError("mask must be a Tensor")
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        _check(data, mask)
        out = data.detach().clone().as_subclass(cls)
        out._masked_mask = mask.detach().clone()
        return out.requires_grad_() if requires_grad else out

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        """data, mask: tensors of one shape, copied; what the mask is False for does not count."""

    @staticmethod
    def _from_values(data: Tensor, mask: Tensor) -> MaskedTensor:
        """With the data's history and memory."""
        out: Any = data.as_subclass(MaskedTensor)
        out._masked_mask = mask
        return out

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__
        kwargs = dict(kwargs or {})
        with scopes.as_plain:
            if name in ("__get__", "__set__", "__delete__"):
                return _attribute(func, args, kwargs)
            if torch_name(func.__module__) == "torch.masked":
                return func(*args, **kwargs)
            way = _way(func)
            if way is not None and (way is _plain or any(map(_carries, args))):
                return way(func, args, kwargs)
            plain = getattr(Tensor, name[:-1], None) if name.endswith("_") else None
            if plain is not None and (way := _way(plain)) in (_same, _together):
                check_inplace(args[0])
                way(func, args, kwargs)
                return args[0]
        return NotImplemented

    def get_data(self) -> Tensor:
        """All the data, also what does not count."""
        return self.as_subclass(Tensor)

    def get_mask(self) -> Tensor:
        """True where the data counts."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """The data, with a value where it does not count."""
        return self.get_data().masked_fill(self._masked_mask.logical_not(), value)

    def to_dense(self) -> MaskedTensor:  # type: ignore[override]
        """Itself: the layout is dense."""
        return self

    def is_sparse_coo(self) -> bool:
        """Whether the layout is sparse_coo."""
        return False

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the layout is sparse_csr."""
        return False

    @property
    def grad(self) -> Any:
        """The gradient, masked alike."""
        found = _GRAD.__get__(self.as_subclass(Tensor) if not self.is_leaf else self)
        return None if found is None else _masked(found, self._masked_mask)

    @grad.setter
    def grad(self, value: Any) -> None:
        _GRAD.__set__(self, value)

    @grad.deleter
    def grad(self) -> None:
        _GRAD.__delete__(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> MaskedTensor:
        memo[id(self)] = out = _rebuilt(*self._parts())
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, self._parts()

    def _parts(self) -> tuple[Tensor, Tensor, bool]:
        plain = cast(MaskedTensor, self.detach())
        return plain.get_data(), self._masked_mask, self.requires_grad

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        data, mask = self._parts()[0].cpu(), self._masked_mask.cpu()
        return f"{type(self).__name__}({_text(data, mask)})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


_GRAD: Any = Tensor.__dict__.get("grad") or _C.TensorBase.__dict__["grad"]


def _rebuilt(data: Tensor, mask: Tensor, requires_grad: bool) -> MaskedTensor:
    return MaskedTensor(data, mask, requires_grad)


def _carries(x: Any) -> bool:
    return isinstance(x, MaskedTensor) or (type(x) in (list, tuple) and any(map(_carries, x)))


def _check(data: Tensor, mask: Tensor) -> None:
    if data.layout != mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if mask.dtype is not bool_:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _TYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.ndim != mask.ndim:
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")


def _shown(data: Tensor) -> str:
    value = data.item()
    return f"{value:8.4f}" if data.dtype.is_floating_point else str(value)


def _text(data: Tensor, mask: Tensor) -> str:
    if not data.ndim:
        counts = bool(mask)
        return f"{_shown(data) if counts else '--'}, {counts}"

    def part(data: Tensor, mask: Tensor, indent: str) -> str:
        if data.ndim == 1:
            items = [
                _shown(x) if bool(m) else "--".rjust(_WIDTH)
                for x, m in zip(data.unbind(), mask.unbind())
            ]
            return f"{indent}[{', '.join(items)}]"
        rows = [part(x, m, indent + "  ") for x, m in zip(data.unbind(), mask.unbind())]
        return f"{indent}[\n" + ",\n".join(rows) + f"\n{indent}]"

    return f"\n{part(data, mask, '  ')}\n"


# ---- how to make one -----------------------------------------------------------------------------


def _advise() -> None:
    warnings.warn(
        "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future."
        " Please open a Github issue for features requests and see our documentation on the "
        "torch.masked module for further information about the project.",
        stacklevel=3,
    )


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A new leaf of copies of data and mask."""
    _advise()
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A MaskedTensor through which gradients flow to the data."""
    if not isinstance(data, Tensor) or isinstance(data, MaskedTensor):
        raise TypeError("data must be a Tensor")
    if not isinstance(mask, Tensor) or isinstance(mask, MaskedTensor):
        raise TypeError("mask must be a Tensor")
    _check(data, mask)
    _advise()
    return MaskedTensor._from_values(data, mask)


def is_masked_tensor(obj: Any, /) -> TypeGuard[MaskedTensor]:
    """Whether this is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)
