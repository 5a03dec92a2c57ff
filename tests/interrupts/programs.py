"""Loops that are interrupted: each is built once, and gives the same numbers whenever it runs."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import tritorch
from tritorch import nn
from tritorch.utils.checkpoint import checkpoint

PROGRAMS: dict[str, Callable[[], Callable[[], Any]]] = {}


def program(build: Callable[[], Callable[[], Any]]) -> Callable[[], Callable[[], Any]]:
    PROGRAMS[build.__name__] = build
    return build


class _Training:
    """Two steps of a small model from the same start."""

    def __init__(self, steps: int = 2) -> None:
        tritorch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.start = [p.detach().clone() for p in self.model.parameters()]
        self.x, self.y = tritorch.randn(3, 4), tritorch.randn(3, 2)
        self.steps = steps

    def again(self) -> None:
        with tritorch.no_grad():
            for p, start in zip(self.model.parameters(), self.start):
                p.copy_(start)
                p.grad = None

    def run(self, step: Callable[..., Any], optimizer: Any) -> Any:
        self.again()
        losses = []
        for _ in range(self.steps):
            optimizer.zero_grad()
            loss = step(self.x, self.y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.detach().flatten().tolist() for p in self.model.parameters()]

    def loss(self, x: Any, y: Any) -> Any:
        return ((self.model(x) - y) ** 2).mean()


@program
def eager_training() -> Callable[[], Any]:
    training = _Training()
    return lambda: training.run(
        training.loss, tritorch.optim.SGD(training.model.parameters(), lr=0.1, momentum=0.9)
    )


@program
def adam_with_schedule() -> Callable[[], Any]:
    training = _Training()

    def run() -> Any:
        optimizer = tritorch.optim.AdamW(training.model.parameters(), lr=0.01)
        schedule = tritorch.optim.lr_scheduler.StepLR(optimizer, 1)
        result = training.run(training.loss, optimizer)
        schedule.step()
        return result, schedule.get_last_lr()

    return run


@program
def compiled_training() -> Callable[[], Any]:
    training = _Training()
    step = tritorch.compile(training.loss)
    return lambda: training.run(step, tritorch.optim.SGD(training.model.parameters(), lr=0.1))


@program
def compiled_autocast() -> Callable[[], Any]:
    training = _Training()
    step = tritorch.compile(training.loss)

    def within(x: Any, y: Any) -> Any:
        with tritorch.autocast("cpu"):
            return step(x, y)

    return lambda: training.run(within, tritorch.optim.SGD(training.model.parameters(), lr=0.1))


@program
def autocast_training() -> Callable[[], Any]:
    training = _Training()

    def within(x: Any, y: Any) -> Any:
        with tritorch.autocast("cpu", dtype=tritorch.bfloat16):
            return training.loss(x, y)

    return lambda: training.run(within, tritorch.optim.SGD(training.model.parameters(), lr=0.1))


@program
def compiled_inference() -> Callable[[], Any]:
    training = _Training()
    model = tritorch.compile(training.model)

    def run() -> Any:
        training.again()
        with tritorch.no_grad():
            first = model(training.x)
        with tritorch.inference_mode():
            second = model(training.x + 1)
        return first.tolist(), second.tolist()

    return run


@program
def compiled_buffers() -> Callable[[], Any]:
    """Buffers are written, and a tensor is kept, by deferred calls."""
    tritorch.manual_seed(2)
    norm = nn.BatchNorm1d(4)
    count = tritorch.zeros(())
    x = tritorch.randn(3, 4)
    kept: list[Any] = []

    @tritorch.compile
    def step(value: Any) -> Any:
        count.add_(1)
        found = norm(value)
        kept.append(found * 2)
        return (found * count).square().sum()

    def run() -> Any:
        for each in kept:  # of a run before, also where that was interrupted
            each.sum().item()
        kept.clear()
        with tritorch.no_grad():
            norm.reset_running_stats()
            count.zero_()
        norm.zero_grad()
        losses = [step(x), step(x + 1)]
        losses[1].backward()
        assert norm.weight is not None
        return (
            [loss.item() for loss in losses], norm.running_mean.tolist(), count.item(),
            norm.weight.grad.tolist(), [each.tolist() for each in kept],
        )  # fmt: skip

    return run


@program
def compiled_by_backend() -> Callable[[], Any]:
    training = _Training()
    step = tritorch.compile(training.loss, backend="aot_eager")
    return lambda: training.run(step, tritorch.optim.SGD(training.model.parameters(), lr=0.1))


@program
def modes() -> Callable[[], Any]:
    x = tritorch.arange(4.0)
    weight = nn.Parameter(tritorch.arange(4.0) + 1)

    @tritorch.no_grad()
    def decorated() -> Any:
        return weight * x

    @tritorch.enable_grad()
    def generator() -> Any:
        for i in range(3):
            yield (weight * i).sum()

    def run() -> Any:
        weight.grad = None
        found = [decorated().tolist()]
        with tritorch.no_grad():
            found += [each.item() for each in generator()]
            with tritorch.enable_grad():
                found.append((weight * x).requires_grad)
        with tritorch.inference_mode():
            found.append((weight * x).is_inference())
        with tritorch.set_grad_enabled(False):
            found.append((weight * x).requires_grad)
        with tritorch.inference_mode(False):
            found.append((weight * x).requires_grad)
        with tritorch.device("meta"):
            found.append(str(tritorch.empty(2).device))
        with tritorch.autograd.set_detect_anomaly(True, check_nan=False):
            (weight * x).sum().backward()
        with tritorch.autograd.set_multithreading_enabled(False):
            found.append(weight.grad.tolist())
        with tritorch.random.fork_rng():
            tritorch.manual_seed(3)
            found.append(tritorch.rand(2).tolist())
        with tritorch.autograd.forward_ad.dual_level():
            dual = tritorch.autograd.forward_ad.make_dual(x, x)
            found.append(tritorch.autograd.forward_ad.unpack_dual(dual.sin()).tangent.tolist())
        with tritorch.backends.cudnn.flags(enabled=False):
            found.append(tritorch.backends.cudnn.enabled)
        with tritorch.nn.attention.sdpa_kernel(tritorch.nn.attention.SDPBackend.MATH):
            q = tritorch.ones(1, 1, 2, 2)
            found.append(nn.functional.scaled_dot_product_attention(q, q, q).tolist())
        return found

    return run


@program
def contexts() -> Callable[[], Any]:
    """Contexts of the packages around: what they set lies in modules, models and lists."""
    from tritorch import fx, hub
    from tritorch._library import triton
    from tritorch._logging._internal import hide_warnings
    from tritorch.testing._utils import freeze_rng_state
    from tritorch.utils import _debug_mode

    def state_of() -> Any:
        hooks = [len(each) for each in _debug_mode._hooks.values()]
        return hooks, triton.is_wrap_triton_enabled(), math.sqrt is sqrt

    sqrt = math.sqrt
    before = state_of()

    def run() -> Any:
        assert state_of() == before, "an earlier run has left something"
        tritorch.manual_seed(1)
        found = []
        with freeze_rng_state(), hide_warnings(lambda *args, **kwargs: False):
            warnings.warn("nobody sees this", stacklevel=1)
            found.append(tritorch.rand(2).tolist())
        found.append(tritorch.rand(2).tolist())
        with triton.set_wrap_triton_enabled(False), hub._on_path("/nosuch"):
            found.append((triton.is_wrap_triton_enabled(), sys.path[0]))
        with _debug_mode.DebugMode.dispatch_hooks(log_hook=lambda *args: None):
            found.append(len(_debug_mode._hooks["log"]))
        found.append(len(fx.symbolic_trace(lambda x: x.relu()).graph.nodes))
        with tritorch.autograd.profiler.record_function("here"):
            found.append(math.sqrt(4.0))
        return found

    return run


@program
def overriding() -> Callable[[], Any]:
    from tritorch.overrides import TorchFunctionMode
    from tritorch.utils._python_dispatch import TorchDispatchMode
    from tritorch.utils.flop_counter import FlopCounterMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            calls.append("function")
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            calls.append("operator")
            return func(*args, **(kwargs or {}))

    class Sub(tritorch.Tensor):
        pass

    calls: list[str] = []
    x = tritorch.arange(4.0).requires_grad_(True)

    def run() -> Any:
        calls.clear()
        with Functions():
            y = (x * 2).sum()
        with Operators():
            y = (x * 3).sum()
            y.backward()
        x.grad = None
        with tritorch._C.DisableTorchFunctionSubclass():
            z = tritorch.ones(2).as_subclass(Sub) * 2
        w = tritorch.ones(2).as_subclass(Sub) * 2
        counter = FlopCounterMode(display=False)
        with counter:
            tritorch.ones(2, 3) @ tritorch.ones(3, 2)
        return y.item(), list(calls), type(z).__name__, type(w).__name__, counter.get_total_flops()

    return run


@program
def saving_and_hooks() -> Callable[[], Any]:

    class Square(tritorch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            ctx.save_for_backward(value)
            return value * value

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (value,) = ctx.saved_tensors
            return grad * 2 * value

    def run() -> Any:
        x = tritorch.arange(4.0).requires_grad_(True)
        with tritorch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), tritorch.from_numpy):
            y = (x.exp() * x).sum()
        y.backward()
        with tritorch.autograd.graph.save_on_cpu():
            z = (x.sin() * x).sum()
        handle = x.register_hook(lambda grad: grad * 2)
        z.backward()
        handle.remove()
        s = Square.apply(x)
        first = tritorch.autograd.grad(s.sum(), x, create_graph=True)[0]
        second = tritorch.autograd.grad(first.sum() * x.sum(), x)[0]
        return y.item(), x.grad.tolist(), second.tolist()

    return run


@program
def transforms() -> Callable[[], Any]:
    x = tritorch.arange(3.0)

    def function(value: Any) -> Any:
        return (value.sin() * value).sum()

    def run() -> Any:
        func = tritorch.func
        return (
            func.grad(function)(x).tolist(),
            func.vmap(func.grad(function))(x.expand(2, 3)).tolist(),
            func.hessian(function)(x).tolist(),
            func.jvp(function, (x,), (x,))[1].item(),
            func.jacrev(lambda v: v * v)(x).tolist(),
        )

    return run


@program
def checkpoints() -> Callable[[], Any]:
    x = tritorch.arange(4.0).requires_grad_(True)

    def part(value: Any) -> Any:
        return nn.functional.dropout(value.exp() * value, 0.5).sin()

    def run() -> Any:
        x.grad = None
        tritorch.manual_seed(5)
        with tritorch.autocast("cpu"):
            y = checkpoint(part, x, use_reentrant=False).sum()
        y = y + checkpoint(part, x, use_reentrant=True).sum()
        y.backward()
        return y.item(), x.grad.tolist()

    return run


@program
def devices() -> Callable[[], Any]:
    """On the simulated device, where there is one."""
    if not tritorch.cuda.is_available():
        return lambda: None
    x = tritorch.arange(4.0, device="cuda")
    side = tritorch.cuda.Stream()

    def run() -> Any:
        side.wait_stream(tritorch.cuda.current_stream())
        with tritorch.cuda.stream(side):
            y = x * 2
        with side:
            y = y + 1
        side.synchronize()
        with tritorch.cuda.device(0):
            found = [y.tolist()]
        with tritorch.autocast("cuda"):
            found.append((x[None] @ x[:, None]).tolist())
        return found

    return run
