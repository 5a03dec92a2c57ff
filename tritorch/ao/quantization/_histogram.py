"""Histograms of what passes, and the range in them that loses least; public in `observer`.

TorchScript reads these functions too."""

from __future__ import annotations

import warnings
from typing import Any

import tritorch as torch
from tritorch import Tensor, nn
from tritorch.ao.quantization._observer_base import _EPS, UniformQuantizationObserverBase

_STEP = 1e-5  # of the quantiles that are tried
_STEPS = 100001
_UPSAMPLED = 16  # parts of a bin when a histogram is laid on other bins


def _squares(begin: Tensor, end: Tensor, density: Tensor) -> Tensor:
    """Integral of density * x^2 from begin to end."""
    return density * ((end * end * end - begin * begin * begin) / 3)


def quantization_error(
    histogram: Tensor, low: float, high: float, start: int, end: int, levels: int
) -> float:
    """The squared error if the bins from start to end share the levels, and the others are cut."""
    bins = histogram.numel()
    width = (high - low) / bins
    level_width = width * (end - start + 1) / levels
    if level_width == 0.0:
        return 0.0
    density = histogram / width
    begins = (torch.arange(bins, device=histogram.device) - start) * width
    ends = begins + width
    last = levels - 1
    first_level = torch.clamp(torch.div(begins, level_width, rounding_mode="floor"), 0, last)
    last_level = torch.clamp(torch.div(ends, level_width, rounding_mode="floor"), 0, last)
    half = torch.tensor(level_width / 2)
    # From a bin's begin to the end of its first level, whole levels, and from the last one's begin.
    norm = torch.zeros(bins, device=histogram.device)
    norm += _squares(
        begins - (first_level + 0.5) * level_width,
        torch.ones(bins, device=histogram.device) * (level_width / 2),
        density,
    )
    norm += (last_level - first_level - 1) * _squares(-half, half, density)
    norm += _squares(-half, ends - (last_level * level_width + level_width / 2), density)
    return float(norm.sum().item())


def best_range(histogram: Tensor, low: float, high: float, levels: int) -> tuple[int, int]:
    """First and last bin of the range with the least error.

    Quantiles are cut off step by step, on the side where more bins go, until the error grows."""
    total = float(torch.sum(histogram).item())
    sums = torch.cumsum(histogram, dim=0)
    steps = torch.full([_STEPS], _STEP, dtype=torch.float64, device=histogram.device)
    steps[0] = 1.0 - _STEP
    betas = torch.cumsum(torch.cat([steps[:1], -steps[1:]]), dim=0)
    steps[0] = _STEP
    alphas = torch.cumsum(steps, dim=0)
    # The first bin whose sum is not below a quantile, and the last one whose sum is not above.
    lefts = torch.searchsorted(sums, (alphas * total).to(sums.dtype))
    rights = torch.searchsorted(sums, (betas * total).to(sums.dtype), right=True) - 1
    alpha, beta = 0.0, 1.0
    i, j = 0, 0
    start, end = 0, histogram.numel() - 1
    least = float("inf")
    while alpha < beta:
        left = min(max(int(lefts[i].item()), start), end)
        right = max(min(int(rights[j].item()), end), start)
        next_start, next_end = start, end
        if left - start > end - right:
            next_start = left
            alpha = float(alphas[i].item())
            i += 1
        elif right < end:
            next_end = right
            beta = float(betas[j].item())
            j += 1
        else:  # nothing moves before a quantile that is in another bin
            j = int(torch.searchsorted(-rights, -end, right=True).item())
            if j >= _STEPS or start == end:
                break
            beta = float(betas[j - 1].item())
            continue
        error = quantization_error(histogram, low, high, next_start, next_end, levels)
        if error > least:
            break
        least, start, end = error, next_start, next_end
    return start, end


def on_other_bins(
    histogram: Tensor, low: Tensor, high: Tensor, new_low: Tensor, new_high: Tensor
) -> Tensor:
    """A histogram of [low, high] on as many bins of [new_low, new_high]."""
    bins = histogram.numel()
    parts = histogram.repeat_interleave(_UPSAMPLED) / _UPSAMPLED
    count = bins * _UPSAMPLED
    begins = torch.linspace(low, high, count + 1, device=low.device)[:-1]
    middles = begins.to(histogram.device) + 0.5 * ((high - low) / count)
    bounds = torch.linspace(new_low, new_high, bins + 1, device=new_low.device)
    places = torch.bucketize(middles, bounds.to(histogram.device), right=True) - 1
    return torch.bincount(places.clamp(0, bins - 1), weights=parts, minlength=bins)


