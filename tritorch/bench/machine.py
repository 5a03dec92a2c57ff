"""Where something was measured: processor, GPU, versions, commit, date."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "triton", "torch", "jax", "cupy-cuda13x", "cupy-cuda12x")


def cpu_name() -> str:
    """The processor's model."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit() -> str:
    """Of the checkout that this file lies in, or of the folder that the program runs in."""
    for folder in (Path(__file__).resolve().parent, Path.cwd()):
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True, text=True, cwd=folder, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            return done.stdout.strip()
    return "unknown"


def version(package: str) -> str | None:
    """Of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def describe(device: str = "cpu") -> dict[str, Any]:
    """This machine, for a report."""
    import tritorch

    found: dict[str, Any] = {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "tritorch": tritorch.__version__,
        **{name: version(name) for name in PACKAGES if version(name)},
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "load": round(os.getloadavg()[0], 1),  # what else ran when this began
        "gpu": None,
    }
    if device == "cuda":
        properties = tritorch.cuda.get_device_properties()
        found["gpu"] = tritorch.cuda.get_device_name()
        found["simulated"] = tritorch.cuda.is_simulated()
        found["multiprocessors"] = properties.multi_processor_count
        found["l2_bytes"] = properties.L2_cache_size
        found["driver"] = _driver()
    return found


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout else None
