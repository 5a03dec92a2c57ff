"""grad, vjp, jvp, Jacobians and Hessians of functions; functional calls of modules."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from tritorch import _C, autograd
from tritorch.autograd.duals import make_dual, primal_of
from tritorch.core import published
from tritorch.core.scopes import Scope, recorded
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried
from tritorch.func.vmap import vmap
from tritorch.ops.interpret.vmap import batched_everywhere
from tritorch.ops.shape.joining import stack
from tritorch.ops.shape.ranges import eye
from tritorch.trees.spec import TreeSpec, treespec_leaf
from tritorch.trees.walk import tree_flatten, tree_map, tree_unflatten


def _fresh(x: Any) -> Any:
    """A view that gradients are taken for: linked to x, so that transforms nest."""
    if not isinstance(x, Tensor):
        return x
    if x._tangent is not None:
        return make_dual(_fresh(primal_of(x)), x._tangent)
    x = batched_everywhere(x)
    if x._requires_grad:
        return x.view_as(x)
    return x.detach().requires_grad_(True)


def _gradients(outs: list[Tensor], ins: list[Tensor], gs: Any, keep: bool) -> list[Tensor]:
    found = (
        autograd.grad(outs, ins, gs, create_graph=keep, retain_graph=True, allow_unused=True)
        if any(o._requires_grad for o in outs)
        else [None] * len(ins)
    )
    return [published.public.zeros_like(x) if g is None else g for g, x in zip(found, ins)]


def _pick(args: tuple[Any, ...], argnums: Any) -> tuple[list[Any], Any, Callable[[list[Any]], Any]]:
    """The chosen arguments' leaves, their nest, and how to call with others in their place."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs")
    numbers = tuple(number % len(args) for number in numbers)
    chosen: Any = args[numbers[0]] if isinstance(argnums, int) else tuple(args[i] for i in numbers)
    leaves, spec = tree_flatten(chosen)

    def put(new: list[Any]) -> tuple[Any, ...]:
        nest = tree_unflatten(new, spec)
        parts = [nest] if isinstance(argnums, int) else list(nest)
        out = list(args)
        for number, part in zip(numbers, parts):
            out[number] = part
        return tuple(out)

    return leaves, spec, put


def grad_and_value(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The gradient of a scalar function, and its value."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        outer = _C.is_grad_enabled()
        with recorded:
            leaves, spec, put = _pick(args, argnums)
            inputs = [_fresh(leaf) for leaf in leaves]
            result = func(*put(inputs), **kwargs)
            value, aux = result if has_aux else (result, None)
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    f"Expected f(*args) to return a Tensor, got {type(value).__name__}"
                )
            if value.ndim:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got "
                    f"tensor with {value.ndim} dims. Maybe you wanted to use the vjp or jacrev "
                    "APIs instead?"
                )
            nested = outer and _inside_transform(leaves)
            found = _gradients([value], inputs, None, nested)
        out = tree_unflatten(found, spec)
        if not nested:
            value = value.detach() if value._tangent is None else value
            aux = tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, aux)
        return (out, (value, aux)) if has_aux else (out, value)

    return wrapped


def _inside_transform(leaves: list[Any]) -> bool:
    """Whether somebody outside differentiates these too."""
    return (
        any(isinstance(x, Tensor) and (x._requires_grad or x._tangent is not None) for x in leaves)
        or _nested.depth > 0
    )


class _Nested(threading.local):
    depth = 0


_nested = carried(_Nested())


def _nesting() -> Scope:
    """Within, inner transforms keep their graphs."""
    return Scope((_nested, "depth", _nested.depth + 1))


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a scalar function."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        def nested(*a: Any, **k: Any) -> Any:
            with _nesting():
                return func(*a, **k)

        found, value = grad_and_value(nested, argnums, has_aux)(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """func(*primals), and the function v -> v^T J."""
    with recorded:
        leaves, spec = tree_flatten(primals)
        inputs = [_fresh(leaf) for leaf in leaves]
        with _nesting():
            result = func(*tree_unflatten(inputs, spec))
        value, aux = result if has_aux else (result, None)
    outs, out_spec = tree_flatten(value)
    nested = _inside_transform(leaves)

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, _ = tree_flatten(cotangents)
        if len(given) != len(outs):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                "outputs to the function."
            )
        pairs = [(o, g) for o, g in zip(outs, given) if o._requires_grad]
        keep = nested or any(isinstance(g, Tensor) and g._requires_grad for g in given)
        if not pairs:
            found = [published.public.zeros_like(x) for x in leaves]
        else:
            found = _gradients([o for o, _ in pairs], inputs, [g for _, g in pairs], keep)
        out = tree_unflatten(found, spec)
        return out

    shown = value if nested else tree_map(lambda x: x.detach(), value)
    _ = out_spec
    return (shown, pull, aux) if has_aux else (shown, pull)


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """func(*primals), and J t."""

    leaves, spec = tree_flatten(primals)
    moved, _ = tree_flatten(tangents)
    if len(leaves) != len(moved):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            "structure."
        )
    duals = [make_dual(p, t) for p, t in zip(leaves, moved)]
    with _nesting():
        result = func(*tree_unflatten(duals, spec))
    value, aux = result if has_aux else (result, None)
    plain = tree_map(primal_of, value)
    pushed = tree_map(
        lambda x: published.public.zeros_like(x) if x._tangent is None else x._tangent, value
    )
    return (plain, pushed, aux) if has_aux else (plain, pushed)


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """func(*primals), and the function t -> J t."""
    return func(*primals), lambda *tangents: jvp(func, primals, tangents)[1]


