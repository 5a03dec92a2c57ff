"""gradcheck and gradgradcheck: gradients and tangents against finite differences.

A Jacobian is an ndarray of (elements of the input, elements of the output). Of a complex input two
are taken, along its real and its imaginary part; complex outputs are two real functions in backward
mode, complex inputs two real functions in forward mode, as in PyTorch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tritorch import _C
from tritorch.autograd import forward_ad
from tritorch.autograd.function import BackwardCFunction, Function
from tritorch.autograd.grad_mode import enable_grad
from tritorch.core import late_bound, layout, published
from tritorch.core.dispatching import dispatches
from tritorch.core.generator import Generator
from tritorch.core.tensor import Tensor

Array = np.ndarray[Any, Any]


class GradcheckError(RuntimeError):
    """A gradient is not what the differences say."""


class _Options(NamedTuple):
    eps: float
    rtol: float
    atol: float
    nondet_tol: float
    dtypes: bool
    masked: bool | None


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _wanted(values: Any) -> list[Tensor]:
    """Those whose gradients are asked for; of outputs, those that have a gradient."""
    return [v for v in values if isinstance(v, Tensor) and v.requires_grad]


def _flat(tensor: Tensor) -> Array:
    if dispatches(type(tensor)):  # its class alone knows where the values are
        values = [x.item() for x in tensor.detach().reshape(-1)]
        return np.array(values, getattr(tensor.dtype, "numpy", None))
    return np.array(tensor.detach().cpu().contiguous()._array).reshape(-1)


def _shown(array: Any) -> Tensor:
    """As a tensor, for messages."""
    tensor: Tensor = published.public.tensor(array)
    return tensor


# ---- differences ---------------------------------------------------------------------------------


def _differences(
    func: Callable[..., Any],
    inputs: tuple[Any, ...],
    move: Callable[[int], None],
    eps: float,
    index: Any = None,
) -> list[Array]:
    """Of each output, how it changes by eps; `move` puts an input below, above, and back."""
    sides = []
    for side in (-1, 1):
        move(side)
        outs = [out for out in _as_tuple(func(*inputs)) if isinstance(out, Tensor)]
        sides.append([(out.shape, out.dtype, _flat(out)) for out in outs])
        move(0)
    for lower, upper in zip(*sides):
        for what, one, other in zip(("shape", "dtype"), lower, upper):
            if one != other:
                where = "" if index is None else f"on index {index} "
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are "
                    f"perturbed {where}by {eps}, but got: {what}s {one} and {other}."
                )
    return [_slope(above[2], below[2], eps) for below, above in zip(*sides)]


@_C.Quiet
def _slope(above: Array, below: Array, eps: float) -> Any:
    return (above - below) / (2 * eps)


def _along(
    func: Callable[..., Any], inputs: tuple[Any, ...], x: Tensor, steps: tuple[Any, ...], eps: float
) -> list[tuple[Array, ...]]:
    """Of each output, its differences along steps of all of x."""
    original = x.detach().clone()

    def mover(step: Tensor) -> Callable[[int], None]:
        def move(side: int) -> None:
            x.data.copy_(original + step * side if side else original)

        return move

    return list(zip(*(_differences(func, inputs, mover(step), eps) for step in steps)))


def _numerical(
    func: Callable[..., Any], inputs: tuple[Any, ...], x: Tensor, eps: float, count: int
) -> list[tuple[Array, ...]]:
    """Of each output, the Jacobians along the parts of x."""
    rows = []
    array, host = x._array, type(x._array) is np.ndarray

    def mover(index: Any, original: Any, step: Any) -> Callable[[int], None]:
        def move(side: int) -> None:  # unseen by the version counter
            value = original + side * step
            if host:
                array[index] = value
            else:
                x.data[index] = value

        return move

    for index in np.ndindex(tuple(x.shape)):
        original = array[index].item() if host else x.detach()[index].item()
        steps = (eps, eps * 1j) if x.is_complex() else (eps,)
        parts = [_differences(func, inputs, mover(index, original, s), eps, index) for s in steps]
        rows.append(list(zip(*parts)))
    if not rows:
        return [(np.zeros((0, 0)),) * (1 + x.is_complex())] * count
    return [tuple(np.stack(part) for part in zip(*parts)) for parts in zip(*rows)]


def _pulled(parts: tuple[Any, ...], imaginary: bool) -> Any:
    """What gradients of the real, or imaginary, part of an output are by its differences."""
    real, *imag = (np.imag(p) if imaginary else np.real(p) for p in parts)
    return real + 1j * imag[0] if imag else real


# ---- comparisons ---------------------------------------------------------------------------------


def _compare(
    have: Any, want: Any, rtol: float, atol: float, output: int, input: int, prefix: str, mode: str,
    more: Callable[[], str] = lambda: "",
) -> None:  # fmt: skip
    if not np.allclose(have, want, rtol=rtol, atol=atol):
        raise GradcheckError(
            f"{prefix}Jacobian {mode}mismatch for output {output} with respect to input {input},\n"
            f"numerical:{_shown(want)}\nanalytical:{_shown(have)}\n{more()}"
        )


def _prefix(part: bool | None, elements: str) -> str:
    if part is None:
        return ""
    name = "imaginary" if part else "real"
    return f"While considering the {name} part of complex {elements} only, "


_FORWARD = "computed with forward mode "


def _gradients(output: Tensor, wanted: list[Tensor], cotangent: Tensor) -> Any:
    from tritorch.autograd import grad

    return grad(output, wanted, cotangent, retain_graph=True, allow_unused=True)


def _analytical(
    output: Tensor, wanted: list[Tensor], cotangents: list[Tensor], options: _Options
) -> list[Array]:
    """Of each input, the gradients for some cotangents, as columns; computed twice."""
    runs: list[list[Array]] = []
    types_ok = sizes_ok = True
    for _ in range(1 if options.nondet_tol == float("inf") else 2):
        columns = [np.zeros((x.numel(), len(cotangents)), _kind(x)) for x in wanted]
        for j, cotangent in enumerate(cotangents):
            for x, column, g in zip(wanted, columns, _gradients(output, wanted, cotangent)):
                if g is None:
                    continue
                types_ok = types_ok and g.dtype == x.dtype
                if g.shape != x.shape:
                    sizes_ok = False
                else:
                    column[:, j] = _flat(g)
        runs.append(columns)
    if not types_ok and options.dtypes:
        raise GradcheckError("Gradient has dtype mismatch")
    if not sizes_ok:
        raise GradcheckError("Analytical gradient has incorrect size")
    for first, again in zip(runs[0], runs[-1]):
        if first.size and _distance(first, again) > options.nondet_tol:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and "
                "grad_output multiple times gives different values, although analytical gradient "
                f"matches numerical gradient.The tolerance for nondeterminism was "
                f"{options.nondet_tol}." + _NONDETERMINISTIC
            )
    return runs[0]


@_C.Quiet
def _distance(first: Array, again: Array) -> Any:
    return np.abs(first - again).max()


def _kind(x: Tensor) -> Any:
    return x.dtype.numpy


def _units(output: Tensor, factor: Any) -> list[Tensor]:
    """Cotangents of each element."""
    found = []
    for j in range(output.numel()):
        unit = published.public.zeros(output.numel(), dtype=output.dtype, device=output.device)
        unit[j] = factor
        found.append(unit.view(output.shape))
    return found


def _parts(output: Tensor) -> tuple[bool | None, ...]:
    """The real functions that an output is: of a complex one the imaginary part comes first."""
    return (True, False) if output.is_complex() else (None,)


def _slow_backward(
    func: Any, inputs: tuple[Any, ...], results: list[Tensor], options: _Options
) -> None:
    wanted = _wanted(inputs)
    numerical = [_numerical(func, inputs, x, options.eps, len(results)) for x in wanted]
    outputs = [(k, out) for k, out in enumerate(results) if out.requires_grad]
    if not outputs:
        _require_zeros(part for of_x in numerical for parts in of_x for part in parts)
        return
    for part in (None, True, False):
        for i, (k, out) in enumerate(outputs):
            if part not in _parts(out):
                continue
            units = _units(out, 1j if part else 1)
            for j, have in enumerate(_analytical(out, wanted, units, options)):
                want = _pulled(numerical[j][k], bool(part)).reshape(have.shape)
                prefix = _prefix(part, "outputs")
                _compare(have, want, options.rtol, options.atol, i, j, prefix, "")


def _require_zeros(differences: Iterator[Array], tolerance: float = 0.0) -> None:
    """Where nothing has a gradient, nothing may depend on the inputs."""
    if any(d.size and np.abs(d).max() > tolerance for d in differences):
        raise GradcheckError("Numerical gradient for function expected to be zero")


# ---- fast mode: a product of the Jacobian with random vectors ------------------------------------


def _random(x: Tensor, generator: Generator) -> Array:
    """A vector of length 1 without negative elements: PyTorch's, of the same generator."""
    kind = x.dtype.to_real()
    values = published.public.rand(x.numel(), generator=generator, device="cpu").to(kind)
    return _flat(values / values.norm())


