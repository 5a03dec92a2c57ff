"""`GradScaler`: losses are scaled so that float16 gradients do not vanish."""

from __future__ import annotations

import enum
import inspect
import warnings
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tritorch.amp.scaling import unscale_and_check_, update_scale_
from tritorch.autograd import no_grad
from tritorch.core.dtype import float16, float32, int32
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.ops.shape.factory import full, zeros

_SCALE_FIRST = (
    "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the "
    "iteration."
)


class OptState(enum.Enum):
    """Where an optimizer stands between two updates."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class _MultiDeviceReplicator:
    """Copies of a tensor on other devices, made when they are asked for."""

    def __init__(self, master_tensor: Tensor) -> None:
        self.master = master_tensor
        self._per_device_tensors: dict[Any, Tensor] = {}

    def get(self, device: Any) -> Tensor:
        """The copy on a device."""
        found = self._per_device_tensors.get(device)
        if found is None:
            found = self.master.to(device=device, non_blocking=True, copy=True)
            self._per_device_tensors[device] = found
        return found


class GradScaler:
    """Scales losses, unscales gradients, skips steps whose gradients overflowed.

        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    The scale grows by `growth_factor` after `growth_interval` steps without overflow, and shrinks
    by `backoff_factor` after one with.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            from tritorch import cuda

            if not cuda.is_available():
                warnings.warn(
                    "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                    stacklevel=2,
                )
                self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: Any = defaultdict(_fresh_state)

    # ---- the loss -----------------------------------------------------------------------------

    def _scale_on(self, device: Any) -> Tensor:
        if self._scale is None:
            self._scale = full((), self._init_scale, dtype=float32, device=device)
            self._growth_tracker = full((), self._init_growth_tracker, dtype=int32, device=device)
        return self._scale.to(device)

    def scale(self, outputs: Any) -> Any:
        """A tensor, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale_on(outputs.device)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _known_scale(self, caller: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(f"Attempted {caller} but _scale is None.  {_SCALE_FIRST}")
        return self._scale

    # ---- the gradients ------------------------------------------------------------------------

    @no_grad()
    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor | None, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Multiplies the gradients, in place, if at all; by device, whether any is not finite."""
        by_device: dict[Any, list[Tensor]] = defaultdict(list)
        for group in optimizer.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if not allow_fp16 and grad.dtype is float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                by_device[grad.device].append(grad)
        found: dict[Any, Tensor] = {}
        for device, grads in by_device.items():
            found[device] = zeros((), dtype=float32, device=device)
            factor = None if inv_scale is None else inv_scale.to(device)
            unscale_and_check_(grads, found[device], factor)
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divides an optimizer's gradients by the scale, once between two updates."""
        if not self._enabled:
            return
        scale = self._known_scale("unscale_")
        mine = self._per_optimizer_states[id(optimizer)]
        if mine["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if mine["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        mine["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, False)
        mine["stage"] = OptState.UNSCALED

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        self._known_scale("_check_inf_per_device")
        mine = self._per_optimizer_states[id(optimizer)]
        mine["found_inf_per_device"] = self._unscale_grads_(optimizer, None, True)
        return mine["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    # ---- the step -----------------------------------------------------------------------------

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscales if that was not done, and steps if all gradients are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._known_scale("step")
        mine = self._per_optimizer_states[id(optimizer)]
        if mine["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_with_scale(optimizer, mine, args, kwargs)
        else:
            if mine["stage"] is OptState.READY:
                self.unscale_(optimizer)
            if not mine["found_inf_per_device"]:
                raise AssertionError("No inf checks were recorded for this optimizer.")
            finite = not any(found.item() for found in mine["found_inf_per_device"].values())
            result = optimizer.step(*args, **kwargs) if finite else None
        mine["stage"] = OptState.STEPPED
        return result

    def _step_with_scale(self, optimizer: Any, mine: Any, args: Any, kwargs: Any) -> Any:
        """The optimizer unscales and skips itself, without the host waiting for the GPU."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            return optimizer.step(*args, grad_scaler=self, **kwargs)
        scale = self._known_scale("step")
        if mine["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
            held: Any = scale * getattr(optimizer, "grad_scale", 1)
        else:
            held = getattr(optimizer, "grad_scale", None)
        infinite = self._total(mine["found_inf_per_device"].values())
        with Scope((optimizer, "grad_scale", held), (optimizer, "found_inf", infinite)):
            return optimizer.step(*args, **kwargs)

    def _total(self, found: Iterable[Tensor]) -> Tensor:
        scale = self._known_scale("update")
        parts = [each.to(scale.device) for each in found]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapts the scale, or sets it; ends the iteration."""
        if not self._enabled:
            return
        scale = self._known_scale("update")
        if new_scale is None:
            found = [
                each
                for mine in self._per_optimizer_states.values()
                for each in mine["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            update_scale_(
                scale, self._growth_tracker, self._total(found), self._growth_factor,
                self._backoff_factor, self._growth_interval,
            )  # fmt: skip
        elif isinstance(new_scale, float):
            scale.fill_(new_scale)
        else:
            if (
                new_scale.device.type != self._device
                or new_scale.numel() != 1
                or new_scale.requires_grad
            ):
                raise AssertionError(
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                    "torch.FloatTensor with requires_grad=False."
                )
            scale.copy_(new_scale)
        self._per_optimizer_states = defaultdict(_fresh_state)

    # ---- its settings -------------------------------------------------------------------------

    def get_scale(self) -> float:
        """The scale; 1 when disabled.  Waits for the GPU."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the scale grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the scale shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps without overflow the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many steps without overflow the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and its settings; empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict()` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        if not self._enabled:
            return self.__dict__
        if self._per_optimizer_states:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at "
                "the end after scaler.update()."
            )
        return {
            **self.__dict__,
            "_init_scale": self.get_scale(),
            "_init_growth_tracker": self._get_growth_tracker(),
            "_scale": None,
            "_growth_tracker": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
