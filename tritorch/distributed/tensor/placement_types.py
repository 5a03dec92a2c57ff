"""How a tensor lies over one dimension of a mesh: values that programs compare and carry about.

Sharded tensors themselves (`DTensor`) are not here yet.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tritorch.core.tensor import Tensor

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies over one dimension of a mesh of devices; one of the classes below."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Placement:
        if cls is Placement:
            raise TypeError("Placement has no instances; take Shard, Replicate or Partial")
        return super().__new__(cls)

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each device holds a part of the tensor, cut along `dim` if that is given."""
        return isinstance(self, (Shard, _StridedShard)) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each device holds the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether what the devices hold is still to be reduced (by `reduce_op`, if given)."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def _value(self) -> tuple[Any, ...]:
        return ()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._value() == other._value()

    def __hash__(self) -> int:
        return hash((type(self), *self._value()))

    def __reduce__(self) -> Any:
        return type(self), self._value()


class Shard(Placement):
    """Each device holds one chunk of the tensor, which is cut along `dim` as by `torch.chunk`."""

    __slots__ = ("dim",)
    dim: int

    def __init__(self, dim: int) -> None:
        object.__setattr__(self, "dim", dim)

    def _value(self) -> tuple[Any, ...]:
        return (self.dim,)

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """The size of a rank's chunk, and where it begins (at the end, where it is empty)."""
        full = -(-curr_local_size // num_chunks)
        start = min(curr_local_size, full * rank)
        return min(curr_local_size, start + full) - start, start

    def _local_shard_size_and_offset(
        self, curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int | None]:
        return Shard.local_shard_size_and_offset(curr_local_size, num_chunks, rank)

    def _split_tensor(
        self, tensor: Tensor, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True
    ) -> tuple[list[Tensor], list[int]]:
        """One chunk for each device; with padding all are of one size, and how much each lacked
        is the second result."""
        if not -tensor.ndim <= self.dim < tensor.ndim:
            raise AssertionError(f"Sharding dim {self.dim} greater than tensor ndim {tensor.ndim}")
        size = tensor.shape[self.dim]
        full, chunks, lacking = -(-size // num_chunks), [], []
        for rank in range(num_chunks):
            length, start = self.local_shard_size_and_offset(size, num_chunks, rank)
            chunk = tensor.narrow(self.dim, start, length)
            if with_padding:
                lacking.append(full - length)
                if length < full:
                    shape = [*tensor.shape]
                    shape[self.dim] = full
                    wide = tensor.new_zeros(shape)
                    wide.narrow(self.dim, 0, length).copy_(chunk)
                    chunk = wide
            chunks.append(chunk.contiguous() if contiguous else chunk)
        return chunks, lacking

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class _StridedShard(Placement):
    """Each device holds one chunk of each of the `split_factor` pieces that a later dimension of
    the mesh cuts the tensor into along the same `dim`."""

    __slots__ = ("dim", "split_factor")
    dim: int
    split_factor: int

    def __init__(self, dim: int, *, split_factor: int) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor)

    def _value(self) -> tuple[Any, ...]:
        return self.dim, self.split_factor

    def __reduce__(self) -> Any:
        return _strided, self._value()

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


def _strided(dim: int, split_factor: int) -> _StridedShard:
    """Unpickles one."""
    return _StridedShard(dim, split_factor=split_factor)


class Replicate(Placement):
    """Each device holds the whole tensor."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(Placement):
    """The devices hold tensors of the whole shape that are still to be reduced into one."""

    __slots__ = ("reduce_op",)
    LINEAR_REDUCE_OPS: ClassVar = ("sum", "avg")
    ALL_REDUCE_OPS: ClassVar = ("sum", "avg", "min", "max", "product")
    reduce_op: str

    def __init__(self, reduce_op: str = "sum") -> None:
        object.__setattr__(self, "reduce_op", reduce_op)

    def _value(self) -> tuple[Any, ...]:
        return (self.reduce_op,)

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
