"""jacobian, hessian, vjp, jvp, hvp, vhp: derivatives of functions, by the graph.

Each takes tensors that are cut from the caller's graph (or joined to it, with create_graph), runs
the function, and asks the engine. `strict` refuses an output or a gradient that does not depend on
the inputs; without it such a derivative is zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch.core import late_bound, published
from tritorch.core.dispatching import dispatches
from tritorch.core.scopes import recorded
from tritorch.core.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


def _as_tuple(value: Any, what: str, function: str) -> tuple[bool, Tensors]:
    """Checks the tensors of an argument or a result; gives whether they came as a tuple."""
    many = isinstance(value, tuple)
    items = value if many else (value,)
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            place = f"value at index {i}" if many else f"given {what}"
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors "
                f"but the {place} has type {type(item)}."
            )
    return many, items


def _fresh(items: Tensors, create_graph: bool, requires_grad: bool) -> Tensors:
    """New tensors of the same data, so that the function's own captures are told from them."""
    return tuple(
        (x.clone() if x.is_sparse else x.view_as(x)) if create_graph and x._requires_grad
        else x.detach().requires_grad_(requires_grad)
        for x in items
    )  # fmt: skip


def _done(values: Sequence[Tensor], many: bool, create_graph: bool) -> Any:
    items = tuple(v if create_graph else v.detach() for v in values)
    return items if many else items[0]


def _vector(
    v: Any, items: Tensors, many: bool, create_graph: bool, function: str, input_of: str
) -> Tensors | None:
    """The vector of a product, checked against the tensors it multiplies; None stands for 1."""
    if v is None:
        if len(items) != 1 or items[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {input_of} a single Tensor with a single "
                "element."
            )
        return None
    _, vs = _as_tuple(v, "v", function)
    vs = _fresh(vs, create_graph, False)
    if len(vs) != len(items):
        if not many:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(items)} but got {len(vs)}."
        )
    for i, (given, wanted) in enumerate(zip(vs, items)):
        if given.shape != wanted.shape:
            entry = f"Entry {i} in " if many else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be {wanted.shape} but got {given.shape}."
            )
    return vs


_NOT_STRICT = "This is not allowed in strict mode."
_DEPENDS = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs "
    "must be computed in a differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the "
    f"user-provided function. {_NOT_STRICT}",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided "
    f"function with respect to input {{i}} is independent of the input. {_NOT_STRICT} You should "
    "ensure that your function is twice differentiable and that the jacobian depends on the inputs "
    "(this would be violated by a linear function for example).",
}
_MISSING = {
    "back": "The output of the user-provided function is independent of input {i}. "
    + _NOT_STRICT,
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the "
    "grad_outputs when using the double backward trick to compute forward mode gradients. "
    + _NOT_STRICT,
    "double_back": "The jacobian of the user-provided function is independent of input {i}. "
    + _NOT_STRICT,
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} "
    "in the grad_jacobian. This is not allowed in strict mode as it prevents from using the "
    "double backward trick to replace forward mode AD.",
}  # fmt: skip


def _check_depends(values: Sequence[Tensor | None], kind: str, strict: bool) -> None:
    """Refuses, in strict mode, values without a way back to the inputs."""
    if not strict:
        return
    for i, value in enumerate(values):
        if value is None:
            raise RuntimeError(_MISSING["back"].format(i=i))
        if not value._requires_grad:
            raise RuntimeError(_DEPENDS[kind].format(i=i))


def _gradients(
    outs: Sequence[Tensor | None], ins: Tensors, gs: Sequence[Tensor] | None, *,
    create_graph: bool, retain_graph: bool | None = None, batched: bool = False,
) -> Sequence[Tensor | None]:  # fmt: skip
    """Gradients of the outputs that have a graph; None where no output reaches an input."""
    from tritorch.autograd import grad

    seeds = [None] * len(outs) if gs is None else gs
    pairs = [(o, g) for o, g in zip(outs, seeds) if o is not None and o._requires_grad]
    if not pairs:
        return [None] * len(ins)
    return grad([o for o, _ in pairs], ins, [g for _, g in pairs], allow_unused=True,
                create_graph=create_graph, retain_graph=retain_graph,
                is_grads_batched=batched)  # fmt: skip


def _filled(
    gradients: Sequence[Tensor | None], like: Tensors, strict: bool, create_graph: bool, stage: str
) -> list[Tensor]:
    """Zeros for missing gradients; in strict mode these, and constants, are refused."""
    result = []
    for i, (gradient, shape) in enumerate(zip(gradients, like)):
        if gradient is None:
            if strict:
                raise RuntimeError(_MISSING[stage].format(i=i))
            gradient = published.public.zeros_like(shape)
        elif strict and create_graph and not gradient._requires_grad:
            what = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. This is "
                "not allowed in strict mode when create_graph=True."
            )
        result.append(gradient)
    return result


