"""What the optimizers that treat one parameter at a time share: a subclass is its formula.

A subclass names its state, and `update` changes one parameter.  Before `update`, gradients are
negated (`maximize`), weight decay is applied and complex tensors are viewed as real ones.  Large
parameters on the host are updated block by block.

# Note [Numbers or tensors]
Hyperparameters and step counts are Python numbers wherever that needs no wait for the device: so
formulas use operators that numbers and tensors have in common, and `add_scaled` and its like for
updates.  Tensors they are under `capturable`, for state on a GPU, and under `differentiable`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tritorch.autograd import enable_grad, is_grad_enabled, set_grad_enabled
from tritorch.core.defaults import get_default_dtype
from tritorch.core.dtype import float32, float64
from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.ops import PUBLIC
from tritorch.ops.factory import tensor
from tritorch.ops.memory import view_as_real
from tritorch.optim.optimizer import Optimizer

Number = float | Tensor
zeros_like, full_like = PUBLIC["zeros_like"], PUBLIC["full_like"]

_CAPTURABLE_DEVICES = ["cuda"]
_FUSED_DEVICES = ["cpu", "cuda"]
# Elements: up to that many, an operator of the host is one native call.
_BLOCK = 32768


class PerParameter(Optimizer):
    """Loops over groups and parameters."""

    zeros: tuple[str, ...] = ()  # state that starts as zeros in the parameter's shape
    scalars: tuple[str, ...] = ("step",)  # state of one element
    elementwise = True  # whether `update` may see a part of a parameter at a time
    real_views = True  # whether `update` sees complex tensors as real ones

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if defaults.get("fused"):
            if defaults.get("differentiable"):
                raise RuntimeError("`fused` does not support `differentiable`")
            if defaults.get("foreach"):
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        super().__init__(params, defaults)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter before its first update."""
        state: dict[str, Any] = {"step": scalar(0.0, p, group)}
        for name in self.zeros:
            state[name] = zeros_like(p, memory_format=preserve_format)
        return state

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        """Changes one parameter; step counts from one, where there is a step."""
        raise NotImplementedError

    def advance(self, state: dict[str, Any], step: Any, group: dict[str, Any]) -> Any:
        """Once for a parameter before its update: what the formula gets as `step`."""
        return step

    def decays(self, group: dict[str, Any]) -> tuple[Any, Any]:
        """Weight decay: the part that joins the gradient, the part that shrinks the parameter."""
        decay = group.get("weight_decay", 0)
        return (0, decay) if group.get("decoupled_weight_decay") else (decay, 0)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            for group in self.param_groups:
                self.step_group(group)
        return loss

    def step_group(self, group: dict[str, Any]) -> None:
        """One update of a group's parameters."""
        _check_devices(group)
        options = _numbers(group)
        maximize = options.get("maximize", False)
        coupled, decoupled = self.decays(options)
        one = None
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            state = self.state.get(p)
            if not state:
                state = self.new_state(p, group)
                if state:
                    self.state[p] = state
            count = state.get("step")
            if count is not None:
                if count.is_cuda:
                    count += 1
                else:
                    if one is None:
                        one = tensor(1.0, device="cpu")
                    count.add_(one)  # a tensor: cheaper than a number here
                    count = count.item()
            if self.real_views and p.is_complex():
                p, grad = view_as_real(p), view_as_real(grad)
                state = {k: _real(v) for k, v in state.items()}
            count = self.advance(state, count, options)
            blocks = [(p, grad, state)]
            if self.elementwise and p.numel() > _BLOCK and not p.is_cuda:
                blocks = _blocks(p, grad, state) or blocks
            for p, grad, state in blocks:
                if maximize:
                    grad = -grad
                if coupled:
                    grad = grad.add(p, alpha=coupled)
                if decoupled:
                    shrink(p, options["lr"] * decoupled)
                self.update(p, grad, state, count, options)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for entries in self.state.values():  # very old checkpoints have plain numbers
            for name in self.scalars if isinstance(entries, dict) else ():
                if isinstance(entries.get(name), (int, float)):
                    entries[name] = tensor(float(entries[name]), dtype=_scalar_dtype())


def _real(value: Any) -> Any:
    return view_as_real(value) if isinstance(value, Tensor) and value.is_complex() else value


def _blocks(p: Tensor, grad: Tensor, state: dict[str, Any]) -> list[Any]:
    """The same in parts that stay in the cache through all of a formula; nothing if they can't."""
    n = p.numel()
    named = {k: v for k, v in state.items() if isinstance(v, Tensor) and v.numel() == n}
    whole = [p, grad, *named.values()]
    known = all(value is not None for value in state.values())
    if is_grad_enabled() or not known or not all(x.is_contiguous() for x in whole):
        return []
    parts = zip(*(x.detach().view(-1).split(_BLOCK) for x in whole))
    return [(p, grad, dict(zip(named, values))) for p, grad, *values in parts]


