"""gradcheck and gradgradcheck: analytical gradients against finite differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core.tensor import Tensor


class GradcheckError(RuntimeError):
    """A gradient is not what the differences say."""


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _differentiable(values: Any) -> list[Tensor]:
    return [
        v for v in values if isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex())
    ]


def _call(func: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Tensor]:
    return _differentiable(_as_tuple(func(*inputs)))


def _numerical(
    func: Callable[..., Any], inputs: tuple[Any, ...], x: Tensor, eps: float
) -> list[np.ndarray[Any, Any]]:
    """For each output, d(out)/d(x) by central differences: (numel x, numel out).

    For complex x the two directions are combined by PyTorch's convention.
    """
    array = x._array
    on_host = type(array) is np.ndarray
    columns: list[list[np.ndarray[Any, Any]]] = []
    values = array if on_host else None

    def evaluate() -> list[np.ndarray[Any, Any]]:
        before = _C.set_grad_enabled(False)
        try:
            outs = _call(func, inputs)
            return [np.array(out.detach().cpu()._array).reshape(-1) for out in outs]
        finally:
            _C.set_grad_enabled(before)

    def write(index: Any, value: Any) -> None:
        if values is not None:
            values[index] = value
        else:
            x.detach()[index]._array.fill_(value)  # unseen by the version counter

    shape = tuple(x.shape)
    for index in itertools.product(*(range(n) for n in shape)):
        original = values[index] if values is not None else x.detach()[index].item()
        original = original.item() if hasattr(original, "item") else original

        def difference(
            step: Any, index: Any = index, original: Any = original
        ) -> list[np.ndarray[Any, Any]]:
            write(index, original + step)
            above = evaluate()
            write(index, original - step)
            below = evaluate()
            write(index, original)
            return [(a - b) / (2 * eps) for a, b in zip(above, below)]

        along_real = difference(eps)
        if x.is_complex():
            along_imag = difference(eps * 1j)
            columns.append([np.stack([r, i]) for r, i in zip(along_real, along_imag)])
        else:
            columns.append(along_real)
    n_out = len(columns[0]) if columns else 0
    return [np.stack([column[k] for column in columns]) for k in range(n_out)]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether backward's gradients agree with finite differences."""
    try:
        _check(func, _as_tuple(inputs), eps, atol, rtol, check_forward_ad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(
    func: Any, inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, forward: bool
) -> None:
    wanted = [x for x in inputs if isinstance(x, Tensor) and x._requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the "
            "them have requires_grad=True."
        )
    outs = _call(func, inputs)
    if any(out._requires_grad for out in outs):
        jacobians = [_numerical(func, inputs, x, eps) if x.numel() else [] for x in wanted]
        for k, out in enumerate(outs):
            if out._requires_grad:
                expected = [jacobian[k] if jacobian else None for jacobian in jacobians]
                _check_backward(k, out, wanted, expected, atol, rtol)
    if forward:
        _check_forward(func, inputs, wanted, eps, atol, rtol)


def _check_backward(
    k: int, out: Tensor, wanted: list[Tensor], expected: list[Any], atol: float, rtol: float
) -> None:
    """Compares the gradients of each element of output k with the differences."""
    from tritorch.autograd import grad

    numel = out.numel()
    kind = out.dtype.numpy if out.is_cuda else out._array.dtype
    for j, unit in itertools.product(range(numel), (1.0, 1.0j) if out.is_complex() else (1.0,)):
        seed = np.zeros(numel, kind)
        seed[j] = unit
        g = out.new_tensor(seed).reshape(out.shape)
        gradients = grad(out, wanted, g, retain_graph=True, allow_unused=True)
        for position, (x, jacobian, found) in enumerate(zip(wanted, expected, gradients)):
            if jacobian is None:
                continue
            have = (
                np.zeros(x.numel())
                if found is None
                else np.asarray(found.detach().cpu()._array).reshape(-1)
            )
            want = _pulled(jacobian, j, unit, x.is_complex())
            if not np.allclose(have, want, rtol=rtol, atol=atol, equal_nan=True):
                raise GradcheckError(
                    f"Jacobian mismatch for output {k} with respect to input {position},\n"
                    f"numerical:{want}\nanalytical:{have}\n"
                )


def _pulled(expected: Any, j: int, unit: Any, is_complex: bool) -> Any:
    """What the gradient for the cotangent `unit` at output j must be.

    The gradient is dL/da + i dL/db of L = Re(conj(unit) * out).
    """
    if is_complex:
        along_real, along_imag = expected[:, 0, j], expected[:, 1, j]
        return np.real(np.conj(unit) * along_real) + 1j * np.real(np.conj(unit) * along_imag)
    return np.real(np.conj(unit) * expected[:, j])


def _check_forward(
    func: Any, inputs: tuple[Any, ...], wanted: list[Tensor], eps: float, atol: float, rtol: float
) -> None:
    from tritorch.autograd import forward_ad

    for x in wanted:
        if x.is_complex() or not x.numel():
            continue
        columns = _numerical(func, inputs, x, eps)
        for i in range(x.numel()):
            seed = np.zeros(x.numel())
            seed[i] = 1
            tangent = x.detach().new_tensor(seed).reshape(x.shape)
            with forward_ad.dual_level():
                dual = [forward_ad.make_dual(y.detach(), tangent) if y is x else y for y in inputs]
                outs = _call(func, tuple(dual))
                moved = [forward_ad.unpack_dual(out).tangent for out in outs]
            for k, t in enumerate(moved):
                have = (
                    np.zeros(outs[k].numel())
                    if t is None
                    else np.asarray(t.detach().cpu()._array).reshape(-1)
                )
                if not np.allclose(have, columns[k][i], rtol=rtol, atol=atol, equal_nan=True):
                    raise GradcheckError(
                        "Forward mode Jacobian mismatch for output "
                        f"{k},\nnumerical:{columns[k][i]}\nanalytical:{have}\n"
                    )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the gradients of gradients agree with finite differences."""
    from tritorch.autograd import grad

    inputs = _as_tuple(inputs)
    outs = [out for out in _call(func, inputs) if out._requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        grad_outputs = []
        for out in outs:
            values = rng.standard_normal(tuple(out.shape))
            if out.is_complex():
                values = values + 1j * rng.standard_normal(tuple(out.shape))
            grad_outputs.append(out.detach().new_tensor(values).requires_grad_(True))
    given = _as_tuple(grad_outputs)
    count = len(inputs)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x._requires_grad]

    def gradients(*args: Any) -> Any:
        before = _C.set_grad_enabled(True)
        try:
            values = [
                a
                if not isinstance(a, Tensor) or a._requires_grad or i not in wanted
                else a.detach().requires_grad_(True)
                for i, a in enumerate(args[:count])
            ]
            results = [out for out in _call(func, tuple(values)) if out._requires_grad]
            found = grad(results, [values[i] for i in wanted], args[count:], create_graph=True,
                         allow_unused=True)  # fmt: skip
        finally:
            _C.set_grad_enabled(before)
        return tuple(g for g in found if g is not None and g._requires_grad)

    if not gradients(*inputs, *given):
        return True
    return gradcheck(gradients, (*inputs, *given), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception)  # fmt: skip
