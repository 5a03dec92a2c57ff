"""What of a record is public: functions, methods, in-place forms, and `out=`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.autograd.graph import check_inplace, place
from tritorch.core import defaults, published, scopes
from tritorch.core.published import AUTOCAST, FUNCTIONAL, PUBLIC, SPECIAL
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import OVERLAP, require_castable, require_tensor
from tritorch.ops.record.operator import OPERATORS, Operator
from tritorch.ops.record.outputs import (
    cpp_name,
    overload,
    require_common_dtype,
    require_dtype,
    require_own_memory,
    require_own_shape,
    require_separate,
)
from tritorch.ops.record.writing import differentiated

Function = TypeVar("Function", bound=Callable[..., Any])


def public(
    *,
    method: bool | str = True,
    inplace: bool | str = False,
    alone: bool = False,
    out: bool | str = False,
    torch: bool = True,
    special: bool = False,
    aliases: Sequence[str] = (),
) -> Callable[[Function], Function]:
    """Publishes a function as `tritorch.name`, as a method, in place and with `out=`, as asked.

    inplace: "public" if the form in place is a function too.
    alone: in place, no argument may share memory with what is written.
    out: "dtype" if it computes in the dtype of its output."""

    def decorate(function: Function) -> Function:
        name = function.__name__
        exposed: Function = with_out(function, computes_in_out=out == "dtype") if out else function
        if special:
            SPECIAL[name] = exposed
        for alias in (name, *aliases):
            if name in AUTOCAST:
                AUTOCAST[alias] = AUTOCAST[name]
            if torch:
                PUBLIC[alias] = exposed
            if method:
                setattr(Tensor, method if isinstance(method, str) else alias, function)
            if inplace:
                form = in_place_of(function, f"{alias}_", alone)
                setattr(Tensor, f"{alias}_", form)
                if inplace == "public":
                    PUBLIC[f"{alias}_"] = form
        return exposed

    return decorate


def with_out(function: Callable[..., Any], *, computes_in_out: bool = False) -> Any:
    """The function with an `out=` argument.

    computes_in_out: an output's dtype is the one that is computed in, unless `dtype` says another.
    """

    def wrapper(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs)
        name = function.__name__
        if computes_in_out and isinstance(out, Tensor):
            if kwargs.get("dtype") is None:
                kwargs["dtype"] = out.dtype
            elif kwargs["dtype"] is not out.dtype:
                raise RuntimeError(
                    f"Expected out tensor to have dtype {cpp_name(kwargs['dtype'])}, but got "
                    f"{cpp_name(out.dtype)} instead"
                )
        return compute_out(name, function, out, *args, **kwargs)

    wrapper.__name__ = function.__name__
    wrapper.__qualname__ = function.__name__
    wrapper.__doc__ = function.__doc__
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]
    return wrapper


def record_of(function: Any) -> Operator | None:
    """The record whose function this is, as users call it; None of a function of several."""
    function = getattr(function, "shown", None) or function  # a gate
    plain = getattr(function, "__wrapped__", function)
    return getattr(plain, "op", None) or OPERATORS.get(getattr(plain, "__name__", ""))


def compute_out(
    name: str, function: Callable[..., Any], out: Any, *args: Any, own_dtype: bool = False,
    **named: Any,
) -> Any:  # fmt: skip
    """Writes what a function gives into an output; name: whose rules about outputs hold.

    own_dtype: the result surely has the dtype that the inputs promote to."""
    inputs = (*args, *named.values())
    refuse_grad_with_out(name, *inputs, out)
    try:
        result = function(*args, **named)
    except NotImplementedError:
        require_common_dtype(name, inputs, out, own_dtype)  # PyTorch says this first
        raise
    require_own_memory(name, inputs, out)
    return write_out(result, out, name)


def refuse_grad_with_out(name: str, *tensors: Any) -> None:
    """Gradients exclude out=, whether inputs or outputs want them."""
    if not _C.is_grad_enabled():
        return
    for tensor in tensors:
        several = tensor if isinstance(tensor, (tuple, list)) else ()
        if _C.any_requires_grad(tensor, *several):
            who = f"{name}(): " if name else ""
            raise RuntimeError(
                f"{who}functions with out=... arguments don't support automatic differentiation, "
                f"but one of the arguments requires grad."
            )


def write_out(result: Any, out: Any, name: str = "") -> Any:
    """Writes an operator's results into given tensors, resizing them as PyTorch does."""
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)):
            kind = type(out).__name__
            raise TypeError(f"{name}(): argument 'out' must be tuple of Tensors, not {kind}")
        if len(out) != len(result):
            raise TypeError(f"expected tuple of {len(result)} elements but got {len(out)}")
        name = overload(name)
        for value, target in zip(result, out):
            if isinstance(target, Tensor):
                require_dtype(name, value.dtype, target.dtype)
        for value, target in zip(result, out):
            write_out(value, target, name)
        if hasattr(result, "_make"):
            return getattr(result, "written", type(result))(*out)
        return tuple(out)
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    refuse_grad_with_out(name, result, out)
    if out.device != result.device:
        raise RuntimeError(
            f"Expected out tensor to be on {result.device}, but got {out.device} instead"
        )
    require_dtype(name, result.dtype, out.dtype)
    resize_output(out, result.shape, result.stride)
    with scopes.unrecorded:
        out.copy_(result)
    return out


