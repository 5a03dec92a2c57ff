"""An observer of what reports need: ranges of batches and channels, and how far outliers go."""

from __future__ import annotations

import tritorch
from tritorch import Tensor
from tritorch.ao.quantization.observer import ObserverBase
from tritorch.jit import export

_INF = float("inf")


class ModelReportObserver(ObserverBase):
    """Watches the mean range of batches, the range of all, that of each channel along `ch_axis`,
    and the mean ratio of each channel's largest value to its percentile `comp_percentile`."""

    epoch_activation_min: Tensor
    epoch_activation_max: Tensor
    min_val: Tensor
    max_val: Tensor
    comp_percentile: Tensor
    average_percentile_ratio: Tensor
    percentile_batches_tracked: Tensor
    constant_channels: Tensor

    def __init__(self, ch_axis: int = 1, comp_percentile: float = 0.9) -> None:
        super().__init__(tritorch.qint8)
        self.ch_axis: int = ch_axis
        self.num_batches_tracked = 0
        self.average_batch_activation_range: Tensor = tritorch.tensor(0.0)
        self.register_buffer("epoch_activation_min", tritorch.tensor(_INF))
        self.register_buffer("epoch_activation_max", tritorch.tensor(-_INF))
        self.register_buffer("min_val", tritorch.tensor([]))
        self.register_buffer("max_val", tritorch.tensor([]))
        self.register_buffer("comp_percentile", tritorch.tensor([comp_percentile]))
        self.register_buffer("average_percentile_ratio", tritorch.tensor([]))
        self.register_buffer("percentile_batches_tracked", tritorch.tensor([]))
        self.register_buffer("constant_channels", tritorch.tensor([]))

    def forward(self, x: Tensor) -> Tensor:
        """Sees a batch."""
        seen = x.detach().to(self.epoch_activation_min.dtype)
        self._calculate_range_stats(seen)
        self._calculate_min_max_stats(seen)
        self._calculate_percentile_stats(seen)
        return x

    def _calculate_range_stats(self, x_copy: Tensor) -> Tensor:
        """Adds a batch's range to the mean, and to the range of all."""
        low, high = tritorch.aminmax(x_copy)
        self.epoch_activation_min.copy_(tritorch.min(self.epoch_activation_min, low))
        self.epoch_activation_max.copy_(tritorch.max(self.epoch_activation_max, high))
        total = self.average_batch_activation_range * self.num_batches_tracked + (high - low)
        self.num_batches_tracked += 1
        self.average_batch_activation_range = total / self.num_batches_tracked
        return x_copy

    def _channels(self, x: Tensor) -> Tensor:
        """A row for each channel."""
        return x.transpose(0, self.ch_axis).to(self.min_val.dtype).flatten(start_dim=1)

    def _calculate_min_max_stats(self, x_copy: Tensor) -> Tensor:
        """Widens the channels' ranges."""
        low, high = tritorch.aminmax(self._channels(x_copy), dim=1)
        if self.min_val.numel() != 0 and self.max_val.numel() != 0:
            low, high = tritorch.min(low, self.min_val), tritorch.max(high, self.max_val)
        self.min_val.resize_(low.shape).copy_(low)
        self.max_val.resize_(high.shape).copy_(high)
        return x_copy

    def _calculate_percentile_stats(self, x_copy: Tensor) -> Tensor:
        """Adds a batch's ratios to the mean, of channels that are not zero, and counts channels
        that are constant."""
        rows = self._channels(x_copy).to(device="cpu")
        wanted = tritorch.tensor([0.0, self.comp_percentile.item(), 1.0], dtype=rows.dtype)
        least, reference, largest = tritorch.quantile(
            rows, wanted, dim=self.ch_axis, interpolation="lower"
        )
        counted = ((reference != 0) | (largest != 0)).int()
        constant = (largest == least).int()
        ratios = counted * tritorch.nan_to_num(largest / reference)
        if 0 in (len(self.percentile_batches_tracked), len(self.average_percentile_ratio)):
            self.percentile_batches_tracked = tritorch.zeros_like(counted)
            self.average_percentile_ratio = tritorch.zeros_like(ratios)
        if len(self.constant_channels) == 0:
            self.constant_channels = tritorch.zeros_like(constant)
        before = self.percentile_batches_tracked
        batches = before + counted
        mean = (self.average_percentile_ratio * before + ratios) / batches
        self.percentile_batches_tracked.copy_(batches)
        self.average_percentile_ratio.copy_(tritorch.nan_to_num(mean))
        self.constant_channels.copy_(self.constant_channels + constant)
        return x_copy

    @export
    def get_batch_to_epoch_ratio(self):  # type: ignore[no-untyped-def]
        epoch_activation_range = self.epoch_activation_max - self.epoch_activation_min
        if epoch_activation_range == 0.0:
            raise ValueError("Range for Epoch is 0")
        if epoch_activation_range == float("inf"):
            raise ValueError("No data has been run through observer or infinity value present")
        return self.average_batch_activation_range / epoch_activation_range

    @export
    def reset_batch_and_epoch_values(self):  # type: ignore[no-untyped-def]
        device = self.max_val.device
        self.num_batches_tracked = 0
        self.average_batch_activation_range = tritorch.tensor(float(0), device=device)
        self.epoch_activation_min = tritorch.tensor(float("inf"), device=device)
        self.epoch_activation_max = tritorch.tensor(float("-inf"), device=device)
        self.min_val = tritorch.tensor([], device=device)
        self.max_val = tritorch.tensor([], device=device)
        self.average_percentile_ratio = tritorch.tensor([], device=device)
        self.percentile_batches_tracked = tritorch.tensor([], device=device)
        self.constant_channels = tritorch.tensor([], device=device)

    @export
    def calculate_qparams(self):  # type: ignore[no-untyped-def, override]
        raise Exception("calculate_qparams should not be called for ModelReportObserver")
