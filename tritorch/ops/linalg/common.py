"""What linear algebra shares: publishing its functions, checks of matrices, errors by info."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch.core.promotion import not_implemented, scalar_name
from tritorch.core.published import AUTOCAST, PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.host.linalg.linalg import LinAlgError, element
from tritorch.ops.record.backends import composed_backend
from tritorch.ops.record.checks import (
    broadcast_shapes,
    looks_at_values,
    on_host,
    require_tensor,
    values,
)
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.publishing import with_out
from tritorch.ops.reduce.reduction import named_results
from tritorch.ops.shape import ranges

__all__ = ["LINALG", "LinAlgError", "factorisation", "linalg", "named_results"]

LINALG: dict[str, Callable[..., Any]] = {}  # tritorch.linalg.<name>


def linalg(*, out: bool = True, also: Sequence[str] = (), torch: Sequence[str] = ()) -> Any:
    """Publishes linalg.<name>; also: names at the top level and methods; torch: no methods."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        exposed = with_out(function) if out else function
        LINALG[function.__name__] = exposed
        for name in (*also, *torch):
            PUBLIC[name] = exposed
            if function.__name__ in AUTOCAST:
                AUTOCAST[name] = AUTOCAST[function.__name__]
        for name in also:
            setattr(Tensor, name, function)
        return exposed

    return decorate


def factorisation(
    name: str, inputs: str, params: str = "", by: Callable[..., Any] | None = None, **options: Any
) -> Operator:
    """A record over batches of matrices: `interpret/vmap.py` gives it one more batch dim.

    All its inputs have the same batch dims.  by: it computes by other operators, on both devices.
    """
    if by is not None:
        options["cpu"] = options["gpu"] = composed_backend(by)
    return Operator(name, inputs, params, kind="linalg", **options)


# ---- checks --------------------------------------------------------------------------------------


def require_float(name: str, x: Tensor, kernel: str = "") -> None:
    """Refuses what has no decomposition: integers, half precision; kernel: where PyTorch finds out
    about half precision."""
    if not x.is_floating_point() and not x.is_complex():
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{scalar_name(x.dtype)}"
        )
    if x.dtype.itemsize < 4 and kernel:
        raise not_implemented(kernel, x.dtype)
    if x.dtype.itemsize < 4:
        raise RuntimeError(
            f"{name}: Low precision dtypes not supported. Got {scalar_name(x.dtype)}"
        )


def require_matrix(name: str, x: Tensor, square: bool = False, argument: str = "A") -> None:
    """At least two dims; square: of one size."""
    if not isinstance(x, Tensor):
        require_tensor(x, name.removeprefix("torch.").replace(".", "_"), argument, 1)
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    if square and x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {x.shape[-2]} by "
            f"{x.shape[-1]} matrices"
        )


def require_square(name: str, x: Tensor) -> None:
    """Batches of square matrices of floats."""
    require_matrix(name, x, True)
    require_float(name, x)


def require_system(name: str, A: Tensor, B: Tensor, left: bool = True) -> None:
    """Shapes that fit A X = B (left) or X A = B."""
    require_matrix(name, A, True)
    require_matrix(name, B, argument="B")
    if A.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({A.shape[-2]}x{A.shape[-1]} and "
            f"{B.shape[-2]}x{B.shape[-1]})"
        )


def require_solvable(name: str, b: Tensor, A: Tensor) -> None:
    """What the older solvers ask for."""
    if b.dtype is not A.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {scalar_name(b.dtype)} "
            f"and A of type {scalar_name(A.dtype)} instead."
        )
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} "
            f"matrices"
        )
    if A.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {A.shape[-1]} by "
            f"{A.shape[-1]} but each b matrix is {b.shape[-2]} by {b.shape[-1]}"
        )


def require_computable(kernel: str, x: Tensor) -> None:
    """The complaint of kernels that check nothing themselves."""
    if not (x.is_floating_point() or x.is_complex()) or x.dtype.itemsize < 4:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(x.dtype)}'")


def with_batch(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Matrices, expanded to the batch dims that all broadcast to."""
    batch = broadcast_shapes(*(x.shape[:-2] for x in tensors))
    return tuple(x if x.shape[:-2] == batch else x.expand(*batch, *x.shape[-2:]) for x in tensors)


def eye_like(x: Tensor, n: int | None = None) -> Tensor:
    """The identity of a matrix's size and kind."""
    n = x.shape[-1] if n is None else n
    eye: Tensor = ranges.eye(n, dtype=x.dtype, device=x.device)
    return eye


# ---- errors --------------------------------------------------------------------------------------


def check_info(name: str, info: Tensor, text: str, error: type = LinAlgError) -> None:
    """Raises for the first matrix whose info is not 0; text may name {info}."""
    values(_require_no_info, (info,), name, text, error)


@looks_at_values
def _require_no_info(info: Any, name: str, text: str, error: type) -> None:
    found = on_host(info)
    if found.any():
        first = found.ravel()[(found != 0).argmax()]
        raise error(f"{name}: {element(found != 0)}{text.format(info=abs(int(first)))}")


SINGULAR_INVERSE = (
    "The diagonal element {info} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)
SINGULAR_SYSTEM = "The solver failed because the input matrix is singular."
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {info} is not positive-definite)."
)


def require_phase_free(name: str, imaginary: Tensor) -> None:
    """Refuses gradients of what depends on the phase of complex eigenvectors."""
    values(_require_no_phase, (imaginary.detach(),), name)


@looks_at_values
def _require_no_phase(imaginary: Any, name: str) -> None:
    if (abs(on_host(imaginary)) > 1e-2).any():
        raise RuntimeError(
            f"{name}: The singular vectors in the complex case are specified up to multiplication "
            f"by e^{{i phi}}. The specified loss function depends on this phase term, making it "
            f"ill-defined."
            if name == "svd_backward"
            else f"{name}: The eigenvectors in the complex case are specified up to multiplication "
            f"by e^{{i phi}}. The specified loss function depends on this phase term, making it "
            f"ill-defined."
        )
