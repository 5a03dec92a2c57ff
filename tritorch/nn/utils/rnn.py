"""Sequences of different lengths, packed: as in torch.nn.utils.rnn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tritorch.core import published
from tritorch.core.dtype import int8, int16, int32, int64, uint8
from tritorch.core.tensor import Tensor
from tritorch.ops.index.sorting import sort
from tritorch.ops.shape.factory import as_tensor, tensor
from tritorch.ops.shape.joining import cat, stack
from tritorch.ops.shape.ranges import arange


class PackedSequence_(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """All steps of a batch of sequences, step by step: data[0:batch_sizes[0]] is the first step."""

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> Any:  # fmt: skip
        if batch_sizes is None:
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like "
                "pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The data (and indices) on another device or of another dtype."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        where = data.device
        indices = (None if i is None else i.to(where) for i in self[2:])
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On a GPU."""
        return self.to(self.data.cuda(*args, **kwargs).device)

    def cpu(self) -> PackedSequence:
        """In host memory."""
        return self.to("cpu")

    def double(self) -> PackedSequence:
        """As float64."""
        return self.to(tensor(0.0).double().dtype)

    def float(self) -> PackedSequence:
        """As float32."""
        return self.to(tensor(0.0).float().dtype)

    def half(self) -> PackedSequence:
        """As float16."""
        return self.to(tensor(0.0).half().dtype)

    def long(self) -> PackedSequence:
        """As int64."""
        return self.to(int64)

    def int(self) -> PackedSequence:
        """As int32."""
        return self.to(int32)

    def short(self) -> PackedSequence:
        """As int16."""
        return self.to(int16)

    def char(self) -> PackedSequence:
        """As int8."""
        return self.to(int8)

    def byte(self) -> PackedSequence:
        """As uint8."""
        return self.to(uint8)

    def pin_memory(self) -> PackedSequence:
        """In page-locked memory."""
        return type(self)(self.data.pin_memory(), *self[1:])

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is page-locked."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The indices that undo a permutation."""
    if permutation is None:
        return None
    places = arange(permutation.numel(), device=permutation.device)
    return published.public.empty_like(permutation).scatter_(0, permutation, places)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs (time, batch, ...) of given lengths."""
    lengths = as_tensor(lengths, dtype=int64, device="cpu")
    if enforce_sorted:
        order = None
    else:
        lengths, order = sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    steps = lengths.tolist()
    if input.shape[1] != len(steps):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(steps)} "
            f"(batch_size={input.shape[1]})"
        )
    if not steps:
        raise RuntimeError("Cannot pack empty tensors.")
    if any(n <= 0 for n in steps):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if steps != sorted(steps, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    # Runs of steps with the same batch size are one slice each.
    parts, sizes, start = [], [], 0
    for count in range(len(steps), 0, -1):
        end = steps[count - 1]
        if end > start:
            parts.append(input[start:end, :count].reshape(-1, *input.shape[2:]))
            sizes += [count] * (end - start)
            start = end
    return PackedSequence(cat(parts), tensor(sizes), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(padded (time, batch, ...), lengths)"""
    sizes = sequence.batch_sizes.tolist()
    length = len(sizes)
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                f"Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being "
                f"{length}"
            )
    total = length if total_length is None else total_length
    data, batch = sequence.data, sizes[0]
    out = data.new_full((total, batch, *data.shape[1:]), padding_value)
    at, start, parts = 0, 0, []
    while start < length:  # runs of one batch size
        end = start
        while end < length and sizes[end] == sizes[start]:
            end += 1
        count = sizes[start]
        rows = (end - start) * count
        parts.append((start, end, count, data[at : at + rows]))
        at, start = at + rows, end
    for start, end, count, rows in parts:
        out[start:end, :count] = rows.reshape(end - start, count, *data.shape[1:])
    lengths = tensor([sum(size > i for size in sizes) for i in range(batch)])
    if sequence.unsorted_indices is not None:
        out = out.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return (out.transpose(0, 1) if batch_first else out), lengths


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:  # fmt: skip
    """Sequences of different lengths side by side."""
    if padding_side not in ("left", "right"):
        raise RuntimeError("Expected padding_side to be one of left or right")
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    items = list(sequences)
    longest = max(item.shape[0] for item in items)
    padded = []
    for item in items:
        extra = item.new_full((longest - item.shape[0], *item.shape[1:]), padding_value)
        padded.append(cat([item, extra] if padding_side == "right" else [extra, item]))
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch."""
    rows = padded if batch_first else padded.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows.unbind(0), lengths.tolist())]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs a list of sequences."""
    lengths = [item.shape[0] for item in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