def _outputs(
    func: Callable[..., Any], items: Tensors, function: str, strict: bool
) -> tuple[bool, Tensors]:
    what = "outputs of the user-provided function"
    many, outs = _as_tuple(func(*items), what, function)
    _check_depends(outs, "outputs", strict)
    return many, outs


def _single(outs: Tensors, many: bool, function: str) -> None:
    if many:
        raise RuntimeError(f"The function given to {function} should return a single Tensor")
    if outs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {function} should contain a single "
            "element"
        )


_INPUT_IS = "input to the user-provided function is"


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(inputs), and v^T J."""
    with recorded:
        many, items = _as_tuple(inputs, "inputs", "vjp")
        items = _fresh(items, create_graph, True)
        out_many, outs = _outputs(func, items, "vjp", strict)
        vs = _vector(v, outs, out_many, create_graph, "vjp", "user-provided function returns")
        found = _gradients(outs, items, vs, create_graph=create_graph)
        result = _filled(found, items, strict, create_graph, "back")
    return _done(outs, out_many, create_graph), _done(result, many, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(inputs), and J v, by two backward passes."""
    with recorded:
        many, items = _as_tuple(inputs, "inputs", "jvp")
        items = _fresh(items, create_graph, True)
        vs = _vector(v, items, many, create_graph, "jvp", _INPUT_IS)
        out_many, outs = _outputs(func, items, "jvp", strict)
        # The first pass is linear in its seeds: their values do not matter
        seeds = tuple(published.public.zeros_like(out).requires_grad_(True) for out in outs)
        pulled = _gradients(outs, items, seeds, create_graph=True)
        _check_depends(pulled, "grad_inputs", strict)
        found = _gradients(pulled, seeds, vs, create_graph=create_graph)
        result = _filled(found, outs, strict, create_graph, "back_trick")
    return _done(outs, out_many, create_graph), _done(result, out_many, create_graph)


def _construct_standard_basis_for(
    tensors: Sequence[Tensor], tensor_numels: Sequence[int]
) -> Tensors:
    """Columns of one identity matrix, shared out to the tensors by their numbers of elements."""
    if len(tensors) != len(tensor_numels):
        raise AssertionError(
            "Expected tensors and tensor_numels to have the same length, but got "
            f"{len(tensors)} and {len(tensor_numels)}"
        )
    if not tensors:
        raise AssertionError("Expected at least one tensor")
    total, start = sum(tensor_numels), 0
    chunks = []
    for tensor, numel in zip(tensors, tensor_numels):
        chunk = tensor.new_zeros(total, numel)
        chunk.diagonal(start).fill_(1)
        start -= numel
        chunks.append(chunk)
    return tuple(chunks)


def _jacobian_forward(func: Callable[..., Any], inputs: Any, strict: bool, vectorize: bool) -> Any:
    from tritorch.autograd import forward_ad

    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are '
            "not supported together (yet). Please either set `strict=False` or "
            '`strategy="reverse-mode"`.'
        )
    many, items = _as_tuple(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."
        )
    numels = tuple(x.numel() for x in items)
    out_many, shapes = False, []

    def columns(*tangents: Tensor) -> Tensors:
        nonlocal out_many, shapes
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, t.view_as(x)) for x, t in zip(items, tangents)]
            out_many, outs = _as_tuple(func(*duals), "outputs", "jacobian")
            pairs = [forward_ad.unpack_dual(out) for out in outs]
        shapes = [primal.shape for primal, _ in pairs]
        return tuple(published.public.zeros_like(p) if t is None else t for p, t in pairs)

    batchable = not any(dispatches(type(x)) for x in items)
    found = late_bound.vmap_passing_none(columns, batchable=batchable)(
        *_construct_standard_basis_for(items, numels)
    )
    rows = []
    for jac, shape in zip(found, shapes):
        parts = jac.split(numels, dim=0)
        row = [
            part.permute(*range(1, part.ndim), 0).reshape((*shape, *x.shape))
            for part, x in zip(parts, items)
        ]
        rows.append(tuple(row) if many else row[0])
    return tuple(rows) if out_many else rows[0]


def _rows_batched(outs: Tensors, items: Tensors, create_graph: bool) -> list[list[Tensor]]:
    """All rows of each output's jacobian, by one batched pass."""
    numels = tuple(out.numel() for out in outs)
    seeds = _construct_standard_basis_for(outs, numels)
    flat = tuple(out.reshape(-1) for out in outs)
    found = _gradients(flat, items, seeds, create_graph=create_graph, batched=True)
    by_input = [
        (x.new_zeros(()).expand(sum(numels), *x.shape) if jac is None else jac).split(numels, dim=0)
        for jac, x in zip(found, items)
    ]
    return [
        [parts[i].reshape((*out.shape, *x.shape)) for parts, x in zip(by_input, items)]
        for i, out in enumerate(outs)
    ]


