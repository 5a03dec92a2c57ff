"""tritorch's own launches: a jit function as a native `_C.Kernel`.

`kernel("copy", "copy_strided")(grid, *args, num_warps=4, BLOCK=1024)` costs one native call once it
is loaded.  A first call with new dtypes, alignments or constants comes here: the compiled kernel is
read from disk (see Note [The kernel cache]), for which Triton is not imported, or compiled.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tritorch import _C
from tritorch.core.scopes import Scope, unchanged
from tritorch.triton import cache, compilers, keys, plan, sources, written
from tritorch.triton.installing import lock
from tritorch.triton.names import resolve

# On the simulated device: called with what a launch was compiled to (a SimulatedKernel), the
# launch's key, or None, and the kernel's name.
on_launch: Callable[[Any, str | None, str], None] | None = None


class _Loaded:
    """A compiled kernel on a device; its launches own it."""

    def __init__(self, entry: cache.Entry, device: int) -> None:
        # What __del__ calls: globals may be gone when the interpreter ends.
        self.getpid, self.unload = os.getpid, _C.unload_module
        self.process = os.getpid()
        self.device = device
        self.module, self.function, *_, self.threads = _C.load_binary(
            entry.name, entry.cubin, entry.plan["shared"], device
        )

    def __del__(self) -> None:
        # A forked child's driver knows nothing of the module.
        if hasattr(self, "module") and self.process == self.getpid():
            self.unload(self.module, self.device)


def _load(entry: cache.Entry, device: int) -> tuple[_C.Launcher, int, Any] | None:
    """A stored kernel on a device; None if that fails, and why is Triton's to say."""
    if entry.plan["shared"] > _C.device_properties(device)["shared_memory_per_block_optin"]:
        return None
    try:
        loaded = _Loaded(entry, device)
    except _C.CudaError:
        return None
    if entry.plan["num_warps"] * 32 > loaded.threads:
        return None
    return plan.launcher(entry.plan), loaded.function, loaded


# What loads stored kernels.  The simulated device has no machine code to load: tests say what does.
load: Callable[[cache.Entry, int], tuple[_C.Launcher, int, Any] | None] | None = None


def _loader() -> Callable[[cache.Entry, int], tuple[_C.Launcher, int, Any] | None] | None:
    return load if load is not None or _C.is_simulated() else _load


def is_kept() -> bool:
    """Whether what was compiled is kept on disk, and looked for there."""
    return _loader() is not None and not keys.bypassed()


# Options of kernels of one pointwise operator: each operation rounds by itself, as on the CPU and
# in kernels that are written for several operators in mode "exact".
_ROUNDING = {"enable_fp_fusion": False}
_ROUND = ("pointwise.map", "foreach.apply", "shaping.linspace")


class _Source:
    """A jit function, imported when something has to be compiled."""

    def __init__(self, name: str, find: Callable[[], Any], kinds: tuple[int, ...]) -> None:
        self.name, self.find, self.kinds = name, find, kinds
        self.options = _ROUNDING if name.startswith(_ROUND) else {}

    def key(self, args: tuple[Any, ...], options: dict[str, Any]) -> str | None:
        """What a launch is compiled to, on disk; None if it has no key."""
        if not self.name or keys.bypassed():
            return None
        try:
            return keys.of_launch(self.name, self.kinds, args, options)
        except keys.NoKeyError:
            return None

    def compile(
        self, device: int, args: tuple[Any, ...], options: dict[str, Any], may_wait: bool
    ) -> tuple[_C.Launcher, int, Any] | None:
        """What launches with such arguments: (launcher, CUfunction, what they live in).

        may_wait: None may be given, and the same is asked for later without it."""
        options = options | self.options
        key = self.key(args, options)
        target = keys.capability(device)
        loader = _loader()
        if may_wait and compilers.always:
            return None
        if key is not None and loader is not None:
            place = keys.generation(target), key
            if may_wait and compilers.pool.has_begun(place):
                return None
            entry = cache.read(*place)
            if entry is None and keys.unchanged():
                if may_wait and compilers.count():
                    with lock:
                        work = _work(self.find(), device, args, options)
                    compilers.pool.begin(place, work, target)
                    return None
                with _announced(self.name, target):
                    entry = compilers.pool.result(place)
                if entry is not None:
                    cache.write(*place, entry)
            found = entry and loader(entry, device)
            if found:
                return found
        with lock, _announced(self.name, target):
            import triton.runtime.driver  # noqa: F401  (makes our driver the active one)

            compiled = _run(self.find(), device, args, options)
        if _C.is_simulated():
            if on_launch is not None:
                on_launch(compiled, key, self.name)
        elif key is not None and keys.unchanged():
            cache.write(keys.generation(target), key, compilers.entry_of(compiled))
        return compiled.run, compiled.function, compiled  # `run` loads the binary


