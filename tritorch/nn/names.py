"""Names of torch.nn.functional that are not functions of tensors: constants, notes, annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.ops.nn.grid import GRID_SAMPLE_INTERPOLATION_MODES, GRID_SAMPLE_PADDING_MODES


class BroadcastingListCls:
    """An annotation: one value, or a list of so many; `BroadcastingList2[int]`."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingListCls()
BroadcastingList2 = BroadcastingListCls()
BroadcastingList3 = BroadcastingListCls()

_SAME = "The same inputs give the same bits, on the CPU and on the GPU."
reproducibility_notes = {
    "forward_reproducibility_note": _SAME,
    "backward_reproducibility_note": _SAME,
    "cudnn_reproducibility_note": "No part of this function is in cuDNN. " + _SAME,
}
sparse_support_notes = {"sparse_beta_warning": "Sparse layouts are not supported."}
tf32_notes = {
    "tf32_note": "float32 is multiplied in TF32 if set_float32_matmul_precision allows it."
}


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Refuses what is neither an int nor two values."""
    if not isinstance(arg, int) and len(arg) != 2:
        raise AssertionError(message.format(arg_name))


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Any],
    if_false: Callable[..., Any], module_name: str | None, func_name: str | None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that calls one of two, by the value of one of its arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    if if_true.__doc__ is not None and if_false.__doc__ is not None:
        raise RuntimeError("only one function can have a docstring")
    call.__doc__ = if_true.__doc__ or if_false.__doc__
    call.__module__ = module_name or call.__module__
    call.__name__ = func_name or call.__name__
    return call


__all__ = [
    "GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "BroadcastingList1",
    "BroadcastingList2", "BroadcastingList3", "assert_int_or_pair", "boolean_dispatch",
    "reproducibility_notes", "sparse_support_notes", "tf32_notes",
]  # fmt: skip
