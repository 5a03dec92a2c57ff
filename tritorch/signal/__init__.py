"""Signal processing, as in torch.signal."""

from tritorch.signal import windows

__all__ = ["windows"]
