"""Cold start: imports, and the first training step of a GPT, in fresh processes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from tritorch.bench import models
from tritorch.bench.declare import Benchmark, Kit, Scale, family
from tritorch.triton.trace import DISCARDING

_IMPORT = """
import time
start = time.perf_counter()
import {library}
print(time.perf_counter() - start)
"""
# The models are loaded by their path: importing tritorch.bench would cost a peer our import.
_FIRST_STEP = """
import time
start = time.perf_counter()
import importlib, runpy
t = importlib.import_module({library!r})
models = runpy.run_path({models!r})
step = models["trainer"](t, "gpt", {device!r}, **{sizes!r})
loss = step().item()
print(time.perf_counter() - start)
"""
# The host's part of it on a GPU of sm_90, here: kernels are taken as they were stored.
_STORED = """
import runpy, time
start = time.perf_counter()
import tritorch as t
from tritorch.triton import trace
if {stored}:
    trace.pretend(90)
    trace.take_stored()
models = runpy.run_path({models!r})
step = models["trainer"](t, "gpt", "cuda", **{sizes!r})
step()
print(time.perf_counter() - start)
"""
SMALL = {"layers": 1, "width": 16, "heads": 2, "words": 11, "length": 8, "batch": 1}


def fresh(code: str, **environment: str) -> float:
    """The number that code prints last, in a process of its own."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**inherited, **environment},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"a fresh process failed: {done.stderr.strip()[-800:]}")
    return float(done.stdout.split()[-1])


def _imports(kit: Kit) -> Callable[[], float]:
    code = _IMPORT.format(library=kit.t.__name__)
    fresh(code)  # fills the page cache and writes .pyc files
    return lambda: fresh(code)


# The caches of the last cold start of each library, which make the warm ones.
_filled: dict[tuple[str, str], tempfile.TemporaryDirectory[str]] = {}


def _first_step(warm: bool, **sizes: Any) -> Callable[[Kit], Callable[[], float]]:
    def make(kit: Kit) -> Callable[[], float]:
        key = kit.t.__name__, kit.device
        code = _FIRST_STEP.format(
            library=kit.t.__name__, models=models.__file__, device=kit.device, sizes=sizes
        )

        def cold() -> float:
            _filled[key] = tempfile.TemporaryDirectory()
            return fresh(code, **caches(_filled[key].name))

        if not warm:
            return cold
        if key not in _filled:
            cold()
        return lambda: fresh(code, **caches(_filled[key].name))

    return make


def _first_step_of_stored(kit: Kit) -> Callable[[], float]:
    folder = tempfile.TemporaryDirectory()
    code = lambda stored: _STORED.format(models=models.__file__, sizes=SMALL, stored=stored)
    program = os.path.join(folder.name, "program.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write(code(False))
    environment = caches(folder.name)
    command = [sys.executable, "-m", "tritorch", "precompile", "--target", "sm_90", program]
    subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, cwd=folder.name
    )
    _filled[kit.t.__name__, "stored"] = folder
    environment["TRITORCH_SIMULATE_CUDA"] = DISCARDING
    return lambda: fresh(code(True), **environment)


def caches(folder: str) -> dict[str, str]:
    """The environment that puts every cache of compiled kernels into a folder."""
    return {
        "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
        "TRITORCH_CACHE_DIR": os.path.join(folder, "tritorch"),
        "CUDA_CACHE_PATH": os.path.join(folder, "cuda"),
    }


@family("start", seconds=105)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """Seconds from the start of the import; kernels compiled before (warm) or not (cold)."""
    common: dict[str, Any] = {"clock": "self", "share": "", "tolerance": float("inf")}
    yield Benchmark(
        "start", "import", make=_imports, rounds=scale.pick(3, 7, 1), **common
    )  # fmt: skip
    sizes = scale.pick(models.GPT2 | {"batch": 4, "half": True}, SMALL, SMALL)
    what = "GPT-2 124M" if scale.name == "gpu" else "a tiny GPT"
    for warm in (False, True):  # the cold start fills the caches of the warm one
        rounds = scale.pick(3 if warm else 1, 3, 1)
        if warm or scale.name == "gpu":  # without a GPU there are no kernels to compile
            yield Benchmark(
                "start", f"first step of {what}, {'warm' if warm else 'cold'}",
                make=_first_step(warm, **sizes), rounds=rounds,
                tags=("warm",) if warm else ("cold",), **common,
            )  # fmt: skip
    if scale.name == "cpu" and importlib.util.find_spec("triton"):
        yield Benchmark(
            "start", f"first step of {what}, stored for sm_90",
            make=_first_step_of_stored, rounds=3, tags=("warm",), without=("torch", "jax", "cupy"),
            **common,
        )  # fmt: skip
