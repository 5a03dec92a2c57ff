"""Tensors as buffers of the host's memory: themselves where they are such, copies elsewhere.

Tensors of a GPU go through the host, and so do those with gaps between their elements.  What was
written into a copy goes to the tensor in `finish`, once the collective is over.
"""

from __future__ import annotations

from collections.abc import Callable

from tritorch.autograd import no_grad
from tritorch.core.layout import strided
from tritorch.core.tensor import Tensor

__all__ = ["Staged"]


def _plain(tensor: Tensor) -> bool:
    return tensor.is_cpu and tensor.layout is strided and tensor.is_contiguous()


class Staged:
    """The buffers of a call's tensors."""

    __slots__ = ("_written", "held")

    def __init__(self) -> None:
        self._written: list[tuple[Tensor, Tensor]] = []
        self.held: list[Tensor] = []

    def read(self, tensor: Tensor) -> tuple[int, int]:
        """The buffer of a tensor that is read: (address, bytes)."""
        if not _plain(tensor):
            with no_grad():
                tensor = tensor.detach().cpu().contiguous()
        self.held.append(tensor)
        return tensor.data_ptr(), tensor.nbytes

    def write(self, tensor: Tensor, keep: bool = False) -> tuple[int, int]:
        """The buffer of a tensor that is written; keep: it has the tensor's values first."""
        plain = tensor
        if not _plain(tensor):
            with no_grad():
                plain = tensor.detach().cpu().contiguous()
                if plain.data_ptr() == tensor.data_ptr() and tensor.is_cpu:
                    plain = plain.clone()
            self._written.append((tensor, plain))
        self.held.append(plain)
        return plain.data_ptr(), plain.nbytes

    @property
    def finish(self) -> Callable[[], None] | None:
        """Copies what was written to where it belongs; None if there is nothing to copy."""
        if not self._written:
            return None
        written = self._written

        def copy() -> None:
            with no_grad():
                for tensor, plain in written:
                    tensor.detach().copy_(plain)

        return copy
