"""Fourier transforms, as in torch.fft."""

from tritorch.core.gates import publish
from tritorch.ops.fft import FFT

globals().update(publish(FFT, __name__))
