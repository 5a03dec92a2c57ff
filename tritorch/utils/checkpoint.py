"""Checkpointing: forward is computed again in the backward pass instead of being kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tritorch import _C, autograd
from tritorch.autograd.function import Function
from tritorch.core.defaults import warn_once
from tritorch.core.generator import cuda_generator, default_generator
from tritorch.core.tensor import Tensor


class _Random:
    """The generators' states, to compute the same random numbers again."""

    def __init__(self, args: Any) -> None:
        self.cpu = default_generator.get_state()
        indices = {t.device.index or 0 for t in args if isinstance(t, Tensor) and t.is_cuda}
        self.gpus = [(i, cuda_generator(i).get_state()) for i in sorted(indices)]

    @contextlib.contextmanager
    def restored(self) -> Any:
        now = _Random([])
        now.gpus = [(i, cuda_generator(i).get_state()) for i, _ in self.gpus]
        self._set()
        try:
            yield
        finally:
            now._set()

    def _set(self) -> None:
        default_generator.set_state(self.cpu)
        for i, state in self.gpus:
            cuda_generator(i).set_state(state)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors without history that want the gradients that the originals wanted."""
    out = []
    for x in inputs:
        if isinstance(x, Tensor):
            y = x.detach()
            y.requires_grad = x.requires_grad
            out.append(y)
        else:
            out.append(x)
    return tuple(out)


class CheckpointFunction(Function):
    """The reentrant form: a backward pass inside the backward pass."""

    @staticmethod
    def forward(ctx: Any, run: Any, preserve: bool, *args: Any) -> Any:
        ctx.run = run
        ctx.random = _Random(args) if preserve else None
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        return run(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        args = list(ctx.others)
        for position, tensor in zip(ctx.positions, ctx.saved_tensors):
            args[position] = tensor
        inputs = detach_variable(tuple(args))
        with contextlib.ExitStack() as stack:
            if ctx.random is not None:
                stack.enter_context(ctx.random.restored())
            stack.enter_context(autograd.enable_grad())
            outputs = ctx.run(*inputs)
        outs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(o, g) for o, g in zip(outs, grads) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x._grad if isinstance(x, Tensor) else None for x in inputs))


class CheckpointError(RuntimeError):
    """The second forward was not the first."""


class _Frame:
    """One checkpointed call: what it saved is named by order, and computed again on demand."""

    def __init__(self, again: Callable[[], Any]) -> None:
        self.again = again
        self.count = 0
        self.metadata: list[Any] = []
        self.recomputed: list[Tensor] | None = None

    def pack(self, tensor: Tensor) -> int:
        self.metadata.append((tensor.shape, tensor.dtype, tensor.device))
        self.count += 1
        return self.count - 1

    def unpack(self, index: int) -> Tensor:
        if self.recomputed is None:
            found: list[Tensor] = []

            def keep(tensor: Tensor) -> Tensor:
                found.append(tensor.detach())
                return tensor

            with autograd.graph.saved_tensors_hooks(keep, lambda t: t), autograd.enable_grad():
                self.again()
            if len(found) != self.count:
                raise CheckpointError(
                    f"torch.utils.checkpoint: A different number of tensors was saved during the "
                    f"original forward and recomputation.\nNumber of tensors saved during forward: "
                    f"{self.count}\nNumber of tensors saved during recomputation: {len(found)}."
                )
            for i, (tensor, meta) in enumerate(zip(found, self.metadata)):
                if (tensor.shape, tensor.dtype, tensor.device) != meta:
                    raise CheckpointError(
                        "torch.utils.checkpoint: Recomputed values for the following tensors "
                        "have different metadata than during the forward pass.\ntensor at "
                        f"position {i}:\nsaved metadata: {meta}\nrecomputed metadata: "
                        f"{(tensor.shape, tensor.dtype, tensor.device)}"
                    )
            self.recomputed = found
        return self.recomputed[index]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Any] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args), keeping only its inputs for the backward pass."""
    if use_reentrant is None:
        warn_once(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default "
            "behavior, you can pass use_reentrant=True."
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not None or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        if _C.is_grad_enabled() and not any(
            isinstance(a, Tensor) and a.requires_grad for a in args
        ):
            warn_once("None of the inputs have requires_grad=True. Gradients will be None")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if not _C.is_grad_enabled():
        return function(*args, **kwargs)
    random = _Random(args) if preserve_rng_state else None
    forward_context, again_context = (
        context_fn()
        if context_fn is not None
        else (contextlib.nullcontext(), contextlib.nullcontext())
    )

    def again() -> None:
        with contextlib.ExitStack() as stack:
            if random is not None:
                stack.enter_context(random.restored())
            stack.enter_context(again_context)
            function(*args, **kwargs)

    frame = _Frame(again)
    with autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A sequence of functions in checkpointed segments; the last one is kept."""
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    items = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(items) // segments

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for item in items[start : end + 1]:
                x = item(x)
            return x

        return forward

    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(
            run(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return run(end + 1, len(items) - 1)(input)
