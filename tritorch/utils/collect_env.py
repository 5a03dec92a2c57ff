"""What a report of a bug says about the machine: `python -m tritorch.utils.collect_env` prints it.

The fields are those of torch.utils.collect_env, and each is what is true here: of PyTorch's parts
that tritorch does without (cuDNN, ROCm, XNNPACK) it is that they are not used.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, NamedTuple

import tritorch

COMMON_PATTERNS = ["torch", "numpy", "triton", "optree"]
NVIDIA_PATTERNS = [
    "cuda-cudart", "cuda-cupti", "cuda-libraries", "cuda-opencl", "cuda-nvrtc", "cuda-runtime",
    "cublas", "cudnn", "cufft", "curand", "cusolver", "cusparse", "nccl", "nvjitlink", "nvtx",
]  # fmt: skip
CONDA_PATTERNS = ["cudatoolkit", "soumith", "mkl", "magma"]
PIP_PATTERNS = ["mypy", "flake8", "onnx"]
TORCH_AVAILABLE = True

Run = tuple[int, str, str]
RunLambda = Callable[[Any], Run]


class SystemEnv(NamedTuple):
    """The fields of a report; None where nothing could be found out."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str | None
    gcc_version: str | None
    clang_version: str | None
    cmake_version: str | None
    os: str | None
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    cuda_runtime_version: str | None
    cuda_module_loading: str
    nvidia_driver_version: str | None
    nvidia_gpu_models: str | None
    cudnn_version: str | None
    is_xpu_available: str
    pip_version: str
    pip_packages: str | None
    conda_packages: str | None
    hip_compiled_version: str
    hip_runtime_version: str
    miopen_runtime_version: str
    caching_allocator_config: dict[str, str]
    is_xnnpack_available: str
    cpu_info: str


