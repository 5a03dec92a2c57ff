"""What PyTorch's references of operators ask about tensors."""

from __future__ import annotations

from typing import Any

from tritorch.compat.torch_private._subclasses.fake_utils import _check_fake_real_tensors

__all__ = ["compare_tensor_meta"]


def compare_tensor_meta(
    a: Any, b: Any, check_sizes: bool = True, check_strides: bool = False, **options: Any
) -> None:
    """Refuses tensors that do not look alike: in shape, dtype, device, and strides if wanted."""
    _check_fake_real_tensors(
        a, b, sizes=check_sizes, strides=check_strides, storage_offset=check_strides,
        requires_grad=False,
    )  # fmt: skip