def _work(function: Any, device: int, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What there is to compile for these arguments."""
    import triton.runtime.driver  # noqa: F401  (makes our driver the active one)

    from tritorch.triton.trace import Work

    found: list[Work] = []

    def note(
        key: Any, signature: Any, device: int, constants: Any, options: Any, attributes: Any,
        warmup: bool,
    ) -> None:  # fmt: skip
        found.append(Work(function, signature, constants, options, attributes))

    function._do_compile = note
    try:
        _run(function, device, args, options)
    finally:
        del function._do_compile
    return found[0]


def _run(function: Any, device: int, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Compiles for these arguments through Triton itself, so that its specialisation is ours."""
    args = tuple(_described(arg) if type(arg) is _C.Descriptor else resolve(arg) for arg in args)
    options = {name: resolve(value) for name, value in options.items()}
    with unchanged if device == _C.current_device() else Scope((_C.exchange_device, device)):
        compiled = function.run(*args, grid=(1,), warmup=True, **options)
        if hasattr(compiled, "result"):  # an asynchronous compilation's placeholder
            compiled = compiled.result()
        if compiled is not None:
            compiled.run  # noqa: B018  (loads the binary)
    return compiled


def _described(descriptor: _C.Descriptor) -> Any:
    """A descriptor as Triton's specialisation knows it."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor(
        descriptor.base,
        list(descriptor.shape),
        list(descriptor.strides),
        list(descriptor.block_shape),
    )


_announcements = 0


@contextlib.contextmanager
def _announced(name: str, target: int) -> Iterator[None]:
    """While a kernel is compiled, a terminal says so, in one line that is removed again."""
    global _announcements
    terminal = sys.stderr
    quiet = os.environ.get("TRITORCH_COMPILE_MESSAGES", "1").lower() in ("", "0", "off", "false")
    if quiet or _C.is_simulated() or terminal is None or not terminal.isatty():
        yield
        return
    _announcements += 1
    text = f"compiling kernels for sm_{target} (once): {name}"
    text += f", {_announcements} so far ..." if _announcements > 1 else " ..."
    terminal.write(f"\r\x1b[K{text[:79]}")
    terminal.flush()
    try:
        yield
    finally:
        terminal.write("\r\x1b[K")
        terminal.flush()


_MOST_WRITTEN = 1024


def _made(name: str, find: Callable[[], Any], parameters: sources.Parameters) -> _C.Kernel:
    return _C.Kernel(_Source(name, find, parameters.kinds).compile, *parameters)


def wrap(function: Any) -> _C.Kernel:
    """A `_C.Kernel` of a `@triton.jit` function."""
    return _made("", lambda: function, sources.parameters_of(function))


@functools.lru_cache(_MOST_WRITTEN)
def written_kernel(source: str) -> _C.Kernel:
    """The kernel that a source defines: it is stored under what the source says.

    Compiled functions keep theirs; here are the latest, so that a program that goes on compiling
    does not keep all that it ever compiled."""
    digest, parameters = sources.written(source)
    find = lambda: written.function(source)
    return _made(f"written.{digest}", find, parameters)


@functools.cache
def kernel(family: str, name: str) -> _C.Kernel:
    """The kernel `name` of `tritorch.kernels.<family>`; imports Triton when it has to compile."""
    find = lambda: getattr(importlib.import_module(sources.module(family)), name)
    parameters = sources.parameters(family, name)
    if parameters is None:
        with lock:
            parameters = sources.parameters_of(find())
    return _made(f"{family}.{name}", find, parameters)