def _vectors(wanted: list[Tensor], outputs: list[Tensor]) -> tuple[list[Any], list[Array]]:
    """Of each input a vector for each part, and of each output one."""
    generator = Generator()
    us = [tuple(_random(x, generator) for _ in range(1 + x.is_complex())) for x in wanted]
    return us, [_random(out, generator) for out in outputs]


def _along_vectors(
    func: Any, inputs: tuple[Any, ...], x: Tensor, u: tuple[Array, ...], eps: float
) -> list[tuple[Array, ...]]:
    """Of each output, its differences along u: of a complex x, along both parts."""
    steps = tuple(
        published.public.tensor(vector * eps * unit, device=x.device).to(x.dtype).view(x.shape)
        for vector, unit in zip(u, (1, 1j))
    )
    return _along(func, inputs, x, steps, eps)


def _fast_backward(
    func: Any, inputs: tuple[Any, ...], results: list[Tensor], options: _Options
) -> None:
    wanted = _wanted(inputs)
    outputs = [(k, out) for k, out in enumerate(results) if out.requires_grad]
    us, vs = _vectors(wanted, [out for _, out in outputs])
    numerical = [_along_vectors(func, inputs, x, u, options.eps) for x, u in zip(wanted, us)]
    if not outputs:
        every = (part for of_x in numerical for parts in of_x for part in parts)
        _require_zeros(every, options.nondet_tol)
        return
    for part in (None, True, False):
        for i, (k, out) in enumerate(outputs):
            if part not in _parts(out):
                continue
            v = vs[i] * (1j if part else 1)
            cotangent = published.public.tensor(v, device=out.device).to(out.dtype).view(out.shape)
            columns = _analytical(out, wanted, [cotangent], options)
            for j, (column, u) in enumerate(zip(columns, us)):
                row = column[:, 0]
                have = row.real @ u[0] + 1j * (row.imag @ u[1]) if len(u) == 2 else row @ u[0]
                want = (vs[i] * _pulled(numerical[j][k], bool(part))).sum()
                atol = options.atol * float(sum(part.sum() for part in u)) * float(vs[i].sum())

                def more(i: int = i, j: int = j, k: int = k, part: Any = part) -> str:
                    units = _units(results[k], 1j if part else 1)
                    slow = _analytical(results[k], wanted, units, options)[j]
                    differences = _numerical(func, inputs, wanted[j], options.eps, len(results))
                    return _slowly(slow, _pulled(differences[k], bool(part)), options)

                _compare(have, want, options.rtol, atol, i, j, _prefix(part, "outputs"), "", more)


