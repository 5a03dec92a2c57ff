"""segment_reduce: each run of elements along an axis to one."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core.arguments import Number
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import int64
from tritorch.core.tensor import Tensor
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.ranges import arange

_START = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}
_REDUCE = {"max": "amax", "min": "amin", "prod": "prod"}


@public(out=True)
def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False,
    initial: Number | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means, maxima, minima or products of runs along an axis, given by how long each is or
    by where it starts; the dims before the axis have runs of their own.

    initial: what each run starts from; without it an empty run has the reduction's identity, and
    the mean NaN."""
    axis = wrap_dim(axis, data.ndim)
    if reduce not in _START:
        raise RuntimeError(f"segment_reduce(): unsupported reduction {reduce}")
    if data.numel() == 0:
        raise RuntimeError("segment_reduce(): data must be a non-empty tensor")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given = offsets if lengths is None else lengths
    assert given is not None
    if given.ndim != axis + 1:
        raise RuntimeError(
            f"segment_reduce(): Expected {'offsets' if lengths is None else 'lengths'}.dim() == "
            "axis + 1"
        )
    if lengths is None:
        assert offsets is not None
        lengths = offsets.diff(dim=-1)
    elif not unsafe:
        if bool((lengths < 0).any()):
            raise RuntimeError("lengths contains negative value!")
        if not bool((lengths.sum(-1) == data.shape[axis]).all()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    return _reduce_runs(data, reduce, lengths.to(int64), axis, initial)


def _reduce_runs(data: Tensor, reduce: str, lengths: Tensor, axis: int, initial: Any) -> Tensor:
    before, after = data.shape[:axis], data.shape[axis + 1 :]
    batch, runs = math.prod(before), lengths.shape[-1]
    counts = lengths.reshape(-1)
    numbers = arange(batch * runs, device=data.device)
    place = numbers.repeat_interleave(counts)
    rows = data.reshape(batch, data.shape[axis], -1)
    used = lengths.reshape(batch, runs).sum(1)  # offsets may end before the axis does
    within = arange(data.shape[axis], device=data.device) < used.unsqueeze(1)
    flat = rows[within]
    start = _START[reduce] if initial is None else initial
    into = flat.new_full((batch * runs, flat.shape[1]), start)
    if reduce in _REDUCE:
        out = into.index_reduce(0, place, flat, _REDUCE[reduce])
    else:
        out = into.index_add(0, place, flat)
    if reduce == "mean":
        divided = out / counts.unsqueeze(1).to(out.dtype)
        empty = math.nan if initial is None else initial
        out = divided.masked_fill(counts.unsqueeze(1) == 0, empty)
    return out.reshape(*before, runs, *after)
