"""Short-time Fourier transforms, there and back; on a GPU the transforms go through the host."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core import defaults
from tritorch.core.dims import wrap_dim
from tritorch.core.promotion import category, scalar_name
from tritorch.core.published import autocast, computes
from tritorch.core.tensor import Tensor
from tritorch.ops.fft.fft import c2c, c2r, promoted, r2c
from tritorch.ops.record.checks import looks_at_values, refuse_where, require_tensor
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.factory import ones
from tritorch.ops.shape.memory import view_as_real
from tritorch.ops.shape.padding import pad


def _shown(value: Any) -> str:
    """An option as PyTorch's messages show it."""
    return "None" if value is None else str(int(value))


def _shown_window(window: Tensor | None) -> str:
    if window is None:
        return "None"
    return f"torch.{scalar_name(window.dtype)}Tensor{{{list(window.shape)}}}"


def _no_window(advice: str) -> None:
    defaults.warn_once(
        f"A window was not provided. A rectangular window will be applied{advice}To suppress this "
        f"warning and use a rectangular window, explicitly set "
        f"`window=torch.ones(n_fft, device=<device>)`.",
        stacklevel=4,
    )


def _centred(window: Tensor, n_fft: int) -> Tensor:
    """A window with zeros around."""
    left = (n_fft - window.shape[0]) // 2
    return (
        pad(window, (left, n_fft - window.shape[0] - left)) if window.shape[0] < n_fft else window
    )


