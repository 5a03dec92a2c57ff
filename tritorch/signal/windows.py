"""Window functions, as in torch.signal.windows."""

from tritorch.core.gates import publish
from tritorch.ops.fft.windows import FUNCTIONS

globals().update(publish(FUNCTIONS, __name__))
__all__ = sorted(FUNCTIONS)
