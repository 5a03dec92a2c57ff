"""Fourier transforms, as in torch.fft; on a GPU they go through the host."""

from tritorch.core.gates import publish
from tritorch.core.tensor import Tensor
from tritorch.ops.fft.fft import FFT

globals().update(publish(FFT, __name__))
