"""Buckets: gradients that travel together, in memory of their own."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from tritorch.core.layout import contiguous_strides, is_dense
from tritorch.ops.interpret.sparse.build import sparse_coo_tensor
from tritorch.ops.shape.factory import zeros

FIRST = 1 << 20  # bytes: the first bucket is small, so that something travels early


class Bucket:
    """Some parameters' gradients in one flat tensor.

    views: where each parameter's gradient lies, as the parameter does; waiting: how many gradients
    of this pass are still to come; work: what moves them."""

    flat: Any

    def __init__(self, parameters: Sequence[Any]) -> None:
        self.parameters = list(parameters)
        self.views: list[Any] = []
        self.waiting = len(self.parameters)
        self.work: Any = None
        self.allocate()

    def allocate(self) -> None:
        """Makes the memory in which the gradients lie."""
        parameters = self.parameters
        first = parameters[0]
        total = sum(p.numel() for p in parameters)
        self.flat = zeros(total, dtype=first.dtype, device=first.device)
        place = 0
        for p in parameters:
            shape, strides = tuple(p.shape), tuple(p.stride())
            if not is_dense(shape, strides):
                strides = contiguous_strides(shape)
            self.views.append(self.flat.as_strided(shape, strides, place))
            place += p.numel()

    def clear(self) -> None:
        """Lets all gradients be zero."""
        self.flat.zero_()

    def arrived(self, value: Any) -> None:
        """Takes what has travelled."""
        if value is not self.flat:
            self.flat.copy_(value)


class SparseBucket(Bucket):
    """One parameter's sparse gradient, another tensor in each pass: there is no view of it."""

    def allocate(self) -> None:
        """Lets no row have a gradient."""
        self.views = [None]
        self.clear()

    def clear(self) -> None:
        """Lets no row have a gradient."""
        (p,) = self.parameters
        self.flat = sparse_coo_tensor(size=tuple(p.shape), dtype=p.dtype, device=p.device)

    def arrived(self, value: Any) -> None:
        """Takes what has travelled."""
        self.flat = value


def divided(
    order: Sequence[int], parameters: Sequence[Any], first: int, cap: int, sparse: Set[int]
) -> list[Any]:  # fmt: skip
    """Which parameters travel together: in this order, those of one kind and device up to so many
    bytes, the first bucket of each up to `first`; those with sparse gradients each alone."""
    found: list[list[int]] = []
    open_ones: dict[Any, tuple[list[int], int]] = {}
    limits: dict[Any, int] = {}
    for i in order:
        if i in sparse:
            found.append([i])
            continue
        p = parameters[i]
        kind = p.dtype, p.device
        bucket, size = open_ones.get(kind, ([], 0))
        if not bucket:
            found.append(bucket)
        bucket.append(i)
        size += p.numel() * p.element_size()
        open_ones[kind] = bucket, size
        if size >= limits.setdefault(kind, first):
            del open_ones[kind]
            limits[kind] = cap
    return found


class GradBucket:
    """A bucket as communication hooks see it."""

    def __init__(self, index: int, bucket: Bucket, is_last: bool) -> None:
        self._index, self._bucket, self._is_last = index, bucket, is_last
        self._buffer = bucket.flat

    def index(self) -> int:
        """Its place among all, in the order in which they travel."""
        return self._index

    def buffer(self) -> Any:
        """All gradients, flat."""
        return self._buffer

    def gradients(self) -> list[Any]:
        """Each gradient, in the memory of the buffer; a sparse one is the buffer."""
        return [self._buffer if view is None else view for view in self._bucket.views]

    def parameters(self) -> list[Any]:
        """Whose gradients they are."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether it is the last one of a pass."""
        return self._is_last

    def set_buffer(self, buffer: Any) -> None:
        """Puts another tensor in the place of the flat one."""
        self._buffer = buffer
