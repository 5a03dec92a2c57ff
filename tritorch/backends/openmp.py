"""torch.backends.openmp: threads are Python's and the BLAS's."""

__all__ = ["is_available"]


def is_available() -> bool:
    """False."""
    return False
