"""torch.backends.cpu: what the processor can."""

from tritorch.cpu.queries import get_cpu_capability

__all__ = ["get_cpu_capability"]
