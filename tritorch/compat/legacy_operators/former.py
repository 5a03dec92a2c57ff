"""Methods of Tensor that were in use once, or are for devices that are not here."""

from __future__ import annotations

import math
import warnings
from typing import Any, NoReturn

from tritorch.core import published
from tritorch.core.dtype import dtype as Dtype
from tritorch.core.published import PUBLIC, computes
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.matmul import addmm, mm
from tritorch.ops.record.checks import require_tensor, sizes


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """self[i] = callable(self[i], x[i], y[i]), broadcasting (slow; on the CPU)."""
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError(
            "Can't call map2_() on Variable that requires grad. Use var.detach().map2_() instead."
        )
    if self.is_cuda:
        raise TypeError("map2_ is only implemented on CPU tensors")
    columns = [v.expand(self.shape).flatten().tolist() for v in (self, x, y)]
    values = [callable(*row) for row in zip(*columns)]
    return self.copy_(published.public.tensor(values, dtype=self.dtype).reshape(self.shape))


def module_load(self: Tensor, other: Any, assign: bool = False) -> Tensor:
    """What `Module.load_state_dict` puts in place of self for `other` of the state."""
    if not assign:
        require_tensor(other, "copy_", "other", 1)
    return other.detach() if assign else self.copy_(other).detach()


def reinforce(self: Tensor, reward: Any) -> NoReturn:
    """An error: removed for `distributions`."""
    raise RuntimeError(
        "reinforce() was removed. Use tritorch.distributions: sample an action of a distribution "
        "m, and call backward() on -m.log_prob(action) * reward."
    )


def _warn(name: str) -> None:
    warnings.warn(f"non-inplace {name} is deprecated", stacklevel=3)


def resize(self: Tensor, *sizes_: Any) -> Tensor:
    """Deprecated: another shape of as many elements."""
    _warn("resize")
    return _resized(self, sizes(sizes_))


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Deprecated: another tensor's shape, of as many elements."""
    _warn("resize_as")
    return _resized(self, tuple(tensor.shape))


def _resized(self: Tensor, shape: tuple[int, ...]) -> Tensor:
    if math.prod(shape) != self.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, shape))} ({math.prod(shape)} elements in "
            f"total), but the given tensor has a size of {'x'.join(map(str, self.shape))} "
            f"({self.numel()} elements). autograd's resize can only change the shape of a given "
            "tensor, while preserving the number of elements. "
        )
    return self.contiguous().view(shape)


def to_mkldnn(self: Tensor, dtype: Dtype | None = None) -> Tensor:
    """A copy: there is no layout of oneDNN's here, and `to_dense` takes the copy as it is."""
    if not self.is_floating_point() or self.is_cuda:
        raise RuntimeError(f"dense_to_mkldnn expects float tensor on the CPU, got {self.type()}")
    return self.clone() if dtype is None else self.to(dtype, copy=True)


def to_padded_tensor(
    self: Tensor, padding: float, output_size: Any = None, *, out: Any = None
) -> Tensor:
    """Of a nested tensor: its components in one dense tensor, filled up."""
    from tritorch.ops.interpret.nested import padding as nested_padding

    found = nested_padding.to_padded_tensor(self, padding, output_size)
    return found if out is None else out.copy_(found)


def _absent(name: str, error: type[Exception], message: str) -> None:
    def method(self: Tensor, device: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(message)

    method.__name__ = name
    method.__doc__ = "An error: there is no such device."
    setattr(Tensor, name, method)


_absent("xpu", AssertionError, "Torch not compiled with XPU enabled")
_absent("mtia", AssertionError, "Torch not compiled with MTIA enabled")
_absent("ipu", RuntimeError, "PyTorch is not linked with support for ipu devices")


def _delete_item(self: Tensor, index: Any) -> NoReturn:
    raise TypeError("Tensor does not support deleting items")


def _volatile(self: Tensor) -> bool:
    """Deprecated: False; `no_grad` took its place."""
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


def _set_volatile(self: Tensor, value: bool) -> None:
    warnings.warn(
        "volatile was removed and now has no effect. Use `with tritorch.no_grad():` instead.",
        stacklevel=2,
    )


def _grad_dtype(self: Tensor) -> Dtype | None:
    """The dtype that gradients are converted to on their way into `grad`; for leaves."""
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    return self.__dict__.get("_grad_dtype", (self.dtype,))[0]


def _set_grad_dtype(self: Tensor, kind: Dtype | None) -> None:
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if not self.requires_grad:
        raise RuntimeError("grad_dtype: the tensor does not require grad; set that first")
    _, hook = self.__dict__.pop("_grad_dtype", (None, None))
    if hook is not None:
        hook.remove()
    hook = None
    if kind is not None and kind is not self.dtype:
        hook = self.register_hook(lambda g: g.to(kind))
    self.__dict__["_grad_dtype"] = (kind, hook)


for _function in (
    map2_, module_load, reinforce, resize, resize_as, to_mkldnn, to_padded_tensor,
):  # fmt: skip
    setattr(Tensor, _function.__name__, _function)
_tensor: Any = Tensor
_tensor.__delitem__ = _delete_item
_tensor.name = property(lambda self: None, doc="None: tensors have no names.")
_tensor.volatile = property(_volatile, _set_volatile)
_tensor.grad_dtype = property(_grad_dtype, _set_grad_dtype)
# Names of products with sparse matrices.
PUBLIC["spmm"] = PUBLIC["dsmm"] = computes("mm", "spmm", "dsmm")(mm)
PUBLIC["saddmm"] = computes("sspaddmm", "saddmm")(addmm)