def _rows_one_by_one(
    outs: Tensors, items: Tensors, create_graph: bool, strict: bool
) -> list[list[Tensor]]:
    rows = []
    for i, out in enumerate(outs):
        parts: list[list[Tensor]] = [[] for _ in items]
        for j in range(out.numel()):
            element = out.reshape(-1)[j]
            found = _gradients([element], items, None, create_graph=create_graph, retain_graph=True)
            for k, (part, gradient, x) in enumerate(zip(parts, found, items)):
                if gradient is None:
                    if strict:
                        raise RuntimeError(
                            f"Output {i} of the user-provided function is independent of input "
                            f"{k}. {_NOT_STRICT}"
                        )
                    gradient = published.public.zeros_like(x)
                elif strict and create_graph and not gradient._requires_grad:
                    raise RuntimeError(
                        "The jacobian of the user-provided function is independent of input "
                        f"{i}. This is not allowed in strict mode when create_graph=True."
                    )
                part.append(gradient)
        rows.append([
            published.public.stack(part).reshape((*out.shape, *x.shape)) if part
            else x.new_zeros((*out.shape, *x.shape))
            for part, x in zip(parts, items)
        ])  # fmt: skip
    return rows


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """d outputs / d inputs."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "torch.autograd.functional.jacobian: `create_graph=True` and "
                '`strategy="forward-mode"` are not supported together (yet). Please either set '
                '`create_graph=False` or `strategy="reverse-mode"`.'
            )
        return _jacobian_forward(func, inputs, strict, vectorize)
    with recorded:
        many, items = _as_tuple(inputs, "inputs", "jacobian")
        items = _fresh(items, create_graph, True)
        out_many, outs = _outputs(func, items, "jacobian", strict)
        if vectorize:
            if strict:
                raise RuntimeError(
                    "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are "
                    "not supported together. Please either set `strict=False` or "
                    "`vectorize=False`."
                )
            rows = _rows_batched(outs, items, create_graph)
        else:
            rows = _rows_one_by_one(outs, items, create_graph, strict)
    shaped = tuple(_done(row, many, create_graph) for row in rows)
    return shaped if out_many else shaped[0]


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of a scalar function."""
    many, items = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*args: Any) -> Tensor:
        out_many, outs = _as_tuple(func(*args), "outputs of the user-provided function", "hessian")
        _check_depends(outs, "outputs", strict)
        _single(outs, out_many, "hessian")
        return outs[0].squeeze()

    def first(*args: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            args = tuple(x.requires_grad_(True) for x in args)
        found = jacobian(scalar, args, create_graph=True)
        _check_depends(found, "jacobian", strict)
        return found

    found = jacobian(first, items, create_graph=create_graph, strict=strict, vectorize=vectorize,
                     strategy=outer_jacobian_strategy)  # fmt: skip
    return found if many else found[0][0]


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(inputs), and v^T H."""
    with recorded:
        many, items = _as_tuple(inputs, "inputs", "vhp")
        items = _fresh(items, create_graph, True)
        vs = _vector(v, items, many, create_graph, "vhp", _INPUT_IS)
        out_many, outs = _outputs(func, items, "vhp", strict)
        _single(outs, out_many, "vhp")
        first = _gradients(outs, items, None, create_graph=True)
        _check_depends(first, "jacobian", strict)
        found = _gradients(first, items, vs, create_graph=create_graph)
        result = _filled(found, items, strict, create_graph, "double_back")
    return _done(outs, False, create_graph), _done(result, many, create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(inputs), and H v, by a second pass through the first one's seeds."""
    with recorded:
        many, items = _as_tuple(inputs, "inputs", "hvp")
        items = _fresh(items, create_graph, True)
        vs = _vector(v, items, many, create_graph, "hvp", _INPUT_IS)
        out_many, outs = _outputs(func, items, "hvp", strict)
        _single(outs, out_many, "hvp")
        first = _gradients(outs, items, None, create_graph=True)
        _check_depends(first, "jacobian", strict)
        seeds = tuple(published.public.zeros_like(x).requires_grad_(True) for x in items)
        pulled = _gradients(first, items, seeds, create_graph=True)
        found = _gradients(pulled, seeds, vs, create_graph=create_graph)
        result = _filled(found, items, strict, create_graph, "double_back_trick")
    return _done(outs, False, create_graph), _done(result, many, create_graph)