def resize_output(out: Tensor, shape: Sequence[int], strides: Callable[[], Any]) -> None:
    """Gives an output another shape, dense in a result's order; warns when it had elements."""
    if tuple(out._array.shape) == tuple(shape):
        return
    if out.numel():
        defaults.warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(out.shape)}, which does not match the required output shape {list(shape)}. "
            f"This behavior is deprecated, and in a future PyTorch release outputs will not be "
            f"resized unless they have zero elements. You can explicitly reuse an out tensor t by "
            f"resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=4,
        )
    out.resize_(shape)
    if (wanted := strides()) != out.stride():
        out._a = arrays.strided(out._array, shape, wanted, 0)


def in_place_of(function: Callable[..., Any], name: str, alone: bool = False) -> Any:
    """`x.f_(...)` from `f(x, ...)`: computes, then copies into x."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_inplace(self, *args)
        source = self
        if _C.is_grad_enabled() and _C.any_requires_grad(self, *args, *kwargs.values()):
            source = published.public.clone(self)  # gradients may need it as it was
        result = function(source, *args, **kwargs)
        require_separate(self, args, alone)
        if result.dtype is not self.dtype:
            require_castable(result.dtype, self.dtype)
        if result._array.shape != self._array.shape:
            require_own_shape(function.__name__, result, self)
        node = result._raw_node
        if node is None or self._base is not None or result.dtype is not self.dtype:
            return self.copy_(result)
        with scopes.unrecorded:
            self.copy_(result)
        place(self, node, result.output_nr)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of {function.__name__}."
    return method


def accepts_expanded(name: str, fill: Callable[..., Any]) -> None:
    """Lets `Tensor.name` write tensors whose elements share memory, which PyTorch advises against.

    fill(array, *arguments): writes NumPy's array where the operator would."""
    plain = getattr(Tensor, name)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            return cast(Tensor, plain(self, *args, **kwargs))
        except RuntimeError as error:
            if str(error) != OVERLAP or type(self._array) is not np.ndarray:
                raise
            if differentiated(self, *args, *kwargs.values()):
                raise
        defaults.warn(
            f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before "
            f"performing this operation. This also applies to advanced indexing e.g. tensor[mask] "
            f"= scalar",
            stacklevel=2,
        )
        plainly = lambda x: x._array if isinstance(x, Tensor) else x
        fill(self._array, *map(plainly, args), **{k: plainly(x) for k, x in kwargs.items()})
        _C.bump_version(self)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = plain.__doc__
    setattr(Tensor, name, method)


# ---- torch.nn.functional -------------------------------------------------------------------------


def functional(function: Function) -> Function:
    """Publishes a function in torch.nn.functional."""
    FUNCTIONAL[function.__name__] = function
    return function


def functional_with_out(function: Function) -> Function:
    """The same, with an `out=` argument."""
    FUNCTIONAL[function.__name__] = with_out(function)
    return function


def with_inplace(function: Any, in_place: Any = None, before: int | None = None) -> Any:
    """An activation with an `inplace` flag, published with its `_` form.

    in_place: that form, where it keeps something else than the function.
    before: how many arguments after the input the flag comes after (all of the function's)."""
    name = function.__name__
    own = inspect.unwrap(function).__code__.co_argcount - 1 if before is None else before

    def wrapper(input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        if len(args) > own:
            *args, inplace = args  # type: ignore[assignment]
        require_tensor(input, name, "input", 1)
        return (in_place if inplace else function)(input, *args, **kwargs)

    in_place = in_place or in_place_of(function, f"{name}_")

    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__doc__ = function.__doc__
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]
    in_place.__name__ = f"{name}_"
    FUNCTIONAL[name] = wrapper
    FUNCTIONAL[f"{name}_"] = in_place
    return wrapper