class HistogramObserver(UniformQuantizationObserverBase):
    """Keeps a histogram, and takes the range of it whose quantization loses least.

    Outliers are cut off where that costs less than coarser steps."""

    histogram: Tensor
    min_val: Tensor
    max_val: Tensor

    def __init__(
        self,
        bins: int = 2048,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        self._refuse(qscheme, per_channel=False, dynamic=is_dynamic)
        super().__init__(
            dtype,
            qscheme,
            reduce_range,
            quant_min,
            quant_max,
            factory_kwargs,
            eps,
            is_dynamic,
            **kwargs,
        )
        factory_kwargs = nn.factory_kwargs(factory_kwargs)
        self.bins = bins
        self.register_buffer("histogram", torch.zeros(bins, **factory_kwargs))
        self.register_buffer("min_val", torch.tensor(float("inf"), **factory_kwargs))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **factory_kwargs))
        self.dst_nbins = 2 ** torch.iinfo(dtype).bits
        self.upsample_rate = 16

    def _compute_quantization_error(self, next_start_bin: int, next_end_bin: int) -> float:
        low, high = float(self.min_val.item()), float(self.max_val.item())
        return quantization_error(
            self.histogram, low, high, next_start_bin, next_end_bin, self.dst_nbins
        )

    def _non_linear_param_search(self) -> tuple[Tensor, Tensor]:
        if self.histogram.size()[0] != self.bins:
            raise AssertionError("bins mismatch")
        low, high = float(self.min_val.item()), float(self.max_val.item())
        start, end = best_range(self.histogram, low, high, self.dst_nbins)
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * start, self.min_val + width * (end + 1)

    def _combine_histograms(
        self,
        orig_hist: Tensor,
        orig_min: Tensor,
        orig_max: Tensor,
        update_hist: Tensor,
        update_min: Tensor,
        update_max: Tensor,
    ) -> Tensor:
        """The sum on the bins of update_hist, whose range has the other in it."""
        if update_min == orig_min and update_max == orig_max:
            return orig_hist + update_hist
        if orig_min == orig_max:  # one value, as often as the bins say together
            where = torch.histc(
                orig_min, bins=self.bins, min=float(update_min), max=float(update_max)
            )
            return where * torch.sum(orig_hist) + update_hist
        if update_min > orig_min:
            raise AssertionError("update_min must be <= orig_min")
        if update_max < orig_max:
            raise AssertionError("update_max must be >= orig_max")
        return update_hist + on_other_bins(orig_hist, orig_min, orig_max, update_min, update_max)

    def _keep(self, histogram: Tensor, low: Tensor, high: Tensor) -> None:
        self.histogram.detach_().resize_(histogram.shape)
        self.histogram.copy_(histogram)
        self.min_val.detach_().resize_(low.shape)
        self.min_val.copy_(low)
        self.max_val.detach_().resize_(high.shape)
        self.max_val.copy_(high)

    def reset_histogram(self, x: Tensor, min_val: Tensor, max_val: Tensor) -> None:
        """Starts anew with the values of x in this range."""
        if min_val.numel() != 1 or max_val.numel() != 1:
            raise AssertionError("histogram min/max values must be scalar.")
        histogram = torch.histc(x, self.bins, min=float(min_val), max=float(max_val))
        self._keep(histogram, min_val, max_val)

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        low, high = torch.aminmax(x)
        if low == float("-inf") or high == float("inf"):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            low, high = torch.aminmax(x)
        if self.min_val == float("inf") or self.max_val == float("-inf"):
            self.reset_histogram(x, low, high)
            return x_orig
        low = torch.min(self.min_val, low).detach()
        high = torch.max(self.max_val, high).detach()
        update = torch.histc(x, self.bins, min=float(low), max=float(high))
        update = update.to(self.histogram.device)
        both = self._combine_histograms(
            self.histogram, self.min_val, self.max_val, update, low, high
        )
        self._keep(both, low, high)
        return x_orig

    @torch.jit.export
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            warnings.warn(
                "must run observer before calling calculate_qparams."
                "                                    Returning default scale and zero point ",
                stacklevel=2,
            )
            return (
                torch.tensor([1.0], device=self.min_val.device),
                torch.tensor([0], device=self.min_val.device),
            )
        if self.bins != len(self.histogram):
            raise AssertionError(
                "The number of bins in histogram should be equal to the number of bins "
                "supplied while making this observer"
            )
        low, high = self._non_linear_param_search()
        return self._calculate_qparams(low, high)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        *rest: Any,
    ) -> None:
        version = local_metadata.get("version") or 1
        for name, unset in (("min_val", float("inf")), ("max_val", float("-inf"))):
            key = prefix + name
            if key in state_dict:
                if version < 3 and state_dict[key].shape == torch.Size([0]):
                    state_dict[key] = torch.tensor(unset)
                setattr(self, name, state_dict[key])
            elif strict:
                missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, *rest
        )

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"
