"""torch.backends.cpu: what the processor can."""

from tritorch.cpu import get_cpu_capability

__all__ = ["get_cpu_capability"]