def _slowly(have: Array, want: Array, options: _Options) -> str:
    """What slow mode would have said."""
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
        "in fast mode. See: https://github.com/pytorch/pytorch/issues/53876 for more background \n"
        "about fast mode. Below, we recompute numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {_shown(want)}\nAnalytical:\n{_shown(have)}\n\n"
        f"The max per-element difference (slow mode) is: {_distance(want, have)}.\n"
    )
    if np.allclose(have, want, rtol=options.rtol, atol=options.atol):
        text += (
            "\nFast gradcheck failed but element-wise differences are small. This means that the\n"
            "test might've passed in slow_mode!\n"
        )
    return text


# ---- forward mode --------------------------------------------------------------------------------


def _real_functions(func: Any, inputs: tuple[Any, ...]) -> Iterator[tuple[bool | None, Any, Any]]:
    """A function of complex inputs as functions of their imaginary and of their real parts."""
    complex_at = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.is_complex()]
    if not complex_at:
        yield None, func, inputs
        return
    for part in (True, False):
        given, fixed = list(inputs), {}
        for i in complex_at:
            both = [p.clone() for p in (inputs[i].detach().real, inputs[i].detach().imag)]
            given[i], fixed[i] = both[part].requires_grad_(inputs[i].requires_grad), both[not part]

        def of_part(*values: Any, part: bool = part, fixed: Any = fixed) -> Any:
            whole = [
                (fixed[i] + v * 1j if part else v + fixed[i] * 1j) if i in fixed else v
                for i, v in enumerate(values)
            ]
            return func(*whole)

        yield part, of_part, tuple(given)


