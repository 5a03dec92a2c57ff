"""Questions about Triton that packages ask."""

from __future__ import annotations

import functools
import hashlib
from importlib.util import find_spec
from typing import Any


@functools.cache
def has_triton_package() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


@functools.cache
def get_triton_version(fallback: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Triton's version, (major, minor)."""
    if not has_triton_package():
        return fallback
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return int(major), int(minor)


def has_triton() -> bool:
    """Whether kernels can run: Triton is installed, and there is a GPU that it knows."""
    from tritorch import cuda

    return has_triton_package() and cuda.is_available() and cuda.get_device_capability() >= (7, 0)


def _device_supports_tma() -> bool:
    from tritorch import cuda

    return cuda.is_available() and cuda.get_device_capability() >= (9, 0)


def has_triton_stable_tma_api() -> bool:
    """Whether Triton and the GPU have tensor descriptors that kernels make."""
    if not (has_triton_package() and _device_supports_tma()):
        return False
    from triton import language

    return hasattr(language, "make_tensor_descriptor")


def has_triton_experimental_host_tma() -> bool:
    """Whether Triton has the descriptors of its first trial."""
    if not (has_triton_package() and _device_supports_tma()):
        return False
    return find_spec("triton.tools.experimental_descriptor") is not None


def has_triton_tensor_descriptor_host_tma() -> bool:
    """Whether Triton and the GPU have tensor descriptors that the host makes."""
    if not (has_triton_package() and _device_supports_tma()):
        return False
    return find_spec("triton.tools.tensor_descriptor") is not None


def has_triton_tma() -> bool:
    """Whether there are descriptors that the host makes."""
    return has_triton_tensor_descriptor_host_tma() or has_triton_experimental_host_tma()


def has_triton_tma_device() -> bool:
    """Whether there are descriptors that kernels make."""
    return has_triton_stable_tma_api()


def has_datacenter_blackwell_tma_device() -> bool:
    """Whether the GPU is one of data centers, of capability 10.x, with descriptors."""
    from tritorch import cuda

    return has_triton_tma_device() and cuda.get_device_capability()[0] == 10


@functools.cache
def triton_backend() -> Any:
    """Triton's compiler for the current GPU."""
    from triton.compiler.compiler import make_backend
    from triton.runtime.driver import driver

    return make_backend(driver.active.get_current_target())


@functools.cache
def triton_hash_with_backend() -> str:
    """What compiled kernels depend on: Triton and its compiler."""
    from triton.runtime.cache import triton_key

    text = f"{triton_key()}-{triton_backend().hash()}"
    return hashlib.sha256(text.encode()).hexdigest().upper()
