"""ATen's operators that make nested tensors and ask what they are made of.

What computes them is imported when one is called first, as most programs have no nested tensor."""

from __future__ import annotations

from typing import Any

from tritorch.core.published import INTERNAL
from tritorch.core.tensor import Tensor

_NAMES = """
    _jagged_to_padded_dense_forward _nested_compute_contiguous_strides_offsets _nested_from_padded
    _nested_from_padded_and_nested_example _nested_from_padded_tensor _nested_get_jagged_dummy
    _nested_get_lengths _nested_get_max_seqlen _nested_get_min_seqlen _nested_get_offsets
    _nested_get_ragged_idx _nested_get_values _nested_get_values_copy _nested_tensor_from_mask
    _nested_tensor_from_mask_left_aligned _nested_tensor_from_tensor_list _nested_view_from_buffer
    _nested_view_from_buffer_copy _nested_view_from_jagged _nested_view_from_jagged_copy
    _padded_dense_to_jagged_forward
"""
_METHODS = "_nested_tensor_size _nested_tensor_storage_offsets _nested_tensor_strides"


def _late(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        from tritorch.ops.interpret.nested import build

        return getattr(build, name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "See `ops/interpret/nested/build.py`."
    return function


INTERNAL.update({name: _late(name) for name in (_NAMES + _METHODS).split()})
for _name in _METHODS.split():
    setattr(Tensor, _name, INTERNAL[_name])