def _tangents(
    func: Any, inputs: tuple[Any, ...], tangents: dict[int, Tensor], dtypes: bool = False
) -> list[Tensor | None]:
    """The outputs' tangents for those of some inputs."""
    with forward_ad.dual_level():
        given = [
            forward_ad.make_dual(x.detach(), tangents[i])
            if i in tangents
            else x.detach()
            if isinstance(x, Tensor) and x.requires_grad
            else x
            for i, x in enumerate(inputs)
        ]
        found = []
        for out in _as_tuple(func(*given)):
            if not _is_float(out):
                continue
            value, tangent = forward_ad.unpack_dual(out)
            if dtypes and tangent is not None and value.is_complex() != tangent.is_complex():
                raise GradcheckError("Forward AD gradient has dtype mismatch.")
            found.append(tangent)
        return found


def _column(tangent: Tensor | None, out: Tensor) -> Array:
    return np.zeros(out.numel(), _kind(out)) if tangent is None else _flat(tangent)


def _forward(
    func: Any, inputs: tuple[Any, ...], part: bool | None, fast: bool, options: _Options
) -> None:
    results = [out for out in _as_tuple(func(*inputs)) if isinstance(out, Tensor)]
    floats = [out for out in results if _is_float(out)]
    places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    zeros = {i: published.public.zeros_like(inputs[i]) for i in places}
    if not fast and not any(out.requires_grad for out in results):
        every = (_numerical(func, inputs, inputs[i], options.eps, len(results)) for i in places)
        _require_zeros(p for of_x in every for parts in of_x for p in parts)
        return
    us, _ = _vectors([inputs[i] for i in places], [])
    for j, (place, u) in enumerate(zip(places, us)):
        x = inputs[place]
        steps = _units(x, 1)
        if fast:
            steps = [published.public.tensor(u[0], device=x.device).to(x.dtype).view(x.shape)]
            numerical = _along_vectors(func, inputs, x, u, options.eps)
        else:
            numerical = _numerical(func, inputs, x, options.eps, len(results))
        rows = [_tangents(func, inputs, zeros | {place: s}, options.dtypes) for s in steps]
        numerical = [parts for parts, out in zip(numerical, results) if _is_float(out)]
        atol = options.atol * (float(u[0].sum()) if fast else 1.0)
        for k, out in enumerate(floats):
            if not out.requires_grad:
                continue
            have = np.array([_column(row[k], out) for row in rows])
            want = np.reshape(numerical[k][0], have.shape)
            if fast:
                have, want = have[0], want[0]
            prefix = "" if part is None else _prefix(part, "inputs")

            def more(j: int = j, k: int = k, place: int = place) -> str:
                if not fast:
                    return ""
                units = _units(inputs[place], 1)
                slow = [_tangents(func, inputs, zeros | {place: s})[k] for s in units]
                differences = _numerical(func, inputs, inputs[place], options.eps, len(results))
                kept = [d for d, out in zip(differences, results) if _is_float(out)][k][0]
                return _slowly(np.array([_column(t, floats[k]) for t in slow]), kept, options)

            _compare(have, want, options.rtol, atol, k, j, prefix, _FORWARD, more)


