"""Tiers of tests, and the device that they run on.

    pure, cpu    no marker; tests of plain functions
    device       uses a CUDA device: simulated, or real under TRITORCH_TEST_DEVICE=cuda
    simulated    means something on the simulated device only: seeds, injected failures
    gpu          needs a real GPU
    compile      compiles kernels for real targets, without a GPU

Everything below tests/cuda is `device` unless it says otherwise.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REAL_GPU = os.environ.get("TRITORCH_TEST_DEVICE", "") == "cuda"

# Results are compared to more digits than TF32 has.
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")

# Before anything imports tritorch: the driver is chosen once a process.
if REAL_GPU:
    os.environ.pop("TRITORCH_SIMULATE_CUDA", None)
else:
    os.environ.setdefault("TRITORCH_SIMULATE_CUDA", "1")

# Kernels are interpreted or compiled within a test, so single examples may take long.
_SLOW_FIRST_EXAMPLE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("dev", deadline=None, suppress_health_check=_SLOW_FIRST_EXAMPLE)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=_SLOW_FIRST_EXAMPLE,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

_TESTS = Path(__file__).parent


def pytest_report_header() -> str:
    return f"tritorch device: {'a real GPU' if REAL_GPU else 'simulated'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        tiers = {"device", "simulated", "gpu", "compile"}
        if (_TESTS / "cuda") in item.path.parents and not tiers & {
            mark.name for mark in item.iter_markers()
        }:
            item.add_marker("device")
        if item.get_closest_marker("gpu") and not REAL_GPU:
            item.add_marker(pytest.mark.skip(reason="needs a real GPU: TRITORCH_TEST_DEVICE=cuda"))
        if item.get_closest_marker("simulated") and REAL_GPU:
            item.add_marker(pytest.mark.skip(reason="for the simulated device only"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return _TESTS.parent


@pytest.fixture(autouse=True)
def _simulated_device_survives() -> Iterator[None]:
    """A test that broke the simulated device must not break those after it."""
    yield
    _C = sys.modules.get("tritorch._C")
    if not REAL_GPU and _C is not None and _C.driver_loaded():
        with contextlib.suppress(_C.CudaError):  # what a failed test left in the queues
            _C.synchronize(0)
        _C.simulator.clear_error()
