"""Functions and modules compiled ahead: ATen's operators of both passes, as graphs for compilers.

The function runs once on fakes, forward and backward, inside of make_fx.  `partition_fn` divides
that graph; a custom function of autograd runs its halves, the second compiled when it is needed.
A function that writes into its arguments has the forward graph alone, and its gradients are
those of the operators in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.autograd import grad
from tritorch.autograd.function import Function
from tritorch.autograd.grad_mode import enable_grad, is_grad_enabled, no_grad
from tritorch.compat.torch_private._functorch.partitioners import default_partition
from tritorch.compat.torch_private._subclasses.fake_tensor import FakeTensorMode
from tritorch.core.tensor import Tensor
from tritorch.func import functional_call
from tritorch.fx.experimental.proxy_tensor import make_fx
from tritorch.fx.graph import CodeGen
from tritorch.fx.graph_module import GraphModule
from tritorch.nn.modules.module import Module
from tritorch.ops.shape.factory import empty_strided
from tritorch.utils._pytree import tree_flatten, tree_unflatten

Compiler = Callable[[GraphModule, list[Any]], Callable[..., Any]]


# ---- boxed functions -----------------------------------------------------------------------------


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A function of one list, which whoever runs it may let go of."""

    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(compiler: Compiler) -> Compiler:
    """A compiler that gives functions of one list."""

    @functools.wraps(compiler)
    def boxed(fx_g: GraphModule, inps: list[Any]) -> Callable[..., Any]:
        made = compiler(fx_g, inps)
        return made if getattr(made, "_boxed_call", False) else make_boxed_func(made)

    return boxed


def nop(fx_g: GraphModule, _: list[Any]) -> Callable[..., Any]:
    """A compiler that leaves the graph as it is."""
    return make_boxed_func(fx_g.forward)


def _call(compiled: Any, args: Sequence[Any]) -> list[Any]:
    found = compiled(list(args)) if getattr(compiled, "_boxed_call", False) else compiled(*args)
    return [found] if isinstance(found, Tensor) else list(found)


# ---- of flat arguments ---------------------------------------------------------------------------