def _undefined_tangents(func: Any, inputs: tuple[Any, ...]) -> None:
    """An input without a tangent counts as one with a tangent of zeros."""
    places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    us, _ = _vectors([inputs[i] for i in places], [])
    tangents = {
        i: published.public.tensor(u[0], device=inputs[i].device)
        .to(inputs[i].dtype)
        .view(inputs[i].shape)
        for i, u in zip(places, us)
    }
    for i in places:
        zeros = _tangents(func, inputs, tangents | {i: published.public.zeros_like(inputs[i])})
        without = _tangents(func, inputs, {k: t for k, t in tangents.items() if k != i})
        for k, (have, want) in enumerate(zip(zeros, without)):
            if have is not None and want is not None and not published.public.allclose(have, want):
                raise GradcheckError(
                    "Mismatch in tangent values for output with index: ", k, " when input: ",
                    inputs[i], " has an undefined tangent value. ", " Got: ", have,
                    " but expected: ", want,
                )  # fmt: skip


# ---- batches, zeros, nothing ---------------------------------------------------------------------


def _check_batch(
    function: Callable[..., Any], batched: Any, like: Tensor, output: int | None, text: str
) -> None:
    """function of each of two vectors, against `batched` of both."""
    vectors = [published.public.randn_like(like) for _ in range(2)]
    expected = [published.public.stack(parts) for parts in zip(*map(function, vectors))]
    try:
        found = batched(published.public.stack(vectors))
    except RuntimeError as error:
        raise GradcheckError(
            f"While computing batched gradients, got: {error}\n\n{text}"
        ) from error
    for i, (have, want) in enumerate(zip(found, expected)):
        if not published.public.allclose(have, want):
            which = i if output is None else output
            raise GradcheckError(
                f"For output {which} and input {i}:\n\n{text}\n\nGot:\n{have}\n\nExpected:\n{want}"
            )


def _batched_backward(output: Tensor, wanted: list[Tensor], index: int) -> None:
    def gradients(v: Tensor) -> Any:
        found = _gradients(output, wanted, v)
        return tuple(
            published.public.zeros_like(x) if g is None else g for g, x in zip(found, wanted)
        )

    batched = late_bound.vmap_passing_none(gradients, batchable=not dispatches(type(output)))
    _check_batch(gradients, batched, output, index, _BATCHED)


def _batched_forward(func: Any, inputs: tuple[Any, ...]) -> None:
    for i, x in enumerate(inputs):
        if not (_is_float(x) and x.requires_grad):
            continue
        others = tuple(y.detach() if isinstance(y, Tensor) else y for y in inputs)

        def tangents(t: Tensor, i: int = i, others: Any = others) -> Any:
            outs = [out for out in _as_tuple(func(*others)) if _is_float(out)]
            found = _tangents(func, others, {i: t})
            return tuple(
                published.public.zeros_like(o) if f is None else f for f, o in zip(found, outs)
            )

        _check_batch(tangents, late_bound.vmap(tangents), x, None, _BATCHED_FORWARD)


