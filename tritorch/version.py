"""The version, in one place: packaging reads it from here."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

# As in torch.version, which names the libraries that PyTorch was compiled with.
debug = False
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
cuda: str | None  # these two when they are asked for
git_version: str


def _come_late(name: str) -> object:
    if name == "cuda":  # the driver's, or None without one: tritorch is compiled without CUDA
        from tritorch import _C

        number = _C.driver_version() if _C.device_count() else 0
        return f"{number // 1000}.{number % 1000 // 10}" if number else None
    if name == "git_version":  # the commit that the extension was built from
        from tritorch import _C

        return getattr(_C, "commit", "")
    raise AttributeError(f"module 'tritorch.version' has no attribute {name!r}")


if not TYPE_CHECKING:  # to checkers every name would be one
    __getattr__ = _come_late
