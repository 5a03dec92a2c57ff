"""One library's version of one benchmark, ready to be timed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tritorch.bench import supply
from tritorch.bench.declare import Benchmark, Kit

OURS = "tritorch"
COMPARED = 1 << 20  # elements of a result, at most, that are compared

Call = Callable[[], Any]


def installed() -> list[str]:
    """The peers that are here."""
    return [name for name in ("torch", "jax", "cupy") if importlib.util.find_spec(name)]


def has_gpu(name: str) -> bool:
    """Whether a peer, as it is installed, can use the GPU."""
    quiet()
    try:
        module = importlib.import_module(name)
        if name == "torch":
            return module.cuda.is_available()
        if name == "jax":
            return module.default_backend() in ("gpu", "cuda")
        return module.cuda.runtime.getDeviceCount() > 0
    except Exception:  # whatever is wrong with a peer, it does not take part
        return False


def contestants(benchmark: Benchmark, peers: Sequence[str], device: str) -> list[str]:
    """Who takes part in a benchmark: ours, PyTorch in each form that applies, others by name."""
    names = [OURS]
    special = benchmark.peers
    if "torch" in peers and "torch" not in benchmark.without:
        names.append("torch")
        names += [n for n in special if n.startswith("torch.") and n != "torch.compile"]
    if "torch.compile" in peers and benchmark.compiled:
        names.append("torch.compile")
    names += [name for name in peers if name in special and not name.startswith("torch")]
    if device == "cpu":  # these are for a GPU
        names = [name for name in names if not name.startswith("torch.sdpa") and name != "cupy"]
    return names


class Prepared:
    """The functions to time, one a set of inputs, and how their library waits."""

    def __init__(self, name: str, calls: list[Call], wait: Call | None = None) -> None:
        self.name = name
        self.calls = calls
        self.wait = wait  # of libraries whose work is not on our stream
        self.peak: int | None = None
        self.replay: Any = None  # of a graph of the calls, once one was captured


def prepare(
    benchmark: Benchmark, name: str, device: str, ours: list[dict[str, Any]] | None, sets: int
) -> Prepared:
    """Builds the functions.  `ours` are our inputs to share; without, they are made here."""
    library = name.split(".")[0]
    if library in ("jax", "cupy"):
        if ours is None:
            t = importlib.import_module(OURS)
            ours = [supply.inputs(t, benchmark, which, device) for which in range(sets)]
        return _foreign(benchmark, library, ours)
    t = importlib.import_module(library)
    kits = []
    for which in range(sets):
        if ours is None:
            given = supply.inputs(t, benchmark, which, device)
        elif library == OURS:
            given = ours[which]
        else:
            given = supply.shared(t, ours[which], benchmark)
        kits.append(Kit(t, device, given, name))
    if library == "torch":  # convolutions by the fastest of cuDNN's algorithms
        t.backends.cudnn.benchmark = True
    if name == "torch.compile":
        t._dynamo.reset()  # else the limit of recompilations counts over all benchmarks
        # Donated buffers would forbid going backward twice through one graph.
        vars(importlib.import_module("torch._functorch.config"))["donated_buffer"] = False
    return Prepared(name, [benchmark.prepared(kit) for kit in kits])


@contextlib.contextmanager
def tritons_driver(wanted: bool) -> Iterator[None]:
    """Triton's own driver in place of ours, for what torch.compile compiles and launches."""
    if not wanted:
        yield
        return
    from triton.runtime import driver

    ours = driver.active
    driver.reset_active()
    try:
        yield
    finally:
        driver.set_active(ours)


def _foreign(benchmark: Benchmark, library: str, ours: list[dict[str, Any]]) -> Prepared:
    module = importlib.import_module(library)
    kits = [Kit(module, "", supply.foreign(library, given, benchmark), library) for given in ours]
    calls = [benchmark.prepared(kit) for kit in kits]
    if library == "jax":
        last: list[Any] = []

        def remember(call: Call) -> Call:
            def run() -> Any:
                last[:] = [call()]
                return last[0]

            return run

        return Prepared(library, [remember(call) for call in calls],
                        lambda: module.block_until_ready(last))  # fmt: skip
    return Prepared(library, calls)


# ---- results -------------------------------------------------------------------------------------


def flatten(result: Any) -> list[np.ndarray[Any, Any]]:
    """A call's result as float64 arrays on the host: at most COMPARED elements of each tensor."""
    if result is None or isinstance(result, (str, bool)):
        return []
    if isinstance(result, (int, float)):
        return [np.array([result], np.float64)]
    if isinstance(result, (tuple, list)):
        return [array for each in result for array in flatten(each)]
    if hasattr(result, "detach"):
        x = result.detach()
        x = x.reshape(-1)
        if x.numel() > COMPARED:
            x = x[:: -(-x.numel() // COMPARED)]
        return [np.array(x.double().cpu().numpy(), np.float64)]
    x = result.reshape(-1)
    if x.size > COMPARED:
        x = x[:: -(-x.size // COMPARED)]
    x = x.get() if hasattr(x, "get") else x
    return [np.asarray(x).astype(np.float64)]


def difference(
    got: Sequence[np.ndarray[Any, Any]], wanted: Sequence[np.ndarray[Any, Any]]
) -> float:
    """The norm of the difference over the norm, of the worst result; inf where shapes differ."""
    if len(got) != len(wanted):
        return float("inf")
    worst = 0.0
    for x, y in zip(got, wanted):
        if x.shape != y.shape or np.isnan(x).any() != np.isnan(y).any():
            return float("inf")
        norm = float(np.linalg.norm(y))
        worst = max(worst, float(np.linalg.norm(x - y)) / (norm or 1.0))
    return worst


def sampled(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements of a result that `flatten` keeps."""
    x = np.asarray(array, np.float64).reshape(-1)
    return x[:: -(-x.size // COMPARED)] if x.size > COMPARED else x


# ---- clocks --------------------------------------------------------------------------------------


def host_times(prepared: Prepared, count: int, batch: int, wait: Call) -> list[float]:
    """Seconds a call: `count` batches of `batch` calls, by the host's clock; `wait` is not timed
    unless the library has a wait of its own."""
    calls, times = prepared.calls, []
    turn = 0
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(batch):
            calls[turn % len(calls)]()
            turn += 1
        if prepared.wait is not None:
            prepared.wait()
        times.append((time.perf_counter() - start) / batch)
        wait()
    return times


def self_times(prepared: Prepared, count: int) -> list[float]:
    """What calls that time themselves return."""
    return [float(prepared.calls[0]()) for _ in range(count)]


def quiet() -> None:
    """Settings of this process that keep peers from taking more than their part."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(min(8, os.cpu_count() or 1)))
