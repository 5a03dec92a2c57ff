"""The backend of lazy tensors, by PyTorch's name."""

from tritorch.compat.torch_private._lazy import steps


def init() -> None:
    """This thread's steps begin; see `tritorch._lazy`."""
    steps.start()