def _check_zero_cotangents(outputs: list[Tensor], wanted: list[Tensor], masked: Any) -> None:
    from tritorch.autograd import grad

    if not wanted:
        raise GradcheckError("no Tensors requiring grad found in input")
    if not outputs:
        return
    zeros = [published.public.zeros_like(out) for out in outputs]
    found = grad(outputs, wanted, zeros, retain_graph=True, allow_unused=True)
    for g, x in zip(found, wanted):
        if g is None:
            continue
        none = bool((g.detach() == 0).all())
        if not (none or (masked and published.public.allclose(g, published.public.zeros_like(g)))):
            raise GradcheckError("backward not multiplied by grad_output")
        for what in ("dtype", "device", "shape"):
            if getattr(g, what) != getattr(x, what):
                name = {"dtype": "type", "shape": "size"}.get(what, what)
                raise GradcheckError(f"grad is incorrect {name}")


def _undefined_gradients(func: Any, inputs: tuple[Any, ...]) -> None:
    """Backward passes in which outputs, together and one by one, have no gradient."""
    from tritorch.autograd import grad

    class Undefined(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> None:
            return None

    wanted = _wanted(inputs)
    count = len(_wanted(_as_tuple(func(*inputs))))
    for only in [None, *range(count)] if count > 1 else [None] * bool(count):
        outputs = [
            Undefined.apply(out) if only in (None, i) else out
            for i, out in enumerate(_wanted(_as_tuple(func(*inputs))))
        ]
        zeros = [published.public.zeros_like(out) for out in outputs]
        try:
            found = [*grad(outputs, wanted, zeros, allow_unused=True)]
            if only is None:
                found += _without_gradients(_as_tuple(func(*inputs)))
        except RuntimeError as error:
            _warn_of_undefined()
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. Please look at "
                '"Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
            ) from error
        if any(g is not None and bool((g.detach() != 0).any()) for g in found):
            _warn_of_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are "
                'undefined or zero. Please look at "Notes about undefined output gradients" in '
                '"tools/autograd/derivatives.yaml"'
            )


def _without_gradients(outputs: tuple[Any, ...]) -> list[Any]:
    """What custom functions make of no gradient at all: the engine would not run them."""
    nodes = {id(out.grad_fn): out.grad_fn for out in _wanted(outputs)}
    found: list[Any] = []
    for node in nodes.values():
        if isinstance(node, BackwardCFunction):
            found += node._node_op.backward(
                node, [None] * node._node_n_outputs if node._node_n_outputs else None
            )
    return found


def _warn_of_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by "
        "default, but it may break existing callers of this function. If this is true for you, "
        'you can call this function with "check_undefined_grad=False" to disable the feature',
        stacklevel=4,
    )


_NONDETERMINISTIC = """

NOTE: If your op relies on non-deterministic operations, this failure might be expected: call
gradcheck/gradgradcheck with `nondet_tol=<tol>` as a keyword argument.
"""
_BATCHED = """gradcheck or gradgradcheck failed while testing batched gradient computation: the
backward pass inside of vmap differs from one pass for each vector. To leave this out, call
gradcheck/gradgradcheck with `check_batched_grad=False` as a keyword argument."""
_BATCHED_FORWARD = """gradcheck failed while testing batched gradient computation with forward-mode
AD. To leave this out, call gradcheck with `check_batched_forward_grad=False` as a keyword argument.
"""


