"""Tiers of tests, and the device that they run on.

    pure, cpu    no marker; tests of plain functions
    device       uses a CUDA device: simulated, or real under TRITORCH_TEST_DEVICE=cuda
    simulated    means something on the simulated device only: seeds, injected failures
    gpu          needs a real GPU
    compile      compiles kernels for real targets, without a GPU
    slow         takes seconds, or repeats at length what a quick test does once: run with --slow
    native       of the bits or the speed of loops of our own, with the reason: not under
                 TRITORCH_NUMPY_ONLY=1 (`make judge-numpy-only`)

`make test` leaves the slow tier out, `.ci/run` has it.  Everything below tests/cuda is `device`
unless it says otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

REAL_GPU = os.environ.get("TRITORCH_TEST_DEVICE", "") == "cuda"
NUMPY_ONLY = os.environ.get("TRITORCH_NUMPY_ONLY", "").lower() in ("1", "on", "true")

# Results are compared to more digits than TF32 has.
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")

# Workers share the processors: threads of a BLAS that wait for each other spin (a test that starts
# processes took 50 s instead of 15).  Those that count threads set them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Containers often forbid Python to keep what it compiled: each of the processes that tests start
# would compile all of tritorch, which takes a second.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What a script starts in the background ignores Ctrl-C, and so do the programs that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
_FIRST_STATE = np.random.default_rng(0).bit_generator.state


def pytest_report_header() -> str:
    return f"tritorch device: {'a real GPU' if REAL_GPU else 'simulated'}"


def pytest_collection_finish() -> None:
    """What was collected stays: tests that collect garbage need not look at it again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="runs the tests in a random order")
    parser.addoption("--slow", action="store_true", help="runs the slow tests, too")


def _are_slow_wanted(config: pytest.Config) -> bool:
    """Slow tests run with --slow, and where they are named by a marker or one by one."""
    named = any("::" in str(argument) for argument in config.args)
    return config.getoption("--slow") or "slow" in config.getoption("markexpr") or named


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--shuffle") is not None:
        random.Random(config.getoption("--shuffle")).shuffle(items)
    if not _are_slow_wanted(config):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
    below_cuda = functools.cache(lambda path: (_TESTS / "cuda") in path.parents)
    for item in items:
        if " at 0x" in item.nodeid:  # workers would collect different tests
            raise pytest.UsageError(f"the name of a test has an address in it: {item.nodeid}")
        tiers = {"device", "simulated", "gpu", "compile"}
        if below_cuda(item.path) and not tiers & {mark.name for mark in item.iter_markers()}:
            item.add_marker("device")
        if item.get_closest_marker("gpu") and not REAL_GPU:
            item.add_marker(pytest.mark.skip(reason="needs a real GPU: TRITORCH_TEST_DEVICE=cuda"))
        if NUMPY_ONLY and (mark := item.get_closest_marker("native")):
            item.add_marker(pytest.mark.skip(reason=f"of native loops: {mark.args[0]}"))
        if item.get_closest_marker("simulated") and REAL_GPU:
            item.add_marker(pytest.mark.skip(reason="for the simulated device only"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return _TESTS.parent


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest) -> None:
    """Each test draws the same numbers, whichever ran before it: from tritorch's generator, which
    starts anywhere without a seed, and from NumPy's that its module shares (RNG)."""
    from tritorch.core.generator import default_generator

    default_generator.manual_seed(0)
    if hasattr(request.module, "RNG"):
        request.module.RNG.bit_generator.state = _FIRST_STATE


def _lost(device: int) -> str:
    """Why a real device cannot be used any more; "" if it can."""
    from tritorch import _C

    message = ""
    for _ in range(2):  # the first may tell of a failure that passes
        try:
            _C.synchronize(device)
        except _C.CudaError as error:
            message = str(error).splitlines()[0]
        else:
            message = ""
    return message


@pytest.fixture(autouse=True)
def _device_survives(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that broke the device must not break those after it.

    On a GPU each test waits for its own work, so that a failure is told where it belongs.  One that
    costs the context is written down and ends this worker, in whose place another starts.
    """
    yield
    _C = sys.modules.get("tritorch._C")
    if _C is None or not _C.driver_loaded():
        return
    if not REAL_GPU:
        with contextlib.suppress(_C.CudaError):  # what a failed test left in the queues
            _C.synchronize(0)
        _C.simulator.clear_error()
    elif message := _lost(0):
        line = f"the device is lost after {request.node.nodeid}: {message}"
        if "PYTEST_XDIST_WORKER" not in os.environ:
            pytest.exit(line, returncode=3)
        request.config.pluginmanager.getplugin("capturemanager").suspend_global_capture(True)
        os.write(2, f"\n{line}\n".encode())
        os._exit(3)
