"""Operators of ATen behind its functions on matrices, sets, histograms, distances and indices.

Arguments are ATen's; results are those that its public functions leave out, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.compat.legacy_operators.layers import internal, vjp
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import int64
from tritorch.core.published import INTERNAL, PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.index.sorting import unique, unique_consecutive
from tritorch.ops.linalg import LinAlgError, distance, lu, spectra, systems
from tritorch.ops.linalg.scaled import ScalingType, scaled_mm
from tritorch.ops.pointwise.pointwise import conj, conj_physical
from tritorch.ops.reduce.segments import segment_reduce
from tritorch.ops.reduce.statistics import histogramdd
from tritorch.ops.shape import factory
from tritorch.ops.shape.copies import block_diag, slice_scatter
from tritorch.ops.shape.joining import cat, repeat_interleave
from tritorch.ops.shape.ranges import arange

# ---- factorisations ------------------------------------------------------------------------------


@internal("_linalg_det")
def _linalg_det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots = lu.lu_factor_ex(A)[:2]
    return systems.det(A), factors, pivots


@internal("_linalg_slogdet")
def _linalg_slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factors, pivots = lu.lu_factor_ex(A)[:2]
    return (*systems.slogdet(A), factors, pivots)


@internal("_linalg_solve_ex")
def _linalg_solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    result, info = systems.solve_ex(A, B, left=left, check_errors=check_errors)
    factors, pivots = lu.lu_factor_ex(A if left else A.mT)[:2]
    return result, factors, pivots, info


@internal("_linalg_eigh")
def _linalg_eigh(A: Tensor, UPLO: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    if compute_v:
        values, vectors = spectra.eigh(A, UPLO)
        return values, vectors
    return spectra.eigvalsh(A, UPLO), A.new_empty((0,))


@internal("_linalg_eigvals")
def _linalg_eigvals(self: Tensor) -> Tensor:
    return spectra.eigvals(self)


@internal("_linalg_svd")
def _linalg_svd(
    A: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    if compute_uv:
        u, s, vh = spectra.svd(A, full_matrices)
        return u, s, vh
    return A.new_empty((0,)), spectra.svdvals(A), A.new_empty((0,))


@internal("_linalg_check_errors")
def _linalg_check_errors(info: Tensor, api_name: str, *, is_matrix: bool) -> None:
    if bool((info != 0).any()):
        first = int(info.reshape(-1)[info.reshape(-1) != 0][0])
        raise LinAlgError(f"{api_name}: the algorithm failed (error code: {first})")


# ---- sets ----------------------------------------------------------------------------------------


def _all_of_unique(found: Any, return_inverse: bool, return_counts: bool, like: Tensor) -> Any:
    """Values, places and counts, empty where they were not asked for."""
    parts = list(found) if isinstance(found, tuple) else [found]
    values = parts.pop(0)
    none = lambda: like.new_empty((0,), dtype=int64)
    inverse = parts.pop(0) if return_inverse else none()
    return values, inverse, parts.pop(0) if return_counts else none()


@internal("_unique")
def _unique(
    self: Tensor, sorted: bool = True, return_inverse: bool = False
) -> tuple[Tensor, Tensor]:
    return _unique2(self, sorted, return_inverse)[:2]


@internal("_unique2")
def _unique2(
    self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    found = unique(self, sorted, return_inverse, return_counts)
    return _all_of_unique(found, return_inverse, return_counts, self)


@internal("unique_dim")
def _unique_dim(
    self: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:  # fmt: skip
    """Slices along a dim: places and counts come in any case, as in PyTorch."""
    return unique(self, sorted, True, True, dim)


@internal("unique_dim_consecutive")
def _unique_dim_consecutive(
    self: Tensor, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    return unique_consecutive(self, True, True, dim)


@internal("unique_consecutive")
def _unique_consecutive(
    self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    if dim is not None and (dim != 0 or self.ndim != 1):
        return _unique_dim_consecutive(self, dim)
    found = unique_consecutive(self, return_inverse, return_counts)
    return _all_of_unique(found, return_inverse, return_counts, self)


@internal("repeat_interleave.Tensor")
def _repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """The place of each repeated element."""
    places = arange(repeats.shape[0], device=repeats.device, dtype=repeats.dtype)
    return repeat_interleave(places, repeats, output_size=output_size)


# ---- histograms, distances -----------------------------------------------------------------------


@internal("_histogramdd_bin_edges")
def _histogramdd_bin_edges(
    self: Tensor, bins: Sequence[int], *, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> list[Tensor]:  # fmt: skip
    found = histogramdd(self, list(bins), range=range, weight=weight, density=density)
    return list(found.bin_edges)


@internal("_histogramdd_from_bin_cts")
def _histogramdd_from_counts(
    self: Tensor, bins: Sequence[int], *, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:  # fmt: skip
    found = histogramdd(self, list(bins), range=range, weight=weight, density=density)
    return found.hist


@internal("_histogramdd_from_bin_tensors")
def _histogramdd_from_edges(
    self: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: bool = False
) -> Tensor:
    return histogramdd(self, list(bins), weight=weight, density=density).hist


@internal("_cdist_forward")
def _cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    words = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
             "donot_use_mm_for_euclid_dist")  # fmt: skip
    return distance.cdist(x1, x2, p, words[compute_mode or 0])


@internal("_cdist_backward")
def _cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    (found,) = vjp(lambda x: _cdist_forward(x, x2, p, 2), (x1,), grad)
    return found  # type: ignore[return-value]


@internal("_euclidean_dist")
def _euclidean_dist(x1: Tensor, x2: Tensor) -> Tensor:
    return _cdist_forward(x1, x2, 2.0, 1)


@internal("_pdist_forward")
def _pdist_forward(self: Tensor, p: float = 2.0) -> Tensor:
    return distance.pdist(self, p)


@internal("_pdist_backward")
def _pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    (found,) = vjp(lambda x: distance.pdist(x, p), (self,), grad)
    return found  # type: ignore[return-value]


@internal("_trilinear")
def _trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: Sequence[int], expand2: Sequence[int],
    expand3: Sequence[int], sumdim: Sequence[int], unroll_dim: int = 1,
) -> Tensor:  # fmt: skip
    """The product of three tensors with dims of one put in, summed over dims."""

    def expanded(x: Tensor, dims: Sequence[int]) -> Tensor:
        for dim in sorted(dims):
            x = x.unsqueeze(dim)
        return x

    whole = expanded(i1, expand1) * expanded(i2, expand2) * expanded(i3, expand3)
    return whole.sum(tuple(sumdim)) if sumdim else whole


# ---- parts, indices ------------------------------------------------------------------------------


@internal("slice.Tensor")
def _slice(
    self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    return self[(slice(None),) * (dim % self.ndim) + (slice(start, _end(end), step),)]


def _end(end: Any) -> Any:
    return None if isinstance(end, int) and end >= 2**63 - 1 else end


@internal("slice_backward")
def _slice_backward(
    grad_output: Tensor, input_sizes: Any, dim: int, start: int, end: int, step: int
) -> Tensor:
    zeros = grad_output.new_zeros(tuple(input_sizes))
    return slice_scatter(zeros, grad_output, dim, start, _end(end), step)


@internal("_unsafe_masked_index")
def _unsafe_masked_index(self: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    places = tuple(slice(None) if i is None else i for i in _clamped(self, indices))
    return self[places].masked_fill(~mask, fill)


def _clamped(self: Tensor, indices: Any) -> list[Any]:
    """Indices brought into range: what is masked off may point anywhere."""
    return [None if i is None else i.clamp(-size, size - 1) for i, size in zip(indices, self.shape)]


@internal("_unsafe_masked_index_put_accumulate")
def _unsafe_masked_index_put(self: Tensor, mask: Tensor, indices: Any, values: Tensor) -> Tensor:
    return INTERNAL["index_put"](self, _clamped(self, indices), values.masked_fill(~mask, 0), True)


@internal("masked_scatter_backward")
def _masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: Any) -> Tensor:
    """The gradients that the mask lets through, one after the other, then zeros."""
    taken = grad_output.masked_select(mask)
    whole = grad_output.new_zeros(tuple(sizes)).reshape(-1)
    return cat([taken, whole[taken.shape[0] :]]).reshape(tuple(sizes))


@internal("_chunk_cat")
def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """Each tensor in chunks along a dim, padded by zeros, flattened behind it, side by side."""
    rows = []
    for x in tensors:
        at = wrap_dim(dim, x.ndim)
        size = -(-x.shape[at] // num_chunks)
        missing = (*x.shape[:at], size * num_chunks - x.shape[at], *x.shape[at + 1 :])
        whole = cat([x, x.new_zeros(missing)], at)
        rows.append(whole.reshape(*x.shape[:at], num_chunks, -1))
    return cat(rows, -1)


@internal("block_diag")
def _block_diag(tensors: Sequence[Tensor]) -> Tensor:
    return block_diag(*tensors)


@internal("_conj")
def _conj(self: Tensor) -> Tensor:
    return conj(self)


@internal("_conj_physical")
def _conj_physical(self: Tensor) -> Tensor:
    return conj_physical(self)


@internal("_efficientzerotensor")
def _efficientzerotensor(
    size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    return factory.zeros(tuple(size), dtype=dtype, device=device)


def _triangle(name: str) -> None:
    def indices(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: Any = None,
    ) -> Tensor:  # fmt: skip
        return PUBLIC[name](row, col, offset, dtype=dtype or int64, device=device or "cpu")

    internal(name)(indices)


for _name in ("tril_indices", "triu_indices"):
    _triangle(_name)


@internal("_segment_reduce_backward")
def _segment_reduce_backward(
    grad: Tensor, output: Tensor, data: Tensor, reduce: str, *, lengths: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, initial: Any = None,
) -> Tensor:  # fmt: skip
    forward = lambda x: segment_reduce(
        x, reduce, lengths=lengths, offsets=offsets, axis=axis, initial=initial, unsafe=True
    )
    (found,) = vjp(forward, (data,), grad)
    return found  # type: ignore[return-value]


# ---- products of float8 --------------------------------------------------------------------------


@internal("_scaled_mm")
def _scaled_mm(
    self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None,
    scale_result: Tensor | None = None, out_dtype: Any = None, use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """nn.functional.scaled_mm with one scale for a matrix, or one for each row and column."""
    kind = ScalingType.TensorWise if scale_a.numel() == 1 else ScalingType.RowWise
    return scaled_mm(
        self, mat2, scale_a, kind, scale_b, kind, bias=bias,
        output_dtype=self.dtype if out_dtype is None else out_dtype, use_fast_accum=use_fast_accum,
    )  # fmt: skip


@internal("_scaled_mm_v2")
def _scaled_mm_v2(
    self: Tensor, mat2: Tensor, scale_a: Any, recipe_a: Any, swizzle_a: Any, scale_b: Any,
    recipe_b: Any, swizzle_b: Any, bias: Tensor | None, out_dtype: Any, contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    return scaled_mm(
        self, mat2, scale_a, recipe_a, scale_b, recipe_b, swizzle_a or None, swizzle_b or None,
        bias, out_dtype, contraction_dim, use_fast_accum,
    )  # fmt: skip