def _numbers(group: dict[str, Any]) -> dict[str, Any]:
    """A group's options.  See Note [Numbers or tensors]."""
    on_device = group.get("capturable") or group.get("differentiable") or group.get("fused")
    found: dict[str, Any] = {}
    for name, value in group.items():
        if name == "params":
            continue
        if isinstance(value, Tensor):
            found[name] = value.reshape(()) if on_device else value.item()
        elif name == "betas" and any(isinstance(beta, Tensor) for beta in value):
            found[name] = tuple(
                b if on_device or not isinstance(b, Tensor) else b.item() for b in value
            )
    return {**group, **found} if found else group


def _check_devices(group: dict[str, Any]) -> None:
    if group.get("capturable"):
        if any(p.device.type not in _CAPTURABLE_DEVICES for p in group["params"]):
            raise AssertionError(
                "If capturable=True, params and state_steps must be on supported devices: "
                f"{_CAPTURABLE_DEVICES}."
            )
    if group.get("fused"):
        for p in group["params"]:
            if p.device.type not in _FUSED_DEVICES or not p.is_floating_point():
                raise RuntimeError(
                    "`fused=True` requires all the params to be floating point Tensors of "
                    f"supported devices: {_FUSED_DEVICES} but {p.dtype} and {p.device.type}"
                )
    if group.get("foreach") and group.get("differentiable"):
        raise AssertionError("_foreach ops don't support autograd")


# ---- for constructors and new_state --------------------------------------------------------------


def check(lr: Number | None = None, betas: Any = (), **values: Any) -> None:
    """Raises for a negative option, and for betas outside [0, 1)."""
    if lr is not None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {'epsilon' if name == 'eps' else name} value: {value}")
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def _scalar_dtype(fused: Any = False) -> Any:
    return float64 if not fused and get_default_dtype() is float64 else float32


def scalar(value: Any, p: Tensor, group: dict[str, Any]) -> Tensor:
    """State of one element: on the host, unless steps must not wait for the device."""
    fused = group.get("fused")
    device = p.device if fused or group.get("capturable") else "cpu"
    return tensor(float(value), dtype=_scalar_dtype(fused), device=device)


# ---- for formulas --------------------------------------------------------------------------------


def read(value: Tensor) -> Any:
    """The number in a state entry; the tensor itself if reading would wait for a GPU."""
    return value if value.is_cuda else value.item()


def _small(x: Tensor) -> bool:
    """Whether a call costs more than its work: then temporaries are cheaper than fused operators.

    On the host `a + w * b` is several native calls without a detour, `lerp_` and its like are one
    call with one; for more elements, memory decides.
    """
    return not x.is_cuda and x.numel() <= _BLOCK


def add_scaled(x: Tensor, y: Tensor, scale: Any) -> None:
    """x += scale y."""
    if isinstance(scale, Tensor) or _small(x):
        x.add_(y * scale)
    else:
        x.add_(y, alpha=scale)


def add_product(x: Tensor, y: Tensor, z: Tensor, scale: Any = 1) -> None:
    """x += scale y z."""
    if _small(x):
        x.add_(y * z if scale == 1 else y * z * scale)
    else:
        x.addcmul_(y, z, value=scale)


def shrink(x: Tensor, share: Any) -> None:
    """x -= share x."""
    if isinstance(share, Tensor) or not _small(x):
        x.mul_(1 - share)
    else:
        x.add_(x * -share)


def add_ratio(x: Tensor, y: Tensor, z: Tensor, scale: Any) -> None:
    """x += scale y / z."""
    if isinstance(scale, Tensor) or _small(x):
        x.add_(kept(y) / z * scale)
    else:
        x.addcdiv_(kept(y), z, value=scale)


def move_average(average: Tensor, x: Tensor, weight: Any) -> None:
    """average += weight (x - average)."""
    if isinstance(weight, float) and weight < 0.5 and _small(average):
        average.add_((x - average) * weight)
    else:
        average.lerp_(x, weight)


def square_average(average: Tensor, x: Tensor, decay: Any) -> None:
    """average = decay average + (1 - decay) x x."""
    if isinstance(decay, Tensor):
        average.mul_(decay).add_(x * x * (1 - decay))
    elif _small(average):
        average.add_((x * x - average) * (1 - decay))
    else:
        average.mul_(decay).addcmul_(x, x, value=1 - decay)


def correction(beta: Any, step: Any) -> Any:
    """1 - beta^step, the weight that an average has gathered since it was zero."""
    if not isinstance(step, Tensor) or isinstance(beta, Tensor) or beta == 0:
        return 1 - beta**step
    return (step * math.log(beta)).expm1().neg()  # the power, close to 1, would cancel in float32


def root(x: Tensor, eps: Any) -> Tensor:
    """sqrt(x) + eps."""
    out = x.sqrt()
    return out + eps if out.requires_grad or _small(x) else out.add_(eps)


def kept(x: Tensor) -> Tensor:
    """x, or a copy if autograd may want it after later steps have changed x."""
    return x.clone() if is_grad_enabled() else x
