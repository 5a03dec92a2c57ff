"""The class of tensors, under PyTorch's name for its module."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from tritorch.core.gates import convert as convert
from tritorch.core.tensor import Tensor as Tensor
from tritorch.overrides import handle_torch_function, has_torch_function as has_torch_function
from tritorch.serialization import rebuild

_P = ParamSpec("_P")
_TensorLike = TypeVar("_TensorLike", bound=Tensor)
_convert = convert
_rebuild_from_type = rebuild._rebuild_from_type
_rebuild_from_type_v2 = rebuild._rebuild_from_type_v2


def _handle_torch_function_and_wrap_type_error_to_not_implemented(
    f: Callable[Concatenate[_TensorLike, _P], Tensor],
) -> Callable[Concatenate[_TensorLike, _P], Tensor]:
    """An operator of Python's: overrides are asked, and a TypeError lets the other operand try."""

    @functools.wraps(f)
    def wrapped(self: _TensorLike, *args: _P.args, **kwargs: _P.kwargs) -> Tensor:
        try:
            if has_torch_function((self, *args)):
                return handle_torch_function(wrapped, (self, *args), self, *args, **kwargs)
            return f(self, *args, **kwargs)
        except TypeError:
            return NotImplemented

    return wrapped