@public()
@autocast("cpu:float32")
@ends_with("{'' if input.ndim > 1 else 'squeeze_.dim'}")
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Fourier transforms of windows that hop along the signal: (..., frequencies, windows)."""
    x = require_tensor(input, "stft", "input", 1)
    if window is None:
        _no_window(
            ",which is known to cause spectral leakage. Other windows such as torch.hann_window or "
            "torch.hamming_window are recommended to reduce spectral leakage."
        )
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        half = n_fft // 2
        lead = (1,) * (3 - x.ndim)
        padded = pad(x.reshape(*lead, *x.shape) if lead else x, (half, half), pad_mode)
        x = padded.reshape(padded.shape[len(lead) :]) if lead else padded
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length

    def require(holds: bool, needed: str) -> None:
        if not holds:
            raise RuntimeError(
                f"stft(torch.{scalar_name(x.dtype)}Tensor{list(x.shape)}, n_fft={n_fft}, "
                f"hop_length={hop}, win_length={length}, window={_shown_window(window)}, "
                f"normalized={_shown(normalized)}, onesided={_shown(onesided)}, "
                f"return_complex={_shown(return_complex)}, "
                f"align_to_window={_shown(align_to_window)}) : expected {needed}"
            )

    is_complex = x.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future PyTorch release."
            )
        return_complex = True
    elif not return_complex:
        defaults.warn(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will "
            "return complex tensors for all inputs, and return_complex=False will raise an error."
            "\nNote: you can still call torch.view_as_real on the complex output to recover the "
            "old return format.",
            stacklevel=2,
        )
    require(category(x.dtype) >= 2, "a tensor of floating point or complex values")
    require(x.ndim in (1, 2), "a 1D or 2D tensor")
    signal = x if x.ndim == 2 else x.unsqueeze(0)
    span = signal.shape[1]
    require(0 < n_fft <= span, f"0 < n_fft < {span}, but got n_fft={n_fft}")
    require(hop > 0, f"hop_length > 0, but got hop_length={hop}")
    require(0 < length <= n_fft, f"0 < win_length <= n_fft, but got win_length={length}")
    if window is not None:
        require(
            tuple(window.shape) == (length,),
            f"a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window.shape)}",
        )
    if is_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    onesided = not is_complex if onesided is None else onesided
    weights = window
    if length < n_fft:
        if weights is None:
            weights = ones(length, dtype=x.dtype, device=x.device)
        weights = _centred(weights, n_fft)
    if align_to_window and length < n_fft:  # windows start and end with the signal
        left = (n_fft - length) // 2
        signal = pad(signal, (left, left))
    frames = signal.unfold(-1, n_fft, hop)
    if weights is not None:
        frames = frames * weights
    norm, frames = 1 if normalized else 0, promoted(frames, False)
    out = c2c(frames, (2,), norm, True) if is_complex else r2c(frames, (2,), norm, onesided)
    out = out.transpose(1, 2)
    if x.ndim == 1:
        out = out.squeeze(0)
    return out if return_complex else view_as_real(out)


@public()
@computes("istft")
@ends_with("{'' if input.ndim > 2 else 'squeeze.dim'}")
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal of which stft gave the transforms: overlapping windows, added and divided."""
    x = require_tensor(input, "istft", "input", 1)
    if window is None:
        _no_window(".Please provide the same window used by stft to make the inversion lossless.")
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    one_side = onesided

    def shown() -> str:
        where = "CUDA" if x.is_cuda else "CPU"
        return (
            f"istft({where}{scalar_name(x.dtype)}Type{list(x.shape)}, n_fft={n_fft}, "
            f"hop_length={hop}, win_length={width}, window={_shown_window(window)}, "
            f"center={_shown(center)}, normalized={_shown(normalized)}, "
            f"onesided={_shown(one_side)}, length={_shown(length)}, "
            f"return_complex={_shown(return_complex)}) "
        )

    def require(holds: bool, message: str) -> None:
        if not holds:
            raise RuntimeError(shown() + message)

    if not x.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    wrap_dim(-3, x.ndim + 1)  # counted with real and imaginary parts
    size, count = x.shape[-2:]
    require(x.numel() > 0, ": input tensor cannot be empty.")
    require(x.ndim in (2, 3), f": expected a tensor with 3 or 4 dimensions, but got {x.ndim + 1}")
    onesided = n_fft != size if onesided is None else onesided
    if onesided:
        require(
            n_fft // 2 + 1 == size,
            f": expected the frequency dimension (3rd to the last) of the input tensor to match "
            f"n_fft / 2 + 1 when onesided=True, but got {size}",
        )
    else:
        require(
            n_fft == size,
            f": expected the frequency dimension (3rd to the last) of the input tensor to match "
            f"n_fft when onesided=False, but got {size}",
        )
    require(0 < hop <= width, ": expected 0 < hop_length <= win_length")
    require(0 < width <= n_fft, ": expected 0 < win_length <= n_fft")
    if window is not None:
        require(
            tuple(window.shape) == (width,),
            ": Invalid window shape. window has to be 1D and length of `win_length`",
        )
    complex_window = window is not None and window.is_complex()
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and complex_window:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    if window is None:
        window = ones(width, dtype=x.dtype.to_real(), device=x.device)
    window = _centred(window, n_fft)
    spectra = (x if x.ndim == 3 else x.unsqueeze(0)).transpose(1, 2)
    norm = 1 if normalized else 2
    if return_complex:
        frames = c2c(spectra, (2,), norm, False)
    else:
        half = spectra if onesided else spectra.narrow(-1, 0, n_fft // 2 + 1)
        frames = c2r(half, (2,), norm, n_fft)
    total = n_fft + hop * (count - 1)
    frames = frames * window
    signal = _overlapped(frames, total, hop)
    envelope = _overlapped((window * window).expand(1, count, n_fft), total, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - n_fft // 2 if center else total
    end_here = min(end, total)
    signal = signal[:, start:end_here]
    envelope = envelope[:, start:end_here]
    text = shown() + "window overlap add min: 1\n[ CPUBoolType{} ]"
    refuse_where(_vanishes, (envelope.detach(),), RuntimeError, text)
    out = signal / envelope
    if x.ndim == 2:
        out = out.squeeze(0)
    if length is not None and end > total:
        defaults.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            stacklevel=2,
        )
        out = pad(out, (0, end - total))
    return out


@looks_at_values
def _vanishes(envelope: Tensor) -> Tensor:
    return ~(envelope.abs() > 1e-11)


def _overlapped(frames: Tensor, total: int, hop: int) -> Tensor:
    """(batch, count, n) added up at `hop` from one another: (batch, total)."""
    batch, count, n = frames.shape
    # Each frame as rows of `hop`; the k-th rows of all frames lie side by side.
    rows = math.ceil(n / hop)
    frames = pad(frames, (0, rows * hop - n)) if rows * hop > n else frames
    parts = frames.reshape(batch, count, rows, hop)
    out = None
    for k in range(rows):
        part = parts[:, :, k].reshape(batch, count * hop)
        part = pad(part, (k * hop, (rows - 1 - k) * hop))
        out = part if out is None else out + part
    assert out is not None
    return out[:, :total]
