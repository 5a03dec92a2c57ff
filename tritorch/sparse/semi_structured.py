"""2:4 sparsity: of four neighbours in a row at most two are kept (of two, one, for float32).

Kept are the values and, for each, its place among its neighbours.  Products unpack them and are
dense: no kernel here uses the tensor cores' sparse products.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from tritorch.core import dtype as dtypes, scopes
from tritorch.core.tensor import Tensor, make_subclass
from tritorch.ops.shape.factory import zeros


class _Config(NamedTuple):
    sparse_min_rows: int
    sparse_min_cols: int
    dense_min_rows: int
    dense_min_cols: int


class SparseSemiStructuredTensor(Tensor):
    """A matrix whose rows have at most two of four neighbours: `packed` values and their places."""

    _DEFAULT_ALG_ID = 0
    _FORCE_CUTLASS = False
    _FUSE_TRANSPOSE = False
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[dict[Any, _Config]]
    BACKEND: str

    packed: Any
    meta: Any
    packed_t: Any
    meta_t: Any
    compressed_swizzled_bitmask: Any
    fuse_transpose_cusparselt: bool
    alg_id_cusparselt: int

    @staticmethod
    def __new__(
        cls: Any, shape: Any, packed: Any, meta: Any, packed_t: Any, meta_t: Any,
        compressed_swizzled_bitmask: Any = None, fuse_transpose_cusparselt: bool = False,
        alg_id_cusparselt: int = 0, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        kept = packed if packed is not None else packed_t
        if kept is None:
            raise ValueError("At least one of packed or packed_t must be provided")
        shell = zeros((), dtype=kept.dtype, device=kept.device).expand(tuple(shape))
        out = make_subclass(cls, shell, requires_grad)
        out.packed, out.meta, out.packed_t, out.meta_t = packed, meta, packed_t, meta_t
        out.compressed_swizzled_bitmask = compressed_swizzled_bitmask
        out.fuse_transpose_cusparselt = fuse_transpose_cusparselt
        out.alg_id_cusparselt = alg_id_cusparselt
        return out

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        return f"{type(self).__name__}(shape={self.shape})"

    # ---- packing ---------------------------------------------------------------------------------

    @classmethod
    def _validate_device_dim_dtype_shape(cls, original_tensor: Tensor) -> None:
        if not original_tensor.is_cuda:
            raise RuntimeError(
                f"Error original_tensor.device= {original_tensor.device} is not supported! Only "
                f"CUDA tensors are currently supported."
            )
        if original_tensor.dim() != 2:
            raise RuntimeError(
                f"Error original_tensor.dim = {original_tensor.dim()} is not supported! Only 2d "
                f"tensors are currently supported."
            )
        if not original_tensor.is_contiguous():
            raise RuntimeError(
                "Error original_tensor is not contiguous!Only contiguous tensors are currently "
                "supported."
            )
        if original_tensor.dtype not in cls._DTYPE_SHAPE_CONSTRAINTS:
            raise RuntimeError(
                f"Error original_tensor.dtype {original_tensor.dtype} is not a supported dtype for "
                f"{cls}!"
            )
        m, n = original_tensor.shape
        least = cls._DTYPE_SHAPE_CONSTRAINTS[original_tensor.dtype]
        if (
            m < least.sparse_min_rows
            or m % least.sparse_min_rows
            or (n < least.sparse_min_cols or n % least.sparse_min_cols)
        ):
            raise RuntimeError(
                f"Error original_tensor.shape {original_tensor.shape} is not supported! Both "
                f"dimensions must be larger or equal than and a multiple of "
                f"({least.sparse_min_rows}, {least.sparse_min_cols})"
            )

    @classmethod
    def from_dense(cls, original_tensor: Tensor) -> SparseSemiStructuredTensor:
        """Packs a matrix.  Where more neighbours are not 0, the largest are kept."""
        cls._validate_device_dim_dtype_shape(original_tensor)
        packed, meta = pack(original_tensor)
        return cls(original_tensor.shape, packed, meta, None, None,
                   requires_grad=original_tensor.requires_grad)  # fmt: skip

    def to_dense(self) -> Tensor:  # type: ignore[override]
        """The matrix with its zeros."""
        if self.packed is not None:
            return unpack(self.packed, self.meta)
        return unpack(self.packed_t, self.meta_t).t()

    def t(self) -> SparseSemiStructuredTensor:
        """The transposed matrix, on the same memory."""
        m, n = self.shape
        return type(self)((n, m), self.packed_t, self.meta_t, self.packed, self.meta,
                          requires_grad=self.requires_grad)  # fmt: skip

    def _like(self, change: Any) -> SparseSemiStructuredTensor:
        move = lambda x: None if x is None else change(x)
        return type(self)(self.shape, move(self.packed), self.meta, move(self.packed_t),
                          self.meta_t, requires_grad=False)  # fmt: skip

    # ---- functions -------------------------------------------------------------------------------

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        with scopes.as_plain:
            if name in _KEPT or name == "__get__":
                return func(*args, **kwargs)
            first = args[0] if args else None
            if isinstance(first, SparseSemiStructuredTensor):
                if name in ("detach", "clone", "detach_"):
                    return first._like(lambda x: getattr(x, name.rstrip("_"))())
                if name == "t" or (
                    name == "transpose" and sorted(d % 2 for d in args[1:]) == [0, 1]
                ):
                    return first.t()
                if name == "values":
                    return first.packed.detach()
            if name not in _PRODUCTS:
                raise NotImplementedError(
                    f"`{cls.__name__}` with `{name}` is not supported: to_dense() makes a dense "
                    f"tensor."
                )
            plain = [_dense(x) for x in args]
            return func(*plain, **{key: _dense(x) for key, x in kwargs.items()})


def _dense(x: Any) -> Any:
    return x.to_dense() if isinstance(x, SparseSemiStructuredTensor) else x


_PRODUCTS = frozenset(("linear", "mm", "matmul", "addmm", "__matmul__", "__rmatmul__", "mv", "bmm"))
_KEPT = frozenset(
    (
        "__repr__", "size", "dim", "numel", "is_contiguous", "to_dense", "requires_grad_",
        "element_size", "is_floating_point", "is_complex", "__len__", "stride", "__format__",
        "nelement", "ndimension", "get_device", "is_same_size", "__set__",
    )
)  # fmt: skip


def pack(x: Tensor) -> tuple[Tensor, Tensor]:
    """The kept values of each row, and the place of each among its neighbours (uint8)."""
    kept, group = (1, 2) if x.dtype is dtypes.float32 else (2, 4)
    m, n = x.shape
    groups = x.detach().reshape(m, n // group, group)
    sizes = groups.to(dtypes.float32).abs() if x.dtype is not dtypes.float32 else groups.abs()
    places = sizes.topk(kept, -1)[1].sort(-1)[0]
    values = groups.gather(-1, places)
    return values.reshape(m, -1), places.reshape(m, -1).to(dtypes.uint8)


def unpack(packed: Tensor, meta: Tensor) -> Tensor:
    """The matrix that `pack` was given."""
    kept, group = (1, 2) if packed.dtype is dtypes.float32 else (2, 4)
    m = packed.shape[0]
    values = packed.reshape(m, -1, kept)
    out = values.new_zeros((m, values.shape[1], group))
    return out.scatter(-1, meta.reshape(values.shape).long(), values).reshape(m, -1)


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """The shapes and dtypes that PyTorch's CUTLASS kernels take."""

    BACKEND = "cutlass"
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[dict[Any, _Config]] = {
        dtypes.int8: _Config(16, 128, 16, 16),
        dtypes.float16: _Config(32, 64, 8, 8),
        dtypes.bfloat16: _Config(32, 64, 8, 8),
        dtypes.float32: _Config(32, 32, 4, 4),
    }


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """The shapes and dtypes that PyTorch's cuSPARSELt path takes."""

    BACKEND = "cusparselt"
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[dict[Any, _Config]] = {
        dtypes.float8_e4m3fn: _Config(32, 32, 16, 16),
        dtypes.int8: _Config(32, 32, 16, 16),
        dtypes.float16: _Config(16, 16, 8, 8),
        dtypes.bfloat16: _Config(16, 16, 8, 8),
    }


def to_sparse_semi_structured(
    original_tensor: Tensor, transposed: bool = False, alg_id: int = 0
) -> SparseSemiStructuredTensor:
    """A dense matrix in 2:4 form: rows keep two of every four neighbours.

    Its products (linear, mm, addmm, matmul) are computed with the unpacked matrix.
    """
    if transposed:
        raise DeprecationWarning(
            "Setting transpose from `to_sparse_semi_structured` is deprecated and will be removed "
            "in a future release. `SparseSemiStructuredTensor` only support contiguous input "
            "tensors."
        )
    force = SparseSemiStructuredTensor._FORCE_CUTLASS
    fits = original_tensor.dtype in SparseSemiStructuredTensorCUSPARSELT._DTYPE_SHAPE_CONSTRAINTS
    kind = (
        SparseSemiStructuredTensorCUTLASS
        if force or not fits
        else (SparseSemiStructuredTensorCUSPARSELT)
    )
    return kind.from_dense(original_tensor)
