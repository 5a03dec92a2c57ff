"""Kernels on the simulated device: what Triton's front end makes of them, on NumPy's arrays.

# Note [Simulated launches]
A launch takes the path that it takes on a GPU: Triton binds and specialises, our launcher packs the
arguments and calls cuLaunchKernelEx.  Only the end of compilation is replaced: Triton's front end
makes its intermediate representation, with the errors that it has for a GPU, and from that we make
a Python function (`translate.py`), not a cubin.  A host function of the simulated device gets the
packed bytes when the stream's turn comes, turns them back into values and calls that.
Every load and store is checked against the memory that is allocated at that moment.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import linecache
import os
import pathlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton
from triton._C.libtriton import ir as triton_ir, passes
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.compiler.errors import CompilationError
from triton.runtime import driver
from triton.runtime.cache import get_cache_manager, triton_key
from triton.runtime.jit import JITFunction

from tritorch import _C, kernels
from tritorch.triton import device_functions, ir, translate, writer
from tritorch.triton.driver import make_launcher
from tritorch.triton.trace import Work

# Whose lines are not where a program launches a kernel.
_FOLDERS = [str(pathlib.Path(__file__).resolve().parents[1]), os.path.dirname(triton.__file__)]
# How many elements of the largest block programs side by side have together.
ELEMENTS = 1 << 16


# ---- values -------------------------------------------------------------------------------------


def _unpacker(code: str) -> Callable[[bytes], Any]:
    dtype = np.dtype("<" + code)
    return lambda data: np.frombuffer(data, dtype)[0]


_DECODE: dict[str, Callable[[bytes], Any]] = {
    "i1": lambda data: np.bool_(data != b"\0"),
    "bf16": lambda data: np.frombuffer(data, writer.DTYPES["bf16"])[0],
    "nvTmaDesc": bytes,
    **{
        kind: _unpacker(code)
        for kind, code in {
            "pointer": "i8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "i1",
            "u16": "i2", "u32": "i4", "u64": "i8", "fp16": "f2", "fp32": "f4", "fp64": "f8",
        }.items()
    },
}  # fmt: skip


# ---- translations -------------------------------------------------------------------------------


class _Executable:
    """A function in Python, and which line of the kernel's file each of its lines comes from."""

    def __init__(self, function: ir.Function, lanes: bool, name: str) -> None:
        translation = translate.Translation(function, lanes)
        self.source, self.locations = translation.source, translation.locations
        self.lanes = lanes
        self.filename = f"<{name}, as the simulated device runs it, {id(self)}>"
        namespace = {**device_functions.NAMES, **translation.constants}
        exec(compile(self.source, self.filename, "exec"), namespace)
        self.call = namespace["kernel"]
        self.by_lane = translation.by_lane


