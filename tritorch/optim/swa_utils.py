"""Averages of a model's parameters over training, as in torch.optim.swa_utils."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Literal

from tritorch.autograd import no_grad
from tritorch.core.dtype import int64
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import Module
from tritorch.ops.shape.factory import tensor
from tritorch.optim._schedule import LRScheduler, _format_param
from tritorch.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Tensors = tuple[Tensor, ...] | list[Tensor]
Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Tensors, Tensors, Any], None]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _lerp(averages: Tensors, currents: Tensors, weight: Any) -> None:
    """averages += weight (currents - averages)."""
    for average, current in zip(averages, currents):
        if average.is_floating_point() or average.is_complex():
            average.lerp_(current, weight)
        else:
            average.copy_(average + (current - average) * weight)


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """Exponential moving averages of lists of tensors, in place."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: Tensors, current_param_list: Tensors, _: Any) -> None:
        _lerp(ema_param_list, current_param_list, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """Equal-weight averages of lists of tensors, in place."""

    @no_grad()
    def swa_update(
        averaged_param_list: Tensors, current_param_list: Tensors, num_averaged: Any
    ) -> None:
        _lerp(averaged_param_list, current_param_list, 1 / (float(num_averaged) + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential moving average of one tensor."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """The equal-weight average of one tensor."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's.

    Args:
        model: what is averaged.
        device: where the averages live.
        avg_fn: (average, current, n_averaged) -> new average, of one tensor.
        multi_avg_fn: the same in place, of lists of tensors.
        use_buffers: whether buffers are averaged too, rather than copied.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's result."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Any) -> None:
        """Takes a model's parameters into the averages."""
        averages, currents = self._tensors(self.module), self._tensors(model)
        currents = [c.detach().to(a.device) for a, c in zip(averages, currents)]
        if self.n_averaged == 0:
            for average, current in zip(averages, currents):
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in zip(averages, currents):
                count = self.n_averaged.to(average.device)
                average.copy_(self.avg_fn(average, current, count))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            for members in _by_device_and_dtype(averages):
                count = self.n_averaged.to(averages[members[0]].device)
                update([averages[i] for i in members], [currents[i] for i in members], count)
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(other.detach().to(own.device))
        self.n_averaged += 1

    def _tensors(self, module: Any) -> list[Tensor]:
        buffers = module.buffers() if self.use_buffers else ()
        return [t.detach() for t in itertools.chain(module.parameters(), buffers)]


def _by_device_and_dtype(tensors: list[Tensor]) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    for i, t in enumerate(tensors):
        groups.setdefault((t.device, t.dtype), []).append(i)
    return list(groups.values())


@no_grad()
def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Computes the batch statistics of a model's batch norms anew, by a pass over a loader."""
    from tritorch.nn.modules.norm import _BatchNorm

    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for norm in momenta:
        norm.reset_running_stats()
        norm.momentum = None  # an average over all batches
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch if device is None else batch.to(device))
    for norm, momentum in momenta.items():
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the learning rate to swa_lr in anneal_epochs, along a line or half a cosine."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(_format_param("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _progress(self, step: int) -> float:
        """0 at the start, 1 at swa_lr."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, "
                "please use `get_last_lr()`.",
                UserWarning,
                stacklevel=2,
            )
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._progress(step - 1), self._progress(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, end = group["lr"], group["swa_lr"]
            # Where the line or cosine began, from where it is: other schedules may have moved it.
            start = end if before == 1 else (lr - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
