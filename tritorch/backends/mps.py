"""torch.backends.mps: Apple's GPUs are not supported."""

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_built() -> bool:
    """False."""
    return False


def is_available() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False: tritorch is for Linux."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: tritorch is for Linux."""
    return False
