"""Sparse tensors from indices and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.sparse import BLOCKED, BY_ROW, COMPRESSED, SHOWN, SparseArray
from tritorch.core import defaults, layout as layouts, published
from tritorch.core.dtype import dtype, int64
from tritorch.core.layout import layout
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse import invariants
from tritorch.ops.interpret.sparse.record import coo, filled, warn_of_compressed
from tritorch.ops.record.checks import sizes
from tritorch.ops.record.publishing import public


def wrap(array: SparseArray, requires_grad: bool = False) -> Tensor:
    """A tensor without history."""
    return _C.wrap(array).requires_grad_(requires_grad)


def _as_values(data: Any, kind: dtype | None, device: Any) -> Tensor:
    if isinstance(data, Tensor):
        return data.to(device=device or data.device, dtype=kind or data.dtype)
    return published.public.tensor(data, dtype=kind, device=device)


def _as_indices(data: Any, like: Tensor, kind: dtype | None = None) -> Tensor:
    made = data if isinstance(data, Tensor) else published.public.tensor(data)
    made = made.detach()
    if not isinstance(data, Tensor) and not made.numel():
        made = made.to(int64)
    return made.to(device=like.device, dtype=kind or made.dtype)


def _finish(made: Tensor, requires_grad: bool) -> Tensor:
    return made.detach().requires_grad_(True) if requires_grad else made


def _wants_check(check_invariants: bool | None) -> bool:
    if check_invariants is None:
        defaults.warn_once(
            "Sparse invariant checks are implicitly disabled. Memory errors (e.g. SEGFAULT) will "
            "occur when operating on a sparse tensor which violates the invariants, but checks "
            "incur performance overhead. To silence this warning, explicitly opt in or out. See "
            "`torch.sparse.check_sparse_tensor_invariants.__doc__` for guidance. ",
            stacklevel=4,
        )
        return invariants.check_sparse_tensor_invariants.is_enabled()
    return check_invariants


_MISSING: Any = object()


@public(method=False)
def sparse_coo_tensor(
    indices: Any = _MISSING, values: Any = _MISSING, size: Any = None, *,
    dtype: dtype | None = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:  # fmt: skip
    """A COO tensor: `values[k]` at the place `indices[:, k]`; what occurs twice is added."""
    if values is _MISSING:
        shape = size if indices is _MISSING else indices
        if shape is None:
            raise TypeError(
                "sparse_coo_tensor() received an invalid combination of arguments - got ()"
            )
        for i, n in enumerate(shape):
            if not hasattr(n, "__index__"):
                raise TypeError(
                    f"sparse_coo_tensor(): argument 'size' (position 1) must be tuple of ints, but "
                    f"found element of type {type(n).__name__} at pos {i}"
                )
        return empty(sizes((shape,)), layouts.sparse_coo, dtype, device, requires_grad)
    entries = _as_values(values, dtype, device)
    if entries.ndim == 0:
        entries = entries.reshape(1)
    places = _as_indices(indices, entries, int64)
    if places.ndim != 2 and size is None:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    shape = _infer(places, entries) if size is None else sizes((size,))
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(shape)}")
    invariants.check_coo(places, entries, shape)
    if _wants_check(check_invariants):
        invariants.check_places(places, shape, is_coalesced)
    return _finish(coo(places, entries, shape, bool(is_coalesced)), requires_grad)


def _infer(places: Tensor, entries: Tensor) -> tuple[int, ...]:
    """The smallest shape that all indices fit into."""
    if places.shape[1]:
        for dim, least in enumerate(places.amin(1).tolist()):
            if least < 0:
                raise RuntimeError(f"found negative index {least} for dim {dim}")
        found = [most + 1 for most in places.amax(1).tolist()]
    else:
        found = [0] * places.shape[0]
    return (*found, *entries.shape[1:])


def empty(
    shape: Sequence[int],
    kind: layout,
    dtype: dtype | None,
    device: Any,
    requires_grad: bool = False,
) -> Tensor:
    """A sparse tensor without entries."""
    zeros, shape = published.public.zeros, tuple(shape)
    if kind is layouts.sparse_coo:
        indices = zeros((len(shape), 0), dtype=int64, device=device)
        values = zeros((0,), dtype=dtype, device=device)
        return wrap(SparseArray(kind, shape, indices, values, None, True), requires_grad)
    if kind in BLOCKED:
        raise RuntimeError(
            f"Only tensors of the layouts COO, CSR and CSC can be made without entries, not of "
            f"{SHOWN[kind]}: the size of blocks is not known"
        )
    if len(shape) < 2:
        raise RuntimeError(
            f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but "
            f"got size {list(shape)}"
        )
    batch = shape[:-2]
    n = shape[-2] if kind in BY_ROW else shape[-1]
    indices = zeros((*batch, n + 1), dtype=int64, device=device)
    plain = zeros((*batch, 0), dtype=int64, device=device)
    values = zeros((*batch, 0), dtype=dtype, device=device)
    return wrap(SparseArray(kind, shape, indices, values, plain), requires_grad)


def compressed(
    name: str, kind: Any, compressed_indices: Any, plain_indices: Any, values: Any, size: Any,
    dtype: dtype | None, device: Any, requires_grad: bool, check_invariants: bool | None,
) -> Tensor:  # fmt: skip
    """A tensor of a compressed layout."""
    if kind not in COMPRESSED:
        found = "none" if kind is None else SHOWN[kind]
        raise RuntimeError(f"{name} expected sparse compressed tensor layout but got {found}")
    checks = _wants_check(check_invariants)
    warn_of_compressed(kind)
    entries = _as_values(values, dtype, device)
    first = _as_indices(compressed_indices, entries)
    plain = _as_indices(plain_indices, entries)
    c_name, p_name, _, _ = invariants.names_of(kind)
    for indices, which in ((first, c_name), (plain, p_name)):
        if indices.ndim < 1:
            raise RuntimeError(f"{which} must have dimensionality >= 1 but got {indices.ndim}")
    shape = _infer_compressed(kind, first, plain, entries) if size is None else sizes((size,))
    if checks:
        invariants.check_compressed(kind, first, plain, entries, shape)
    pattern = SparseArray(kind, shape, first, entries.detach(), plain)
    return _finish(filled(pattern, entries), requires_grad)


def _infer_compressed(
    kind: layout, first: Tensor, plain: Tensor, entries: Tensor
) -> tuple[int, ...]:
    batch = first.ndim - 1
    skip = batch + 1
    block = tuple(entries.shape[skip : skip + 2]) if kind in BLOCKED else (1, 1)
    dense = entries.shape[skip + 2 :] if kind in BLOCKED else entries.shape[skip:]
    n_major = first.shape[-1] - 1
    n_minor = int(plain.max()) + 1 if plain.numel() else 0
    rows, cols = (n_major, n_minor) if kind in BY_ROW else (n_minor, n_major)
    return (*first.shape[:-1], rows * block[0], cols * block[1], *dense)


@public(method=False)
def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    dtype: dtype | None = None, layout: layout | None = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of a compressed layout: CSR, CSC, BSR or BSC."""
    return compressed(
        "sparse_compressed_tensor", layout, compressed_indices, plain_indices, values, size, dtype,
        device, requires_grad, check_invariants,
    )  # fmt: skip