class _Translated:
    """A kernel's intermediate representation, and the functions that it becomes."""

    def __init__(self, text: str, name: str) -> None:
        functions, self.locations = ir.read(text)
        self.name = name
        self.entry = functions[0]
        if len(functions) > 1:
            raise writer.UnsupportedError("functions that are not inlined")
        largest = translate.largest_block(self.entry.body)
        waits = translate.programs_wait(self.entry.body)
        self.side_by_side = 1 if waits else max(1, ELEMENTS // largest)
        self._made: dict[bool, _Executable] = {}

    def executable(self, lanes: bool) -> _Executable:
        if lanes not in self._made:
            self._made[lanes] = _Executable(self.entry, lanes, self.name)
        return self._made[lanes]


def _representation(work: Work) -> str:
    """The text of what Triton's front end makes of a kernel; kept in Triton's cache."""
    target = driver.active.get_current_target()
    backend = make_backend(target)
    source = ASTSource(work.function, work.signature, work.constants, {})
    # The text names source files by their paths; the hash knows their lines only.  Folders are kept
    # by name, so that another checkout finds what this one kept.
    file = pathlib.Path(work.function.fn.__code__.co_filename)
    folders = {str(pathlib.Path(kernels.__file__).parent): "@kernels", str(file.parent): "@file"}
    key = f"portable-{triton_key()}-{source.hash()}-{work.options.hash()}-{target}-{file.name}"
    kept = get_cache_manager(hashlib.sha256(key.encode()).hexdigest())
    name = f"{work.function.__name__}.simulated"
    path = kept.get_file(name)
    if path is not None:
        with contextlib.suppress(OSError):
            return _replaced(pathlib.Path(path).read_text(), {n: f for f, n in folders.items()})
    context = triton_ir.context()
    triton_ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(
        target,
        work.options,
        backend.get_codegen_implementation(work.options),
        backend.get_module_map(),
        context,
    )
    _inline_all(module, context)
    manager = triton_ir.pass_manager(context)
    manager.enable_debug()
    passes.common.add_inliner(manager)
    if hasattr(passes.ttir, "add_rewrite_tensor_pointer"):  # of Triton before 3.9
        passes.ttir.add_rewrite_tensor_pointer(manager)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    for step in ("canonicalizer", "cse", "licm", "symbol_dce"):
        getattr(passes.common, f"add_{step}")(manager)
    try:
        manager.run(module, "make_ttir")
    except TypeError:  # of Triton before 3.7
        manager.run(module)
    text = str(module)
    with contextlib.suppress(OSError):
        kept.put(_replaced(text, folders), name, binary=False)
    return text


def _replaced(text: str, names: dict[str, str]) -> str:
    """The text of a representation, in which locations' folders have other names."""
    for old, new in names.items():
        text = text.replace(f'"{old}{os.sep}', f'"{new}{os.sep}')
    return text


def _inline_all(module: Any, context: Any) -> None:
    """What a program keeps apart, noinline=True, is inlined too: a translation is one function."""
    never = triton_ir.builder(context).get_bool_attr(False)

    def visit(operation: Any) -> None:
        if operation.get_name() == "tt.func" and operation.get_bool_attr("noinline"):
            module.get_function(operation.get_str_attr("sym_name")).set_attr("noinline", never)

    module.walk(visit)


def _identity(value: Any) -> Any:
    """What makes a constant the one that it is."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_identity, value))
    return (type(value), repr(value), id(value) if isinstance(value, JITFunction) else 0)


_translations: dict[Any, _Translated] = {}


def _translated(work: Work) -> _Translated:
    """Of a kernel for such arguments; alignment and the like make no difference here."""
    key = (
        work.function,
        str(work.signature),
        tuple((path, _identity(value)) for path, value in work.constants.items()),
        str(work.options),
    )
    known = _translations.get(key)
    if known is None:
        try:
            text = _representation(work)
        except CompilationError as error:
            where = f"{_file_and_line(work.function, error)}, in kernel {work.function.__name__}"
            error.add_note(f"{where}: it does not compile, so no program of it has run")
            raise
        known = _translations[key] = _Translated(text, work.function.__name__)
    return known


def _file_and_line(function: Any, error: CompilationError) -> str:
    lines, first = inspect.getsourcelines(function.fn)
    decorators = next((i for i, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    line = getattr(getattr(error, "node", None), "lineno", 1)
    return f"{function.fn.__code__.co_filename}:{first + decorators + line - 1}"


# ---- kernels ------------------------------------------------------------------------------------


class SimulatedKernel:
    """Stands where a CompiledKernel would: a launch plan, and a host function for a CUfunction."""

    def __init__(self, work: Work, device: int) -> None:
        function, signature, constants, options, _ = work
        self.name = function.__name__
        self.work = work
        self.src = SimpleNamespace(fn=function, signature=signature, constants=constants)
        self.metadata = SimpleNamespace(
            name=self.name,
            num_warps=options.num_warps,
            num_ctas=options.num_ctas,
            num_stages=options.num_stages,
            shared=0,
            launch_cooperative_grid=options.launch_cooperative_grid,
            launch_pdl=getattr(options, "launch_pdl", False),
            global_scratch_size=0,
            global_scratch_align=1,
            profile_scratch_size=0,
            profile_scratch_align=1,
            tensordesc_meta=None,
        )
        self.packed_metadata = (options.num_warps, options.num_ctas, 0)
        self.asm: dict[str, Any] = {}
        self.run = make_launcher(self.src, self.metadata)
        # What programs divide by that compute how many blocks fit a processor.
        self.n_regs, self.n_spills, self.metadata.shared = 32, 0, 1024
        parameters = self.run.parameters
        self._decoders = [_DECODE[kind] for kind, _ in parameters]
        if on_compile is None:  # else it is compiled for a real target, with the same errors
            self.translated  # noqa: B018
        hosted = _C.simulator.make_function(
            self.name, [size for _, size in parameters], self._execute
        )
        image = _C.simulator.image_of(hosted)
        self.module, self.function, *_ = _C.load_binary(self.name, image, 0, device)

    @functools.cached_property
    def translated(self) -> _Translated:
        return _translated(self.work)

    def launch_metadata(self, *_: Any) -> None:
        return None

    def _init_handles(self) -> None:
        pass

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """Launches it as it is; `warmup` gives it to programs."""

        def runner(*args: Any, stream: int | None = None) -> None:
            if stream is None:
                stream = _C.current_stream(_C.current_device())
            sizes = (*grid, 1, 1)[:3]
            self.run(*sizes, stream, self.function, self.packed_metadata, None, None, None, *args)

        return runner

    def _execute(self, grid: tuple[int, int, int], parameters: list[bytes], site: str) -> None:
        args = [decode(data) for decode, data in zip(self._decoders, parameters)]
        translated = self.translated
        args = args[: len(translated.entry.body[0].arguments)]  # without pointers to scratch memory
        count = grid[0] * grid[1] * grid[2]
        together = min(count, translated.side_by_side)
        executable = translated.executable(together > 1)
        sizes = tuple(map(np.int32, grid))
        pid: Any = None
        try:
            with np.errstate(all="ignore"):
                for pid in _programs(grid, together):
                    self._run(executable, pid, sizes, args)
        except device_functions.BadAddressError as bad:
            text = _told(bad, executable, pid, translated, site)
            raise _C.simulator.DeviceFault(device_functions.ILLEGAL_ADDRESS, text) from None
        except device_functions.FailedAssertionError as failed:
            message, place = failed.args
            where = _where(failed, executable, translated, pid, place, site)
            raise _C.simulator.DeviceFault(device_functions.ASSERT, f"{message}{where}") from None
        except BaseException as error:
            if pid is not None:
                error.add_note("Raised" + _where(error, executable, translated, pid, None, site))
            raise

    def _run(self, executable: _Executable, pid: Any, sizes: Any, args: list[Any]) -> None:
        """Some programs, side by side."""
        executable.call(np.size(pid[0]), pid, sizes, *args)


def _programs(grid: tuple[int, int, int], together: int) -> Iterator[Any]:
    """The programs' ids, so many at a time; x runs fastest, as on a GPU."""
    nx, ny, nz = grid
    if together == 1:
        for z in range(nz):
            for y in range(ny):
                for x in range(nx):
                    yield np.int32(x), np.int32(y), np.int32(z)
        return
    for start in range(0, nx * ny * nz, together):
        i = np.arange(start, min(start + together, nx * ny * nz))
        yield tuple(part.astype(np.int32) for part in (i % nx, i // nx % ny, i // (nx * ny)))


def _line(error: BaseException, executable: _Executable) -> int:
    """The line of a translation at which an exception was raised."""
    line, traceback = 0, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == executable.filename:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _where(
    error: BaseException, executable: _Executable, translated: _Translated, pid: Any,
    program: int | None, site: str,
) -> str:  # fmt: skip
    """in kernel k, program (0, 0, 0), at file:line, launched at file:line"""
    line = _line(error, executable)
    found = ir.places(translated.locations, executable.locations.get(line, ""))
    text = f" in kernel {translated.name}"
    if np.ndim(pid[0]) == 0:
        text += f", program ({', '.join(str(int(i)) for i in pid)})"
    elif program is not None:
        text += f", program ({', '.join(str(int(i[program])) for i in pid)})"
    else:
        ends = [f"({', '.join(str(int(i[at])) for i in pid)})" for at in (0, -1)]
        text += f", programs {ends[0]} to {ends[1]}"
    for i, (file, number) in enumerate(found):
        source = linecache.getline(file, number).strip()
        text += f"\n  {'at' if i == 0 else 'called at'} {file}:{number}"
        text += f"  {source}" if source and i == 0 else ""
    return text + (f"\n  launched at {site}" if site else "")


def _told(
    bad: device_functions.BadAddressError, executable: _Executable, pid: Any,
    translated: _Translated, site: str,
) -> str:  # fmt: skip
    """What was wrong with an address."""
    by_lane = _line(bad, executable) in executable.by_lane
    size = int(np.prod(bad.shape))
    program, element = None, bad.element
    if by_lane:
        size //= len(pid[0])
        program, element = divmod(element, size)
    elif executable.lanes:
        program = 0
    where = _where(bad, executable, translated, pid, program, site)
    return (
        f"{bad.verb} of {bad.size} bytes at 0x{bad.address:x}, where no memory is allocated "
        f"(element {element} of a block of {size}),{where}"
    )


# Called with what stands for a kernel that would be compiled on a GPU.
on_compile: Callable[[SimulatedKernel], None] | None = None


def _simulate_instead_of_compiling(
    self: Any,
    key: Any,
    signature: dict[str, Any],
    device: int,
    constexprs: dict[Any, Any],
    options: Any,
    attrs: Any,
    warmup: bool,
) -> SimulatedKernel:
    kernel = SimulatedKernel(Work(self, signature, constexprs, options, attrs), device)
    if on_compile is not None:
        on_compile(kernel)
    self.device_caches[device][0][key] = kernel
    return kernel


def take_over_launches() -> None:
    """From now on, launching a jit function on the (simulated) device runs its translation."""
    JITFunction._do_compile = _simulate_instead_of_compiling
    _C.simulator.tell_launch_sites([f"{folder}{os.sep}" for folder in _FOLDERS])
