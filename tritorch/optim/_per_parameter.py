"""What all optimizers with state for each parameter share, and a loop over single parameters.

Those whose formula treats each element by itself are in _elementwise.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.autograd import enable_grad, set_grad_enabled
from tritorch.core import published
from tritorch.core.defaults import get_default_dtype
from tritorch.core.dtype import float32, float64
from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.ops.shape.factory import tensor
from tritorch.optim.optimizer import Optimizer

Number = float | Tensor
zeros_like, full_like = published.public.zeros_like, published.public.full_like

_CAPTURABLE_DEVICES = ["cuda"]
_FUSED_DEVICES = ["cpu", "cuda"]


class PerParameter(Optimizer):
    """Loops over groups and parameters; a subclass names its state, `update` changes one parameter.

    Before `update`, gradients are negated (`maximize`) and weight decay is applied.
    """

    zeros: tuple[str, ...] = ()  # state that starts as zeros in the parameter's shape
    scalars: tuple[str, ...] = ("step",)  # state of one element

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

    def state_of(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """A parameter's state, made if there is none."""
        state = self.state.get(p)
        if not state:
            state = self.new_state(p, group)
            if state:
                self.state[p] = state
        return state

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        """Changes one parameter; step counts from one, where there is a step."""
        raise NotImplementedError

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
        check_devices(group)
        options = numbers_of(group)
        maximize = options.get("maximize", False)
        coupled, decoupled = self.decays(options)
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.is_sparse:
                refuse_sparse(self)
            state = self.state_of(p, group)
            count = state.get("step")
            if count is not None:
                count += 1
                count = count.item()
            if maximize:
                grad = -grad
            if coupled:
                grad = grad.add(p, alpha=coupled)
            if decoupled:
                p.mul_(1 - options["lr"] * decoupled)
            self.update(p, grad, state, count, options)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for entries in self.state.values():  # very old checkpoints have plain numbers
            for name in self.scalars if isinstance(entries, dict) else ():
                if isinstance(entries.get(name), (int, float)):
                    entries[name] = tensor(float(entries[name]), dtype=_scalar_dtype())


def refuse_sparse(optimizer: Any) -> None:
    """Raises for a sparse gradient."""
    name = type(optimizer).__name__
    hint = ", please consider SparseAdam instead" if name == "Adam" else ""
    raise RuntimeError(f"{name} does not support sparse gradients{hint}")


def numbers_of(group: dict[str, Any]) -> dict[str, Any]:
    """A group's options.  See Note [Numbers or tensors] in _elementwise.py."""
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


def check_devices(group: dict[str, Any]) -> None:
    """Raises if `capturable`, `fused` or `foreach` cannot be."""
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