def _constructor(kind: layout, doc: str) -> None:
    name = f"{kind.name}_tensor"

    def function(
        indices: Any, plain: Any, values: Any, size: Any = None, *, dtype: Any = None,
        layout: Any = None, device: Any = None, pin_memory: bool = False,
        requires_grad: bool = False, check_invariants: bool | None = None,
    ) -> Tensor:  # fmt: skip
        if layout is not None and layout is not kind:
            raise RuntimeError(f"{name}: layout must be {SHOWN[kind]} but got {SHOWN[layout]}")
        return compressed(
            name, kind, indices, plain, values, size, dtype, device, requires_grad,
            check_invariants,
        )  # fmt: skip

    first, second, _, _ = invariants.names_of(kind)

    def named(*args: Any, **kwargs: Any) -> Tensor:
        for own, theirs in (("indices", first), ("plain", second)):
            if theirs in kwargs:
                kwargs[own] = kwargs.pop(theirs)
        if len(args) + ("indices" in kwargs) + ("plain" in kwargs) + ("values" in kwargs) < 3:
            kinds = ", ".join(type(arg).__name__ for arg in args)
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got ({kinds})"
            )
        return function(*args, **kwargs)

    named.__name__ = named.__qualname__ = name
    named.__doc__ = doc
    PUBLIC[name] = named


_constructor(layouts.sparse_csr, "A CSR tensor: entries by rows, each with its column.")
_constructor(layouts.sparse_csc, "A CSC tensor: entries by columns, each with its row.")
_constructor(layouts.sparse_bsr, "A BSR tensor: dense blocks by rows, each with its column.")
_constructor(layouts.sparse_bsc, "A BSC tensor: dense blocks by columns, each with its row.")


# torch's own wrappers and checkpoints use these.
def _unsafe(*args: Any, **kwargs: Any) -> Tensor:
    kwargs.setdefault("check_invariants", False)
    return sparse_coo_tensor(*args, **kwargs)


_unsafe.__name__ = _unsafe.__qualname__ = "_sparse_coo_tensor_unsafe"
_unsafe.__doc__ = "sparse_coo_tensor, with no look at the indices."
PUBLIC["_sparse_coo_tensor_unsafe"] = _unsafe


def validate_coo(
    indices: Tensor, values: Tensor, size: Any, is_coalesced: bool | None = None
) -> None:
    """Raises unless these make a COO tensor."""
    invariants.check_coo(indices, values, size)
    invariants.check_places(indices, size, is_coalesced)


def validate_compressed(
    compressed_indices: Tensor, plain_indices: Tensor, values: Tensor, size: Any, layout: layout
) -> None:
    """Raises unless these make a tensor of a compressed layout."""
    invariants.check_compressed(layout, compressed_indices, plain_indices, values, size)


validate_coo.__name__ = "_validate_sparse_coo_tensor_args"
validate_compressed.__name__ = "_validate_sparse_compressed_tensor_args"
for _function in (validate_coo, validate_compressed):
    _function.__qualname__ = _function.__name__
    PUBLIC[_function.__name__] = _function
