"""`python -m tritorch doctor`: what is here, what works, what does not, and the fix.

Standard library only, and of tritorch only what needs no extension: the report is wanted most when
the import fails.  Whatever could initialise CUDA, crash or hang runs in a process of its own.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tritorch.cli import commands
from tritorch.compat import extension as _extension, variables
from tritorch.triton import assemblers
from tritorch.version import __version__

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"

MIN_PYTHON = (3, 11)
MIN_NUMPY = (1, 26)
MIN_TRITON = (3, 6)
MIN_CUDA = 12000  # as the driver reports it: 12.0, which came with driver 525
GOOD_CAPABILITY = (8, 0)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the report."""

    name: str
    status: str
    detail: str
    fix: str = ""


def version_tuple(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: "3.6.0+git1" -> (3, 6, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _run(
    code: str, timeout: float = 120, environment: Mapping[str, str | None] = MappingProxyType({})
) -> tuple[str, str]:
    """Runs Python code in a fresh interpreter: its last line of output, or what went wrong."""
    env = {**os.environ, **{k: v for k, v in environment.items() if v is not None}}
    for name, value in environment.items():
        if value is None:
            env.pop(name, None)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env=env
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer within {timeout:.0f} s"
    except OSError as error:
        return "", str(error)
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return lines[-1], ""
    if done.returncode < 0:
        return "", f"the process died with signal {-done.returncode}"
    problems = done.stderr.strip().splitlines()
    return "", problems[-1] if problems else f"exit status {done.returncode}"


# -- what is installed -----------------------------------------------------------------------------


def check_platform() -> Finding:
    libc = " ".join(platform.libc_ver()).strip()
    detail = f"{platform.system()} {platform.release()} {platform.machine()}"
    detail += f", {libc}" if libc else ""
    if sys.platform == "linux":
        return Finding("platform", OK, detail)
    return Finding("platform", WARN, detail, "GPUs need Linux (or WSL 2, which counts as Linux)")


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    detail = f"{'.'.join(map(str, version))} at {sys.executable}"
    if version[:2] < MIN_PYTHON:
        return Finding("Python", FAIL, detail, "install Python 3.11 or newer")
    return Finding("Python", OK, detail)


def _installed(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _check_import(module: str, minimum: tuple[int, ...]) -> Finding:
    """Imports a dependency in a process of its own, and compares its version."""
    wanted = ".".join(map(str, minimum))
    fix = f"pip install '{module}>={wanted}'"
    version, problem = _run(f"import {module}; print({module}.__version__)")
    if problem:
        installed = _installed(module)
        if not installed:
            return Finding(module, FAIL, "not installed", fix)
        repair = f"pip install --force-reinstall {module}"
        return Finding(module, FAIL, f"{installed} is installed but fails: {problem}", repair)
    if version_tuple(version) < minimum:
        return Finding(module, FAIL, f"{version} is too old", fix)
    return Finding(module, OK, version)


def check_numpy() -> Finding:
    return _check_import("numpy", MIN_NUMPY)


def check_ml_dtypes() -> Finding:
    return _check_import("ml_dtypes", (0, 4))


def check_triton() -> Finding:
    if sys.platform != "linux" and not _installed("triton"):
        return Finding("triton", NOTE, "not installed: there is none for this platform")
    found = _check_import("triton", MIN_TRITON)
    if found.status == OK and version_tuple(found.detail)[:2] == (3, 6):
        numpy = _installed("numpy")
        if version_tuple(numpy) >= (2, 4):
            return Finding(
                "triton",
                NOTE,
                f"{found.detail}; its own interpreter (TRITON_INTERPRET=1) fails with NumPy 2.4 "
                f"and later (here {numpy}); tritorch's simulated device works around that",
            )
    return found


def check_extension() -> Finding:
    found = _extension.problem()
    if found is None:
        module = sys.modules["tritorch._C"]
        return Finding("extension", OK, str(module.__file__))
    what, command = found
    return Finding("extension", FAIL, what, f"run `{command}`")


# -- the driver and its GPUs -----------------------------------------------------------------------

_PROBE = r"""
import ctypes, json, os
out = {"library": os.environ.get("TRITORCH_LIBCUDA") or "libcuda.so.1", "gpus": []}
def probe():
    try:
        cuda = ctypes.CDLL(out["library"])
    except OSError as error:
        out["load_error"] = str(error)
        return
    number = ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(number))
    out["cuda"] = number.value
    out["init"] = cuda.cuInit(0)
    if out["init"]:
        name = ctypes.c_char_p()
        if not cuda.cuGetErrorName(out["init"], ctypes.byref(name)) and name.value:
            out["init_name"] = name.value.decode()
        return
    cuda.cuDeviceGetCount(ctypes.byref(number))
    for index in range(number.value):
        device, value = ctypes.c_int(), ctypes.c_int()
        name, total = ctypes.create_string_buffer(256), ctypes.c_size_t()
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetName(name, 256, device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
        capability = []
        for attribute in (75, 76):
            cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            capability.append(value.value)
        out["gpus"].append(
            {"name": name.value.decode(), "memory": total.value, "capability": capability}
        )
probe()
print(json.dumps(out))
"""


def probe_driver() -> dict[str, Any]:
    """What the driver says, asked in a process of its own so that this one never opens CUDA."""
    answer, problem = _run(_PROBE, timeout=60)
    return json.loads(answer) if answer else {"crash": problem, "gpus": []}


def kernel_module_version() -> str:
    """The version of NVIDIA's kernel module ("550.54.15"), or nothing."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    match = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return match[1] if match else ""


def check_driver(probe: dict[str, Any], module: str = "") -> Finding:
    simulate = "" if _simulated() else "; TRITORCH_SIMULATE_CUDA=1 tries tritorch without a GPU"
    if "crash" in probe:
        return Finding("driver", WARN, f"asking it failed: {probe['crash']}", "run nvidia-smi")
    if "load_error" in probe:
        if named := os.environ.get("TRITORCH_LIBCUDA"):
            fix = f"TRITORCH_LIBCUDA names {named}, which does not load: correct or unset it"
        elif module or os.path.exists("/dev/nvidiactl"):
            fix = (
                "the kernel module is here but not its library: in a container, start it with "
                "--gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
            )
        elif os.path.exists("/usr/lib/wsl/lib/libcuda.so.1"):
            fix = "export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH"
        else:
            fix = "for a GPU, install the NVIDIA driver, 525 or newer" + simulate
        return Finding("driver", NOTE, f"none ({probe['load_error']})", fix)
    cuda = f"CUDA {probe['cuda'] // 1000}.{probe['cuda'] % 1000 // 10}"
    detail = f"{module}, {cuda}" if module else cuda
    if probe["cuda"] < MIN_CUDA:
        return Finding(
            "driver", WARN, f"{detail} is too old", "install driver 525 (CUDA 12.0) or newer"
        )
    if probe.get("init"):
        name = probe.get("init_name", f"error {probe['init']}")
        fixes = {
            100: "no GPU is visible: look at CUDA_VISIBLE_DEVICES and nvidia-smi" + simulate,
            803: "the library and the kernel module differ in version: reboot after the upgrade",
            804: "this GPU does not support the compatibility package: remove cuda-compat",
            999: "nvidia-smi and dmesg say more; reloading the nvidia_uvm module often helps",
        }
        return Finding(
            "driver", WARN, f"{detail}: {name}", fixes.get(probe["init"], "run nvidia-smi")
        )
    return Finding("driver", OK, detail)


def check_gpus(probe: dict[str, Any]) -> Iterator[Finding]:
    for index, gpu in enumerate(probe["gpus"]):
        major, minor = gpu["capability"]
        detail = f"{gpu['name']}, {gpu['memory'] / 2**30:.1f} GiB, sm_{major}{minor}"
        if (major, minor) < GOOD_CAPABILITY:
            fix = "sm_80 or newer is recommended: kernels are tested for sm_80, sm_90 and sm_100"
            yield Finding(f"GPU {index}", WARN, detail, fix)
        else:
            yield Finding(f"GPU {index}", OK, detail)


def check_assemblers(probe: dict[str, Any]) -> Iterator[Finding]:
    """Compares the driver with the ptxas that Triton runs for each kind of GPU."""
    for capability in sorted({tuple(gpu["capability"]) for gpu in probe["gpus"]}):
        target = 10 * capability[0] + capability[1]
        found = assemblers.chosen(target, probe.get("cuda", 0))
        release = found.release() if found is not None else ()
        if found is None or not release:
            continue
        detail = f"CUDA {release[0]}.{release[1]}, for sm_{target}"
        if assemblers.is_other(found, target):
            detail += f" ({found.name}: Triton's own choice is not sound for it, or not loadable)"
        if release >= (13,) and probe.get("cuda", 0) < 13000:
            which = assemblers.setting_of(target)
            fix = (
                "a driver before CUDA 13 refuses its machine code: install driver 580 or newer, "
                f"or set {which} to a ptxas of CUDA 12"
            )
            yield Finding("ptxas", WARN, detail, fix)
        else:
            yield Finding("ptxas", OK, detail)


# -- settings and folders --------------------------------------------------------------------------


def check_settings(environment: dict[str, str]) -> Iterator[Finding]:
    for name, value in sorted(environment.items()):
        if not name.startswith("TRITORCH_"):
            continue
        if name == assemblers.DRIVER or not value:  # for processes of tritorch's own, or unset
            continue
        if sentence := variables.refusal(name, value) if name in variables.SETTINGS else "":
            yield Finding(name, FAIL, sentence.removeprefix(f"{name}: "), "correct or unset it")
        elif name in variables.SETTINGS:
            shown = "set" if name == "TRITORCH_JOB_SECRET" else repr(value)
            off = name == "TRITORCH_SIMULATE_CUDA" and value == "0"
            about = "no simulated device" if off else variables.SETTINGS[name].about
            missing = [
                path for path in value.split(":")
                if name == "TRITORCH_KERNEL_PACK" and path and not os.path.exists(path)
            ]  # fmt: skip
            if missing:
                yield Finding(name, WARN, f"{shown}: there is no {missing[0]}", "correct it")
            else:
                yield Finding(name, NOTE, f"{shown}: {about}")
        else:
            near = difflib.get_close_matches(name, variables.SETTINGS, 1)
            known = ", ".join(variables.SETTINGS)
            fix = f"did you mean {near[0]}?" if near else f"known: {known}"
            yield Finding(name, WARN, f"{value!r}: tritorch has no such setting", fix)


def check_kept() -> Iterator[Finding]:
    """What is in tritorch's own cache, if it can be asked."""
    try:
        from tritorch.triton import cache
    except ImportError:  # without the extension
        return
    if cache.root() is None:
        yield Finding("kept kernels", NOTE, "none: there is no home", "set TRITORCH_CACHE_DIR")
        return
    kept = [size for _, size in cache.entries()]
    detail = f"{len(kept)} kernels, {sum(kept) / 1e6:.1f} MB in {cache.root()}"
    fix = "`python -m tritorch precompile --clear` removes them" if sum(kept) > 5e8 else ""
    yield Finding("kept kernels", NOTE if fix else OK, detail, fix)


def _simulated() -> bool:
    return os.environ.get("TRITORCH_SIMULATE_CUDA", "") not in ("", "0")


def kernel_cache() -> Path:
    """Where Triton keeps compiled kernels."""
    if os.environ.get("TRITON_CACHE_DIR"):
        return Path(os.environ["TRITON_CACHE_DIR"])
    return Path(os.environ.get("TRITON_HOME") or Path.home()) / ".triton" / "cache"


def check_cache() -> Finding:
    folder = kernel_cache()
    nearest = folder
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        fix = "set TRITON_CACHE_DIR to a folder that you can write to"
        return Finding("kernel cache", WARN, f"{folder} is not writable ({error.strerror})", fix)
    return Finding("kernel cache", OK, str(folder))


# -- what works, by trying -------------------------------------------------------------------------

_IMPORT = "import tritorch; print(tritorch.__version__)"
# A copy there and back, and a strided one, which runs a Triton kernel.
_DEVICE = """
import numpy as np, tritorch
x = np.arange(12, dtype=np.float32).reshape(3, 4)
y = tritorch.cuda.from_numpy(x)
assert (y.numpy() == x).all() and (y.transpose(0, 1).clone().numpy() == x.T).all()
print(tritorch.cuda.get_device_name())
"""


def try_all(extension: Finding, driver: Finding, probe: dict[str, Any]) -> Iterator[Finding]:
    """Tries the CPU, the simulated device and the GPU, each in a process of its own."""
    if extension.status == FAIL:
        for name in ("CPU", "simulated device", "GPU"):
            yield Finding(name, FAIL, "no: the extension does not load")
        return
    # What the settings are refused for is said above; here is what works without those.
    refused: dict[str, str | None] = dict.fromkeys(variables.refusals(os.environ))
    _, problem = _run(_IMPORT, environment=refused)
    yield Finding("CPU", FAIL, f"no: {problem}") if problem else Finding("CPU", OK, "works")

    requested = _simulated() and "TRITORCH_SIMULATE_CUDA" not in refused
    setting = os.environ["TRITORCH_SIMULATE_CUDA"] if requested else "1"
    _, problem = _run(_DEVICE, environment=refused | {"TRITORCH_SIMULATE_CUDA": setting})
    if problem:
        yield Finding("simulated device", FAIL if requested else WARN, f"no: {problem}")
    else:
        how = "is on" if requested else "works; TRITORCH_SIMULATE_CUDA=1 turns it on"
        yield Finding("simulated device", OK, how)

    if not probe["gpus"]:
        yield Finding("GPU", NOTE, "no: none is usable here", driver.fix)
        return
    name, problem = _run(_DEVICE, environment=refused | {"TRITORCH_SIMULATE_CUDA": None})
    if problem:
        yield Finding("GPU", FAIL, f"no: {problem}")
    elif requested:
        yield Finding("GPU", NOTE, f"works ({name}), but TRITORCH_SIMULATE_CUDA hides it")
    else:
        yield Finding("GPU", OK, f"works ({name})")


# -- the report ------------------------------------------------------------------------------------


def examine() -> dict[str, list[Finding]]:
    """All findings, by section."""
    probe = probe_driver()
    extension = check_extension()
    driver = check_driver(probe, kernel_module_version())
    return {
        "Installed": [
            check_platform(),
            check_python(),
            check_numpy(),
            check_ml_dtypes(),
            check_triton(),
            extension,
        ],
        "GPU": [driver, *check_gpus(probe), *check_assemblers(probe)],
        "Settings": [*check_settings(dict(os.environ)), check_cache(), *check_kept()],
        "What works": [*try_all(extension, driver, probe)],
    }


def can_run(sections: dict[str, list[Finding]]) -> bool:
    """Whether nothing stands in the way of running on at least the CPU."""
    return all(finding.status != FAIL for found in sections.values() for finding in found)


def render(sections: dict[str, list[Finding]]) -> str:
    width = max(len(finding.name) for found in sections.values() for finding in found)
    lines = [f"tritorch {__version__} doctor"]
    for title, found in sections.items():
        lines += ["", title]
        for finding in found:
            lines.append(f"  [{finding.status:^4}] {finding.name:{width}}  {finding.detail}")
            if finding.fix:
                lines.append(f"  {'':6} {'':{width}}  -> {finding.fix}")
    verdict = "tritorch can run." if can_run(sections) else "tritorch cannot run: see [fail] above."
    return "\n".join([*lines, "", verdict])


def main(argv: list[str] | None = None) -> int:
    """Prints the report; the exit status: 0 if tritorch can run."""
    parser = commands.Parser(
        prog="python -m tritorch doctor",
        description="Report what is installed, what works, what does not, and the fix.",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--distributed", action="store_true",
        help="also look at the network, at ports, NCCL and the bus, and time two processes",
    )  # fmt: skip
    options = parser.parse_args(argv)
    sections = examine()
    if options.distributed:
        from tritorch.cli import doctor_distributed

        sections["Distributed"] = doctor_distributed.examine()
    if options.json:
        report: dict[str, Any] = {
            title: [dataclasses.asdict(finding) for finding in found]
            for title, found in sections.items()
        }
        print(
            json.dumps({"version": __version__, "can_run": can_run(sections), **report}, indent=2)
        )
    else:
        print(render(sections))
    return 0 if can_run(sections) else 1