def run(command: str | Sequence[str]) -> Run:
    """The status, output and errors of a command; a str is one of the shell."""
    done = subprocess.run(
        command, shell=isinstance(command, str), capture_output=True, text=True, errors="replace"
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def run_and_read_all(run_lambda: RunLambda, command: Any) -> str | None:
    """A command's output, or None if it fails."""
    status, out, _ = run_lambda(command)
    return out if status == 0 else None


def run_and_parse_first_match(run_lambda: RunLambda, command: Any, regex: str) -> str | None:
    """The group of a pattern's first match in a command's output."""
    match = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return match.group(1) if match else None


def run_and_return_first_line(run_lambda: RunLambda, command: Any) -> str | None:
    """The first line of a command's output."""
    out = run_and_read_all(run_lambda, command)
    return None if out is None else out.split("\n")[0]


# ---- the system ----------------------------------------------------------------------------------


def get_platform() -> str:
    """The system's name, as sys.platform begins."""
    known = ("linux", "win32", "cygwin", "darwin")
    return next((name for name in known if sys.platform.startswith(name)), sys.platform)


def get_gcc_version(run_lambda: RunLambda) -> str | None:
    """What gcc says of itself."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda: RunLambda) -> str | None:
    """What clang says of itself."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda: RunLambda) -> str | None:
    """What CMake says of itself."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_lsb_version(run_lambda: RunLambda) -> str | None:
    """The distribution, from lsb_release."""
    return run_and_parse_first_match(run_lambda, "lsb_release -a", r"Description:\t(.*)")


def check_release_file(run_lambda: RunLambda) -> str | None:
    """The distribution, from /etc."""
    return run_and_parse_first_match(run_lambda, "cat /etc/*-release", r'PRETTY_NAME="(.*)"')


def get_mac_version(run_lambda: RunLambda) -> str | None:
    """The version of macOS."""
    return run_and_parse_first_match(run_lambda, "sw_vers -productVersion", r"(.*)")


def get_os(run_lambda: RunLambda) -> str | None:
    """The system's name and version, and the processor."""
    name = get_platform()
    if name == "darwin":
        version = get_mac_version(run_lambda)
        return None if version is None else f"macOS {version} ({platform.machine()})"
    if name == "linux":
        found = get_lsb_version(run_lambda) or check_release_file(run_lambda) or name
        return f"{found} ({platform.machine()})"
    return platform.platform() if name in ("win32", "cygwin") else name


def get_python_platform() -> str:
    """The platform, as Python says it."""
    return platform.platform()


def get_libc_version() -> str:
    """The C library that Python is linked with."""
    return "-".join(platform.libc_ver()) if get_platform() == "linux" else "N/A"


def get_cpu_info(run_lambda: RunLambda) -> str:
    """What lscpu says; without it, the error."""
    commands = {"linux": "lscpu", "darwin": "sysctl -n machdep.cpu.brand_string"}
    if get_platform() not in commands:
        return platform.processor() or "None"
    status, out, errors = run_lambda(commands[get_platform()])
    return out if status == 0 else errors


# ---- GPUs ----------------------------------------------------------------------------------------


def get_nvidia_smi() -> str:
    """The command that knows the driver."""
    return "nvidia-smi"


def get_nvidia_driver_version(run_lambda: RunLambda) -> str | None:
    """The driver's version, from nvidia-smi or from the kernel module."""
    found = run_and_parse_first_match(run_lambda, get_nvidia_smi(), r"Driver Version: (.*?) ")
    if found is None:
        module = "cat /proc/driver/nvidia/version"
        found = run_and_parse_first_match(run_lambda, module, r"Kernel Module.*?\s(\d+\.[\d.]+)\s")
    return found


def get_gpu_info(run_lambda: RunLambda) -> str | None:
    """A line for each GPU, without what tells it from others of its kind."""
    out = run_and_read_all(run_lambda, get_nvidia_smi() + " -L")
    if out is None:
        if not tritorch.cuda.is_available():
            return None
        count = tritorch.cuda.device_count()
        return "\n".join(f"GPU {i}: {tritorch.cuda.get_device_name(i)}" for i in range(count))
    return re.sub(r" \(UUID: .+?\)", "", out)


def get_running_cuda_version(run_lambda: RunLambda) -> str | None:
    """The version of an installed CUDA compiler."""
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


def get_cudnn_version(run_lambda: RunLambda) -> str | None:
    """The files of cuDNN that are installed; tritorch loads none of them."""
    out = run_and_read_all(run_lambda, "ldconfig -p") or ""
    paths = re.findall(r"=> (\S*libcudnn\S*)", out) or [os.environ.get("CUDNN_LIBRARY", "")]
    files = sorted({os.path.realpath(path) for path in paths if os.path.isfile(path)})
    if len(files) > 1:
        return "Probably one of the following:\n" + "\n".join(files)
    return files[0] if files else None


def get_cuda_module_loading_config() -> str:
    """How CUDA loads modules, where there is a GPU."""
    if not tritorch.cuda.is_available():
        return "N/A"
    tritorch.cuda.init()
    return os.environ.get("CUDA_MODULE_LOADING", "")


def get_cachingallocator_config() -> dict[str, str]:
    """The settings of allocators in the environment."""
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def is_xnnpack_available() -> str:
    """False: tritorch does without it."""
    return "False"


# ---- packages ------------------------------------------------------------------------------------


def get_pip_packages(
    run_lambda: RunLambda, patterns: Sequence[str] | None = None
) -> tuple[str, str | None]:
    """The relevant packages that Python finds, a line each: `numpy==2.1.0`."""
    if patterns is None:
        patterns = PIP_PATTERNS + COMMON_PATTERNS + NVIDIA_PATTERNS
    found = {f"{d.name}=={d.version}" for d in metadata.distributions() if d.name}
    return "pip3", "\n".join(
        sorted(line for line in found if any(name in line for name in patterns))
    )


def get_conda_packages(run_lambda: RunLambda, patterns: Sequence[str] | None = None) -> str | None:
    """The relevant packages of conda, if there is one."""
    conda = os.environ.get("CONDA_EXE", "conda")
    if (
        shutil.which(conda) is None
        or (out := run_and_read_all(run_lambda, f"{conda} list")) is None
    ):
        return None
    patterns = patterns or CONDA_PATTERNS + COMMON_PATTERNS + NVIDIA_PATTERNS
    lines = (line for line in out.splitlines() if not line.startswith("#"))
    return "\n".join(line for line in lines if any(name in line for name in patterns))


# ---- the report ----------------------------------------------------------------------------------


def _cuda_version() -> str | None:
    version: Any = tritorch.version.cuda
    return None if version is None else str(version)


def get_env_info() -> SystemEnv:
    """Everything that can be found out."""
    pip_version, pip_packages = get_pip_packages(run)
    version = sys.version.replace("\n", " ")
    return SystemEnv(
        torch_version=str(tritorch.__version__),
        is_debug_build=str(tritorch.version.debug),
        cuda_compiled_version=_cuda_version(),
        gcc_version=get_gcc_version(run),
        clang_version=get_clang_version(run),
        cmake_version=get_cmake_version(run),
        os=get_os(run),
        libc_version=get_libc_version(),
        python_version=f"{version} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=get_python_platform(),
        is_cuda_available=str(tritorch.cuda.is_available()),
        cuda_runtime_version=get_running_cuda_version(run),
        cuda_module_loading=get_cuda_module_loading_config(),
        nvidia_driver_version=get_nvidia_driver_version(run),
        nvidia_gpu_models=get_gpu_info(run),
        cudnn_version=get_cudnn_version(run),
        is_xpu_available=str(tritorch.xpu.is_available()),
        pip_version=pip_version,
        pip_packages=pip_packages,
        conda_packages=get_conda_packages(run),
        hip_compiled_version="N/A",
        hip_runtime_version="N/A",
        miopen_runtime_version="N/A",
        caching_allocator_config=get_cachingallocator_config(),
        is_xnnpack_available=is_xnnpack_available(),
        cpu_info=get_cpu_info(run),
    )


env_info_fmt = """
PyTorch version: {torch_version}
Is debug build: {is_debug_build}
CUDA used to build PyTorch: {cuda_compiled_version}
ROCM used to build PyTorch: {hip_compiled_version}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is CUDA available: {is_cuda_available}
CUDA runtime version: {cuda_runtime_version}
CUDA_MODULE_LOADING set to: {cuda_module_loading}
GPU models and configuration: {nvidia_gpu_models}
Nvidia driver version: {nvidia_driver_version}
cuDNN version: {cudnn_version}
Is XPU available: {is_xpu_available}
HIP runtime version: {hip_runtime_version}
MIOpen runtime version: {miopen_runtime_version}
Is XNNPACK available: {is_xnnpack_available}
Caching allocator config: {caching_allocator_config}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}
{conda_packages}
""".strip()
_CUDA_FIELDS = ("cuda_runtime_version", "nvidia_gpu_models", "nvidia_driver_version")


def pretty_str(envinfo: SystemEnv) -> str:
    """A report as text: what is unknown could not be collected, without a GPU there is no CUDA."""
    fields: dict[str, Any] = envinfo._asdict()
    models = envinfo.nvidia_gpu_models
    if models is not None and "\n" in models:
        fields["nvidia_gpu_models"] = f"\n{models}\n"
    if not tritorch.cuda.is_available() and all(fields[name] is None for name in _CUDA_FIELDS):
        fields.update(dict.fromkeys((*_CUDA_FIELDS, "cudnn_version"), "No CUDA"))
        fields["cuda_compiled_version"] = envinfo.cuda_compiled_version or "None"
    words = {True: "Yes", False: "No", None: "Could not collect"}
    for name, value in fields.items():
        if value is None or isinstance(value, bool):
            fields[name] = words[value]
    for name, tag in (("pip_packages", envinfo.pip_version), ("conda_packages", "conda")):
        lines = (fields[name] or "No relevant packages").split("\n")
        fields[name] = "\n".join(f"[{tag}] {line}" for line in lines)
    fields["cpu_info"] = envinfo.cpu_info
    fields["caching_allocator_config"] = envinfo.caching_allocator_config or "N/A"
    return env_info_fmt.format(**fields)


def get_pretty_env_info() -> str:
    """The report on this machine."""
    return pretty_str(get_env_info())


def main() -> None:
    """Prints the report on this machine."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