class _Flat:
    """A function of tensors that gives a list, compiled for arguments like these."""

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], fw_compiler: Compiler,
        bw_compiler: Compiler | None, partition_fn: Callable[..., Any], decompositions: Any,
        inference_compiler: Compiler | None,
    ) -> None:  # fmt: skip
        self.decompositions, self.bw_compiler = decompositions, bw_compiler or fw_compiler
        self.wanted = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
        self.backward: Any = None
        forward = self._trace(function, args)
        self.writes = any(_is_write(node) for node in forward.graph.nodes)
        self.trains = is_grad_enabled() and bool(self.wanted)
        if not self.trains or self.writes:
            compiler = fw_compiler if self.trains else inference_compiler or fw_compiler
            self.forward = compiler(forward, _inputs(forward))
            return
        self.differentiable, self.count = self._outputs(function, args)
        if not self.differentiable:
            self.trains = False
            self.forward = (inference_compiler or fw_compiler)(forward, _inputs(forward))
            return
        joint = self._joint(function, args)
        first, self.second = partition_fn(joint, _inputs(joint), num_fwd_outputs=self.count)
        self.forward = fw_compiler(first, _inputs(first))

    def _trace(self, function: Callable[..., Any], args: Sequence[Any]) -> GraphModule:
        given = [x.detach() if isinstance(x, Tensor) else x for x in args]

        def flat(*inputs: Any) -> list[Any]:
            return list(function(*inputs))

        with no_grad():
            return make_fx(flat, self.decompositions, "fake", _allow_non_fake_inputs=True)(*given)

    def _outputs(self, function: Callable[..., Any], args: Sequence[Any]) -> tuple[list[int], int]:
        """Which results have gradients, and how many results there are."""
        fakes = FakeTensorMode(allow_non_fake_inputs=True)
        given = [fakes.from_tensor(x) if isinstance(x, Tensor) else x for x in args]
        with fakes, enable_grad():
            found = list(function(*given))
        kept = [i for i, x in enumerate(found) if isinstance(x, Tensor) and x.requires_grad]
        self.tangents = [found[i] for i in kept]
        return kept, len(found)

    def _joint(self, function: Callable[..., Any], args: Sequence[Any]) -> GraphModule:

        def joint(primals: list[Any], tangents: list[Any]) -> list[Any]:
            outputs = list(function(*primals))
            roots = [outputs[i] for i in self.differentiable]
            leaves = [primals[i] for i in self.wanted]
            return [*outputs, *grad(roots, leaves, tangents, allow_unused=True)]

        given = [_leaf(x) if isinstance(x, Tensor) else x for x in args]
        like = [
            empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device=x.device)
            for x in self.tangents
        ]
        trace = make_fx(joint, self.decompositions, "fake", _allow_non_fake_inputs=True)
        with enable_grad():
            made = trace(given, like)
        made.graph.set_codegen(CodeGen())  # of flat arguments
        made.recompile()
        return made

    def __call__(self, *args: Any) -> list[Any]:
        if self.trains and not self.writes:
            found = _Compiled.apply(self, *args)
            return list(found) if isinstance(found, tuple) else [found]
        if self.trains:
            return _call(self.forward, args)
        with no_grad():
            return _call(self.forward, args)

    def run_backward(self, saved: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The gradients of the arguments that want them."""
        if self.backward is None:
            self.backward = self.bw_compiler(self.second, _inputs(self.second))
        return _call(self.backward, [*saved, *tangents])


class _Compiled(Function):
    """A call whose forward and backward pass are graphs."""

    @staticmethod
    def forward(ctx: Any, flat: _Flat, *args: Any) -> Any:
        """Runs the first graph; what it gives behind the results is kept."""
        found = _call(flat.forward, args)
        outputs = found[: flat.count]
        ctx.save_for_backward(*found[flat.count :])
        ctx.flat, ctx.arguments = flat, len(args)
        others = [x for i, x in enumerate(outputs) if i not in flat.differentiable]
        ctx.mark_non_differentiable(*(x for x in others if isinstance(x, Tensor)))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Runs the second graph."""
        flat = ctx.flat
        tangents = [gradients[i].contiguous() for i in flat.differentiable]
        found = flat.run_backward(ctx.saved_tensors, tangents)
        all_of_them = [None] * ctx.arguments
        for i, gradient in zip(flat.wanted, found, strict=True):
            all_of_them[i] = gradient
        return None, *all_of_them


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_(x.requires_grad)


def _inputs(made: GraphModule) -> list[Any]:
    """Example inputs: fakes."""
    return [node.meta.get("val") for node in made.graph.nodes if node.op == "placeholder"]


def _is_write(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.is_mutable


# ---- of functions and modules --------------------------------------------------------------------


def aot_function(
    fn: Callable[..., Any], fw_compiler: Compiler, bw_compiler: Compiler | None = None,
    partition_fn: Callable[..., Any] = default_partition, decompositions: Any = None,
    num_params_buffers: int = 0, keep_inference_input_mutations: bool = False,
    inference_compiler: Compiler | None = None, *, dynamic: bool = False,
    enable_log: bool = True, disable_functionalization: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function compiled at its first call, for arguments like those of that call.

    The options after inference_compiler, and which inputs are parameters, change nothing."""
    made: list[Any] = []

    @functools.wraps(fn)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        if not made:
            shape: list[Any] = []

            def flat(*given: Any) -> list[Any]:
                inner_args, inner_kwargs = tree_unflatten(list(given), spec)
                found, shape[:] = _flattened(fn(*inner_args, **inner_kwargs))
                return found

            run = _Flat(
                flat, leaves, fw_compiler, bw_compiler, partition_fn, decompositions,
                inference_compiler,
            )  # fmt: skip
            made.extend((run, shape))
        run, shape = made
        return tree_unflatten(run(*leaves), shape[0])

    return compiled


def _flattened(result: Any) -> tuple[list[Any], list[Any]]:
    leaves, spec = tree_flatten(result)
    return leaves, [spec]


def aot_module(mod: Module, *args: Any, **kwargs: Any) -> Module:
    """A module with the same parameters whose calls are compiled; options as `aot_function`'s."""

    def function(state: dict[str, Any], given: Any, named: Any) -> Any:
        return functional_call(mod, state, given, named)

    compiled = aot_function(function, *args, **kwargs)

    class AOTModule(Module):
        """Calls the module, compiled."""

        def __init__(self) -> None:
            super().__init__()
            self.orig_module = mod

        def forward(self, *given: Any, **named: Any) -> Any:
            """Runs the graphs."""
            state = {**dict(mod.named_parameters()), **dict(mod.named_buffers())}
            return compiled(state, given, named)

    return AOTModule()


def aot_module_simplified(
    mod: Any, args: Sequence[Any], fw_compiler: Compiler, bw_compiler: Compiler | None = None,
    partition_fn: Callable[..., Any] = default_partition, decompositions: Any = None,
    keep_inference_input_mutations: bool = False, inference_compiler: Compiler | None = None,
    **options: Any,
) -> Callable[..., Any]:  # fmt: skip
    """A function of a module's inputs, compiled now for inputs like these: for backends.

    Parameters and buffers of the module are the first inputs of its graphs.  options: of PyTorch's
    own caches and passes, without effect."""
    state: dict[str, Any] = {}
    if isinstance(mod, Module):
        state = {**dict(mod.named_parameters()), **dict(mod.named_buffers())}
    names = list(state)

    def flat(*given: Any) -> Any:
        if not names:
            found = mod(*given)
        else:
            held = dict(zip(names, given))
            found = functional_call(mod, held, tuple(given[len(names) :]))
        return [found] if isinstance(found, Tensor) else found

    run = _Flat(
        flat, [*state.values(), *args], fw_compiler, bw_compiler, partition_fn, decompositions,
        inference_compiler,
    )  # fmt: skip

    def forward(*given: Any) -> tuple[Any, ...]:
        return tuple(run(*state.values(), *given))

    return forward