def _basis(x: Tensor) -> Tensor:
    """One unit vector for each element, shaped like x."""
    n = x.numel()
    return eye(n, dtype=x.dtype, device=x.device).reshape(n, *x.shape)


def jacrev(
    func: Callable[..., Any],
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The Jacobian, by reverse mode over the outputs."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec, put = _pick(args, argnums)
        call = lambda *new: func(*put(list(new)), **kwargs)
        results = vjp(call, *leaves, has_aux=has_aux)
        value, pull = results[0], results[1]
        outs, out_spec = tree_flatten(value)
        rows = []
        for i, out in enumerate(outs):

            def one(v: Tensor, i: int = i) -> Any:
                given = [
                    v if k == i else published.public.zeros_like(o) for k, o in enumerate(outs)
                ]
                return pull(tree_unflatten(given, out_spec))

            found = vmap(one, chunk_size=chunk_size)(_basis(out))
            shaped = [
                g.reshape(*out.shape, *x.shape) for g, x in zip(tree_flatten(found)[0], leaves)
            ]
            rows.append(tree_unflatten(shaped, spec))
        jacobian = tree_unflatten(rows, out_spec)
        return (jacobian, results[2]) if has_aux else jacobian

    return wrapped


def jacfwd(
    func: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """The Jacobian, by forward mode over the inputs."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec, put = _pick(args, argnums)
        call = lambda *new: func(*put(list(new)), **kwargs)
        out_spec: TreeSpec = treespec_leaf()
        columns, aux, outs = [], None, []
        for i, x in enumerate(leaves):

            def one(t: Tensor, i: int = i) -> Any:
                moved = [
                    t if k == i else published.public.zeros_like(y) for k, y in enumerate(leaves)
                ]
                return jvp(call, tuple(leaves), tuple(moved), has_aux=has_aux)[1]

            mapped = vmap(one, 0, -1, randomness, chunk_size=chunk_size)
            found, out_spec = tree_flatten(mapped(_basis(x)))
            columns.append([g.reshape(*g.shape[:-1], *x.shape) for g in found])
        if has_aux:
            aux = func(*args, **kwargs)[1]
        outs = [
            tree_unflatten([column[k] for column in columns], spec) for k in range(len(columns[0]))
        ]
        jacobian = tree_unflatten(outs, out_spec)
        return (jacobian, aux) if has_aux else jacobian

    return wrapped


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """The Hessian of a scalar function."""
    return jacfwd(jacrev(func, argnums), argnums)


def functional_call(
    module: Any, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Any = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """A module's forward, with other tensors in the place of its parameters and buffers."""
    from tritorch.nn.utils.stateless import _functional_call

    values = parameter_and_buffer_dicts
    if not isinstance(values, dict):
        if not isinstance(values, (list, tuple)):
            raise ValueError(
                f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but "
                f"got {type(values)}"
            )
        if not all(isinstance(each, dict) for each in values):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
            )
        counts = Counter(name for each in values for name in each)
        repeated = [name for name, count in counts.items() if count > 1]
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
                f"ambiguous"
            )
        values = {name: value for each in values for name, value in each.items()}
    return _functional_call(module, values, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of several models of one class, stacked: new leaves."""
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return (
        _stacked([dict(model.named_parameters()) for model in models]),
        _stacked([dict(model.named_buffers()) for model in models]),
    )


def _stacked(tables: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: construct_stacked_leaf([t[name] for t in tables], name) for name in tables[0]}


def construct_stacked_leaf(tensors: Any, name: str) -> Tensor:
    """Tensors of several models, stacked: a leaf, if they want gradients."""
    wanted = {tensor.requires_grad for tensor in tensors}
    if len(wanted) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return stack(tensors).detach().requires_grad_(True in wanted)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself: mutations need not be removed for any transform here."""
    return func


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Running statistics taken from all batch norms of a module, which vmap cannot update."""
    from tritorch.nn.modules.norm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