# ---- what users call -----------------------------------------------------------------------------


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
    """Whether backward's gradients, and forward mode's tangents, agree with finite differences.

    fast_mode: products with one random vector, not whole Jacobians; nondet_tol: how much two
    backward passes may differ; check_undefined_grad: whether outputs without a gradient count as
    zeros; check_batched_grad, check_batched_forward_grad: whether `vmap` of it gives the same;
    masked: of sparse inputs, only the entries count.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    given = _as_tuple(inputs)
    _check_inputs(given)
    if any(x.is_sparse or x.layout in _compressed() for x in _wanted(given)):
        taken: Any = lambda f, values: (f, values)
        on_values: Any = late_bound.as_sparse_gradcheck(taken)
        func, given = on_values(func, given, masked=bool(masked))
    options = _Options(eps, rtol, atol, nondet_tol, check_grad_dtypes, masked)
    try:
        results = [out for out in _as_tuple(func(*given)) if isinstance(out, Tensor)]
        outputs = _wanted(results)
        if any(out.is_sparse or out.layout in _compressed() for out in outputs):
            raise ValueError(
                "Sparse output is not supported at gradcheck yet. Please call "
                "to_dense(masked_grad=...) on the output of fn for gradcheck."
            )
        if check_backward_ad:
            (_fast_backward if fast_mode else _slow_backward)(func, given, results, options)
        if check_forward_ad:
            for part, function, values in _real_functions(func, given):
                _forward(function, values, part, fast_mode, options)
            if check_undefined_grad:
                for _, function, values in _real_functions(func, given):
                    _undefined_tangents(function, values)
        if check_batched_forward_grad:
            _batched_forward(func, given)
        if check_backward_ad:
            wanted = _wanted(given)
            if check_batched_grad:
                for i, out in enumerate(outputs):
                    _batched_backward(out, wanted, i)
            _check_zero_cotangents(outputs, wanted, masked)
            if check_undefined_grad:
                _undefined_gradients(func, given)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _compressed() -> tuple[Any, ...]:
    return layout.sparse_csr, layout.sparse_csc, layout.sparse_bsr, layout.sparse_bsc


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not x.requires_grad:
            continue
        if x.dtype.to_real().name != "float64":
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex. ",
                stacklevel=3,
            )
        strided = not (x.is_sparse or x.layout in _compressed())
        if strided and any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs "
                "that are non-overlapping to be able to compute the numerical gradients "
                "correctly. You should call .contiguous on the input before passing it to "
                "gradcheck."
            )
    if not _wanted(inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of "
            "them have requires_grad=True."
        )


def _with_gradient(x: Tensor) -> Tensor:
    """x, or a leaf with its value and tangent."""
    if x.requires_grad:
        return x
    if x._tangent is None:
        return x.requires_grad_()
    primal, tangent = forward_ad.unpack_dual(x)
    assert tangent is not None
    return forward_ad.make_dual(primal.detach().requires_grad_(), tangent)


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

    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    for name, on in (
        ("check_undefined_grad", check_undefined_grad), ("check_batched_grad", check_batched_grad),
    ):  # fmt: skip
        if on and not check_rev_over_rev:
            raise AssertionError(f"Setting {name}=True requires check_rev_over_rev to be True")
    given = _as_tuple(inputs)
    if grad_outputs is None:
        grad_outputs = [
            late_bound.make_tensor(
                out.shape, dtype=out.dtype, device=out.device, low=-1, high=1, requires_grad=True,
                noncontiguous=gen_non_contig_grad_outputs,
            )
            for out in _wanted(_as_tuple(func(*given)))
        ]  # fmt: skip
    every = (*given, *_as_tuple(grad_outputs))
    wanted = {i for i, x in enumerate(every) if isinstance(x, Tensor) and x.requires_grad}

    def gradients(*values: Any) -> Any:
        with enable_grad():
            values = tuple(_with_gradient(x) if i in wanted else x for i, x in enumerate(values))
            results = _wanted(_as_tuple(func(*values[: len(given)])))
            leaves = [values[i] for i in sorted(wanted) if i < len(given)]
            found = grad(
                results, leaves, values[len(given) :], create_graph=True, allow_unused=True
            )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients, every, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        fast_mode=fast_mode, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, masked=masked,
    )  # fmt: skip
