"""make_graphed_callables: functions and modules whose passes are replayed graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.core import published
from tritorch.cuda.graphs import CUDAGraph, graph, graph_pool_handle
from tritorch.cuda.streams import Stream, StreamContext, current_stream


class _Graphed:
    """One callable: its inputs, its outputs and their gradients, at fixed addresses."""

    def __init__(self, function: Any, sample: tuple[Any, ...], unused: bool) -> None:
        from tritorch.core.tensor import Tensor
        from tritorch.trees.walk import tree_flatten

        self.function, self.sample, self.unused = function, sample, unused
        leaves, _ = tree_flatten(sample)
        if not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise AssertionError(
                "In the beta API, sample_args for each callable must contain only Tensors. Other "
                "types are not allowed."
            )
        self.parameters: tuple[Any, ...] = ()
        if isinstance(function, _C.ModuleBase):
            _check_module(function)
            self.parameters = tuple(function.parameters())
        self.n_user = len(leaves)
        self.inputs = (*leaves, *self.parameters)
        self.wanted = tuple(x for x in self.inputs if x.requires_grad)
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        self.outputs: tuple[Any, ...] = ()
        self.spec: Any = None
        self.grads_out: tuple[Any, ...] = ()
        self.grads_in: list[Any] = []

    def _gradients(self, outputs: Sequence[Any], grads: Sequence[Any]) -> Any:
        from tritorch.autograd import grad

        pairs = [(out, g) for out, g in zip(outputs, grads) if g is not None]
        if not pairs or not self.wanted:
            return None
        outs, gs = zip(*pairs)
        return grad(outs, self.wanted, gs, allow_unused=self.unused)

    def warm_up(self) -> None:
        """One pass in both directions, not captured: kernels are compiled, memory is found."""
        from tritorch.trees.walk import tree_flatten

        outputs, _ = tree_flatten(self.function(*self.sample))
        self._gradients(outputs, _like(outputs))

    def capture_forward(self, pool: Any) -> None:
        """Records the forward pass."""
        from tritorch.trees.walk import tree_flatten

        with graph(self.forward, pool=pool):
            result = self.function(*self.sample)
        outputs, self.spec = tree_flatten(result)
        self.outputs = tuple(outputs)

    def capture_backward(self, pool: Any) -> None:
        """Records the backward pass."""
        self.grads_out = _like(self.outputs)
        found: Any = None
        if any(g is not None for g in self.grads_out) and self.wanted:
            with graph(self.backward, pool=pool):
                found = self._gradients(self.outputs, self.grads_out)
        given = iter(found or ())
        has = found is not None
        self.grads_in = [next(given) if x.requires_grad and has else None for x in self.inputs]

    def callable(self) -> Callable[..., Any]:
        """The function that replays."""
        from tritorch.autograd import Function
        from tritorch.autograd.function import once_differentiable
        from tritorch.trees.walk import tree_flatten, tree_unflatten

        own = self

        class Graphed(Function):
            _of_package = True

            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                for fixed, given in zip(own.inputs[: own.n_user], inputs):
                    if fixed.data_ptr() != given.data_ptr():
                        fixed.detach().copy_(given.detach())
                own.forward.replay()
                return tuple(out.detach() for out in own.outputs)

            @staticmethod
            @once_differentiable
            def backward(ctx: Any, *grads: Any) -> Any:
                for fixed, given in zip(own.grads_out, grads):
                    if fixed is not None and fixed.data_ptr() != given.data_ptr():
                        fixed.copy_(given)
                own.backward.replay()
                return tuple(None if g is None else g.detach() for g in own.grads_in)

        def replay(*args: Any) -> Any:
            leaves, _ = tree_flatten(args)
            return tree_unflatten(list(Graphed.apply(*leaves, *own.parameters)), own.spec)

        return replay


def _like(outputs: Sequence[Any]) -> tuple[Any, ...]:

    return tuple(published.public.zeros_like(o) if o.requires_grad else None for o in outputs)


def _check_module(module: Any) -> None:
    if module._backward_hooks or module._forward_hooks or module._forward_pre_hooks:
        raise AssertionError(
            "Modules must not have hooks registered at the time they are passed. However, "
            "registering hooks on modules after passing them through make_graphed_callables is "
            "allowed."
        )
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise AssertionError(
            "In any Module passed to make_graphed_callables, only parameters may be trainable: "
            "all buffers must have requires_grad=False."
        )


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Callables whose forward and backward passes are graphs, captured with sample_args.

    Inputs are copied to the samples' memory, outputs lie at fixed addresses: the next call writes
    over them.  A module runs its graph in the mode (training or not) it was captured in."""
    from tritorch import cuda
    from tritorch.amp.state import is_autocast_cache_enabled, is_autocast_enabled

    if is_autocast_enabled() and is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set "
            "`cache_enabled=False`."
        )
    one = not isinstance(callables, tuple)
    pairs = [(callables, sample_args)] if one else list(zip(callables, sample_args))
    made = [_Graphed(function, args, allow_unused_input) for function, args in pairs]
    handle = graph_pool_handle() if pool is None else pool
    cuda.synchronize()
    side = Stream()
    side.wait_stream(current_stream())
    with StreamContext(side):
        for each in made:
            for _ in range(num_warmup_iters):
                each.warm_up()
    cuda.synchronize()
    # They share a pool, so they are captured in the order in which they will run.
    for each in made:
        each.capture_forward(handle)
    for each in reversed(made):
        each.capture_backward(handle)
    found = [
        _in_module(each) if isinstance(each.function, _C.ModuleBase) else each.callable()
        for each in made
    ]
    return found[0] if one else tuple(found)


def _in_module(each: _Graphed) -> Any:
    module, replay = each.function, each.callable()
    training, plain = module.training, module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if module.training is training:
            return replay(*args, **kwargs)
        return plain(*args, **kwargs)

    module.forward = forward
    return module
