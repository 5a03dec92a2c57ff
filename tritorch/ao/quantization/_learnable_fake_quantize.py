"""Fake quantization whose scale and zero point are trained."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import Tensor
from tritorch.ao.quantization.fake_quantize import FakeQuantizeBase, _is_symmetric_quant
from tritorch.nn.parameter import Parameter

__all__: list[str] = []


class _LearnableFakeQuantize(FakeQuantizeBase):
    """Rounds to the grid of a scale and a zero point that are parameters.

    They come from the observer (static_enabled) or from gradients (learning_enabled).
    channel_len: as many of each, or -1 for one. use_grad_scaling: their gradients are divided by
    sqrt(numel * quant_max), as in "Learned Step Size Quantization"."""

    def __init__(
        self,
        observer: Any,
        quant_min: int = 0,
        quant_max: int = 255,
        scale: float = 1.0,
        zero_point: float = 0.0,
        channel_len: int = -1,
        use_grad_scaling: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min >= quant_max:
            raise AssertionError("quant_min must be strictly less than quant_max.")
        if channel_len != -1 and not (isinstance(channel_len, int) and channel_len > 0):
            raise AssertionError("Channel size must be a positive integer.")
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.use_grad_scaling = use_grad_scaling
        count = max(channel_len, 1)
        self.scale = Parameter(torch.tensor([scale] * count))
        self.zero_point = Parameter(torch.tensor([zero_point] * count))
        made = observer(**{**observer_kwargs, "quant_min": quant_min, "quant_max": quant_max})
        self.activation_post_process = made
        if torch.iinfo(made.dtype).min > quant_min:
            raise AssertionError("quant_min out of bound")
        if quant_max > torch.iinfo(made.dtype).max:
            raise AssertionError("quant_max out of bound")
        self.dtype = made.dtype
        self.qscheme = made.qscheme
        self.ch_axis = made.ch_axis if hasattr(made, "ch_axis") else -1
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("static_enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("learning_enabled", torch.tensor([0], dtype=torch.uint8))
        self.bitwidth = int(torch.log2(torch.tensor(quant_max - quant_min + 1.0).double()).item())
        self.register_buffer("eps", torch.tensor([torch.finfo(torch.float32).eps]))

    def _set(self, learning: bool, rounding: bool, observing: bool) -> Any:
        self.toggle_qparam_learning(learning)
        self.toggle_fake_quant(rounding)
        return self.toggle_observer_update(observing)

    def enable_param_learning(self) -> Any:
        """Trains scale and zero point; rounds."""
        return self._set(learning=True, rounding=True, observing=False)

    def enable_static_estimate(self) -> None:
        """Takes scale and zero point from the observer; rounds."""
        self._set(learning=False, rounding=True, observing=True)

    def enable_static_observation(self) -> None:
        """Observes, and lets tensors pass as they are."""
        self._set(learning=False, rounding=False, observing=True)

    def toggle_observer_update(self, enabled: bool = True) -> Any:
        self.static_enabled[0] = int(enabled)
        return self

    def enable_observer(self, enabled: bool = True) -> None:
        self.toggle_observer_update(enabled)

    def toggle_qparam_learning(self, enabled: bool = True) -> Any:
        self.learning_enabled[0] = int(enabled)
        self.scale.requires_grad = enabled
        self.zero_point.requires_grad = enabled
        return self

    def toggle_fake_quant(self, enabled: bool = True) -> Any:
        self.fake_quant_enabled[0] = int(enabled)
        return self

    def observe_quant_params(self) -> None:
        """Prints scale and zero point."""
        print(f"_LearnableFakeQuantize Scale: {self.scale.detach()}")
        print(f"_LearnableFakeQuantize Zero Point: {self.zero_point.detach()}")

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        self.scale.data.clamp_(min=self.eps.item())
        zero_point = self.zero_point.detach().round().clamp(self.quant_min, self.quant_max)
        return self.scale.detach(), zero_point.long()

    def forward(self, X: Tensor) -> Tensor:
        if self.static_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.activation_post_process.calculate_qparams()
            self.scale.data.copy_(scale.to(self.scale.device))
            self.zero_point.data.copy_(zero_point.to(self.zero_point.device))
        else:
            self.scale.data.clamp_(min=self.eps.item())
        if self.fake_quant_enabled[0] != 1:
            return X
        if _is_symmetric_quant(self.qscheme):
            self.zero_point.data.zero_()
        factor = 1.0 / (X.numel() * self.quant_max) ** 0.5 if self.use_grad_scaling else 1.0
        by_channel = self.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine)
        kind, axis = ("channel", (self.ch_axis,)) if by_channel else ("tensor", ())
        function = getattr(torch, f"_fake_quantize_learnable_per_{kind}_affine")
        return function(
            X, self.scale, self.zero_point, *axis, self.quant_min, self.quant_max, factor
        )
