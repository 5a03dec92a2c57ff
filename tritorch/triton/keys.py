"""What names a compiled kernel on disk.

# Note [Keys of compiled kernels]
A key has all that the machine code depends on: Triton (its version, and its library's size, which
tells builds of one version apart), the ptxas (its name and size), the target, the environment's
settings that change code, the source of all kernels (they call each other), and of the launch what
Triton specialises for: types, alignments, divisibility by 16, equality to 1, constants and options.
The last are the distinctions that the native launch key makes, so a compiled kernel serves whatever
finds it. What has no key (a foreign tensor, a jit function of a user's) is compiled by way of
Triton alone.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tritorch import _C
from tritorch.triton import assemblers, sources
from tritorch.triton.names import Name

FORMAT = 2  # of keys and entries
_CODE = ("TRITON_", "LLVM_", "MLIR_", "NVPTX_", "PTXAS_", "DISABLE_", "ALLOW_", "USE_IR_LOC")
_HARMLESS = (
    "HOME", "CACHE_DIR", "DUMP_DIR", "OVERRIDE_DIR", "CACHE_MANAGER", "REMOTE_CACHE_BACKEND",
    "REDIS_HOST", "REDIS_PORT", "REDIS_KEY_FORMAT", "PRINT_AUTOTUNING", "CACHE_AUTOTUNING",
    "STORE_BINARY_ONLY", "INTERPRET", "LIBCUDA_PATH",
)  # fmt: skip
# With these a user wants Triton's compiler to run.
_COMPILING = (
    "TRITON_ALWAYS_COMPILE", "TRITON_KERNEL_OVERRIDE", "TRITON_KERNEL_DUMP",
    "TRITON_DUMP_PTXAS_LOG", "NVPTX_ENABLE_DUMP", "MLIR_ENABLE_DUMP", "LLVM_IR_ENABLE_DUMP",
)  # fmt: skip
_HOOKS = ("jit_cache_hook", "jit_post_compile_hook", "add_stages_inspection_hook")
_OFF = ("", "0", "off", "false")


class NoKeyError(Exception):
    """Something in a launch cannot be named."""


@functools.cache
def triton_build() -> str:
    """The installed Triton, which is not imported for it."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return "none"
    package = Path(spec.origin).parent
    found = re.search(r"__version__ = ['\"](.+?)['\"]", (package / "__init__.py").read_text())
    sizes = sorted(path.stat().st_size for path in (package / "_C").glob("libtriton.*"))
    return f"{found[1] if found else '?'} {sizes}"


def capability(device: int) -> int:
    """Of a device: 90 of an H100."""
    properties = _C.device_properties(device)
    return 10 * properties["major"] + properties["minor"]


@functools.cache
def _stamps() -> list[tuple[str, int, int]]:
    return sources.stamps()


@functools.cache
def _source() -> str:
    _stamps()  # before: what changes meanwhile is seen
    return sources.digest()


def sources_digest() -> str:
    """Of all that keys leave out but the compiler: their form, and the kernels' files."""
    return hashlib.sha256(repr((FORMAT, _source())).encode()).hexdigest()[:20]


def unchanged() -> bool:
    """Whether the kernels' files are those that keys were made of."""
    source = _source()
    return sources.stamps() == _stamps() or sources.digest() == source


def _settings(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(
        (name, value)
        for name, value in environment.items()
        if name.startswith(_CODE) and name.removeprefix("TRITON_") not in _HARMLESS
    )


def driver_cuda() -> int:
    """The CUDA version of the driver that is loaded here, or where the kernels are for; 0: none."""
    if _C.driver_loaded() and not _C.is_simulated():
        return _C.driver_version()
    return int(os.environ.get(assemblers.DRIVER, 0))


def assembler(target: int) -> assemblers.Assembler | None:
    """The ptxas that kernels of a target are compiled with: Note [Two assemblers]."""
    return assemblers.chosen(target, driver_cuda())


def generation(target: int) -> str:
    """Of all kernels that one library, Triton and settings compile for a target: a folder."""
    found = assembler(target)
    by = found.identity() if found is not None else ""
    parts = FORMAT, triton_build(), by, _source(), _settings(os.environ)
    return f"sm_{target}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:20]}"


def bypassed() -> bool:
    """Whether compilations are to be seen: by settings of the environment or Triton's hooks."""
    if any(os.environ.get(name, "").lower() not in _OFF for name in _COMPILING):
        return True
    knobs = sys.modules.get("triton.knobs")
    runtime = getattr(knobs, "runtime", None)  # not there while another thread imports Triton
    return runtime is not None and any(getattr(runtime, name, None) is not None for name in _HOOKS)


def _constant(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"{type(value).__name__}:{value!r}"
    if type(value) is Name:
        return repr(value)
    if type(value) is tuple:
        return f"({','.join(map(_constant, value))})"
    raise NoKeyError


def _argument(value: Any, specialised: bool) -> str:
    kind = type(value)
    if kind is _C.Array:
        return f"*{value.dtype.name}{'+' if specialised and value.data_ptr() % 16 == 0 else ''}"
    if kind is bool or value is None or kind is float:
        return kind.__name__
    if kind is int:
        width = "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
        if not specialised:
            return width
        return "1" if value == 1 else f"{width}+" if value % 16 == 0 else width
    if kind is tuple:
        # Triton specialises for a tuple's items whatever it is told of the tuple.
        return f"({','.join(_argument(item, True) for item in value)})"
    if kind is _C.Descriptor:
        return f"{value.base.dtype.name}{list(value.block_shape)}"
    raise NoKeyError


def of_launch(
    kernel: str, kinds: tuple[int, ...], args: tuple[Any, ...], options: dict[str, Any]
) -> str:
    """The key, within its generation, of what a launch is compiled to; or NoKeyError."""
    parts = [kernel]
    for kind, value in zip(kinds, args):
        if kind == sources.CONSTANT:
            parts.append(_constant(value))
        else:
            parts.append(_argument(value, kind == sources.SPECIALISED))
    parts += [f"{name}={_constant(options[name])}" for name in sorted(options)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:40]
