"""The CPU backend: operators on NumPy arrays (see docs/backends.md); and torch.cpu's names."""

from tritorch.cpu.queries import (
    Event,
    Stream,
    StreamContext,
    current_device,
    current_stream,
    device_count,
    get_capabilities,
    is_available,
    is_initialized,
    set_device,
    stream,
    synchronize,
)
