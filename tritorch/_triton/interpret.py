"""Kernels on the simulated device, through Triton's interpreter, on the same pointers.

# Note [Simulated launches]
A launch takes the path that it takes on a GPU: Triton binds and specialises, our launcher packs the
arguments and calls cuLaunchKernelEx.  Only compilation is replaced: in place of a cubin there is a
host function of the simulated device, which gets the packed bytes when the stream's turn comes,
turns them back into values and runs the kernel's Python source.  Every load and store is checked
against the memory that is allocated at that moment.

The interpreter patches `triton.language` while it runs.  Triton applies those patches around each
launch and leaves some behind; here they are collected once and applied only while a kernel runs, so
that compiling for real targets works in the same process.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from tritorch import _C
from tritorch._triton import fast_interpreter, fast_operators, narrow_floats
from tritorch._triton.driver import make_launcher
from tritorch._triton.trace import Work

_running: str | None = None  # the kernel that is running: the device runs one at a time


_ILLEGAL_ADDRESS, _ASSERT = 700, 710  # CUresult


# ---- values -------------------------------------------------------------------------------------


class _ElementType:
    """Names a type the way Triton's type mangling wants a dtype."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_floating_point = name.startswith(("fp", "bf"))
        self.itemsize = tl.str_to_ty(name, None).primitive_bitwidth // 8 or 1

    def __str__(self) -> str:
        return self.name


_element_type = functools.cache(_ElementType)


class _Pointer:
    """An address with an element type: all that the interpreter needs of an array."""

    def __init__(self, name: str, address: int) -> None:
        self.dtype = _element_type(name)
        self.address = address

    def data_ptr(self) -> int:
        return self.address


def _bfloat16(data: bytes) -> float:
    return float(struct.unpack("<f", b"\0\0" + data)[0])


def _unpacker(code: str) -> Callable[[bytes], Any]:
    return lambda data: struct.unpack(code, data)[0]


_DECODE: dict[str, Callable[[bytes], Any]] = {
    "i1": lambda data: data != b"\0",
    "bf16": _bfloat16,
    "nvTmaDesc": bytes,
    **{
        kind: _unpacker("<" + code)
        for kind, code in {
            "pointer": "Q", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H",
            "u32": "I", "u64": "Q", "fp16": "e", "fp32": "f", "fp64": "d",
        }.items()
    },
}  # fmt: skip


def _rebuild(
    entry: Any, path: tuple[int, ...], constants: dict[Any, Any], values: Iterator[Any]
) -> Any:
    """The argument that one entry of a signature stands for, from the launch's decoded values."""
    if isinstance(entry, tuple):
        items = [_rebuild(item, (*path, i), constants, values) for i, item in enumerate(entry)]
        return tuple(items)
    if path in constants:
        return constants[path]
    if entry.startswith("*"):
        return _Pointer(entry[2:] if entry.startswith("*k") else entry[1:], next(values))
    if not entry.startswith("tensordesc"):
        return next(values)
    name, block = entry[entry.index("<") + 1 :].split("[")
    block_shape = [int(size) for size in block[: block.index("]")].split(",")]
    rank = len(block_shape)
    base = _Pointer(name, next(values))
    shape = [next(values) for _ in range(rank)]
    strides = [next(values) for _ in range(rank)]
    options = {"padding": "nan" if next(values) else "zero"}
    if hasattr(TensorDescriptor, "round_f32_to_tf32"):
        options["round_f32_to_tf32"] = next(values)
    for _ in range(2 * rank):  # the shape and strides again, for the kernel's own use
        next(values)
    return TensorDescriptor(base, shape, strides, block_shape, **options)


def _convert(value: Any) -> Any:
    """A launch's value as the interpreter's tensors hold it."""
    if isinstance(value, bool):  # which Triton 3.6 takes for a 32-bit integer
        return tl.tensor(interpreter.TensorHandle(np.array([value], np.bool_), tl.int1), tl.int1)
    if isinstance(value, tuple):
        return tuple(_convert(item) for item in value)
    return interpreter._implicit_cvt(value)


# ---- the language, patched while a kernel runs --------------------------------------------------


class _Rewriter(interpreter.FunctionRewriter):
    """Rewrites a kernel for the interpreter, leaving its module as it is but for two names."""

    def _get_jit_fn_file_line(self) -> tuple[str, int]:
        code = self.fn.__code__
        return code.co_filename, code.co_firstlineno

    def _compile_and_exec(self, tree: Any) -> Any:
        for name in ("interpreter_semantic", "_InterpreterComparison"):
            if hasattr(interpreter, name):
                self.fn.__globals__.setdefault(name, getattr(interpreter, name))
        namespace: dict[str, Any] = {}
        exec(compile(tree, self.filename, "exec"), self.fn.__globals__, namespace)
        rewritten = namespace[self.fn.__name__]
        return rewritten.fn if hasattr(rewritten, "fn") else rewritten


@functools.cache
def _rewritten(function: Any) -> Callable[..., Any]:
    return _Rewriter(function).rewrite_ast()


def _call_device_function(self: Any, *args: Any, **kwargs: Any) -> Any:
    return _rewritten(self.fn)(*args, **kwargs)


def _bind_device_function(self: Any, instance: Any, owner: Any = None) -> Any:
    # x.sum() inside a kernel: functions of the standard library are attributes of tl.tensor.
    return functools.partial(self, instance) if isinstance(instance, tl.tensor) else self


def _checked(
    method: Callable[..., Any], pointer_at: int, mask_at: int | None, verb: str
) -> Callable[..., Any]:
    """A load, store or atomic of the interpreter that first checks its addresses."""

    def access(*args: Any, **kwargs: Any) -> Any:
        handle = args[pointer_at]
        addresses = np.ascontiguousarray(handle.data, dtype=np.uint64).reshape(-1)
        if mask_at is None:
            mask = np.ones(addresses.shape, np.uint8)
        else:
            mask = np.broadcast_to(args[mask_at].data, handle.data.shape)
            mask = np.ascontiguousarray(mask, dtype=np.uint8).reshape(-1)
        size = max(handle.get_element_ty().primitive_bitwidth // 8, 1)
        bad = _C.simulator.first_inaccessible(addresses, mask, size)
        if bad >= 0 and _C.is_pinned(int(addresses[bad])):  # kernels may reach page-locked memory
            pinned = [_C.is_pinned(int(address)) for address in addresses]
            mask = mask & ~np.array(pinned)
            bad = _C.simulator.first_inaccessible(addresses, mask, size)
        if bad >= 0:
            where = f" in kernel {_running}" if _running else ""
            raise _C.simulator.DeviceFault(
                _ILLEGAL_ADDRESS,
                f"{verb} of {size} bytes at 0x{int(addresses[bad]):x}{where}: no allocation is "
                f"there (element {bad} of a block of {addresses.size})",
            )
        return method(*args, **kwargs)

    return access


def _assert(self: Any, condition: Any, message: str) -> None:
    if not np.all(getattr(condition, "data", condition)):
        raise _C.simulator.DeviceFault(_ASSERT, message)


def _to_bool(self: Any) -> bool:
    if self.handle.data.size == 1 and not fast_interpreter.combining:
        return bool(self.handle.data.item())
    if fast_interpreter.combining:
        raise fast_interpreter.NeedsScalarsError
    return True


def _raw(owner: Any, name: str) -> Any:
    return inspect.getattr_static(owner, name, _MISSING)


_MISSING = object()


@functools.cache
def _patches() -> list[tuple[Any, str, Any, Any]]:
    """(owner, name, original, replacement) of all that changes while a kernel runs."""
    scope = interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    places = dict.fromkeys((id(owner), name) for owner, name, _ in scope._changes)
    owners = {id(owner): owner for owner, _, _ in scope._changes}
    after = {place: _raw(owners[place[0]], place[1]) for place in places}
    scope.restore()
    patches = [
        (owners[key], name, _raw(owners[key], name), value) for (key, name), value in after.items()
    ]
    # Triton 3.6 converts one-element arrays with int(), which NumPy 2.4 and later refuse.
    to_int = lambda self: int(self.handle.data.item())
    builder = interpreter.interpreter_builder
    kind = type(builder)
    extra: list[tuple[Any, str, Any]] = [
        (tl.tensor, "__index__", to_int),
        (tl.tensor, "__int__", to_int),
        (tl.tensor, "__bool__", _to_bool),
        (JITFunction, "__call__", _call_device_function),
        (JITFunction, "__get__", _bind_device_function),
        (kind, "create_assert", _assert),
        (kind, "create_masked_load", _checked(kind.create_masked_load, 1, 2, "load")),
        (kind, "create_masked_store", _checked(kind.create_masked_store, 1, 3, "store")),
        (kind, "create_atomic_rmw", _checked(kind.create_atomic_rmw, 2, 4, "atomic")),
        (kind, "create_atomic_cas", _checked(kind.create_atomic_cas, 1, None, "atomic")),
    ]
    operators = {name: new for owner, name, _, new in patches if owner is tl.tensor}
    extra += fast_interpreter.patches() + fast_operators.patches(operators)
    extra += [(kind, name, method) for name, method in narrow_floats.methods(kind).items()]
    patched = {(id(owner), name) for owner, name, _ in extra}
    patches = [patch for patch in patches if (id(patch[0]), patch[1]) not in patched]
    return patches + [(owner, name, _raw(owner, name), new) for owner, name, new in extra]


@functools.cache
def _assignments() -> tuple[list[Any], list[Any]]:
    """(owner, name, value) of the language as it is interpreted, and as it is compiled."""
    patches = _patches()
    return (
        [(owner, name, new) for owner, name, _, new in patches],
        [patch[:2] if patch[2] is _MISSING else patch[:3] for patch in patches],
    )


def _leave_in_child() -> None:
    """A forked child is not in the kernel that another thread was running."""
    if _running is not None:
        _C.simulator.assign(_assignments()[1])


os.register_at_fork(after_in_child=_leave_in_child)


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
        self.n_regs = self.n_spills = 0
        self.run = make_launcher(self.src, self.metadata)
        parameters = self.run.parameters
        self._decoders = [_DECODE[kind] for kind, _ in parameters]
        self._annotated = {p.name for p in function.params if p.is_constexpr}
        debug = getattr(options, "debug", False)
        self._options = dataclasses.replace(  # without debug nothing asks whether numbers overflow
            interpreter.InterpreterOptions(), debug=debug, sanitize_overflow=debug
        )
        hosted = _C.simulator.make_function(
            self.name, [size for _, size in parameters], self._execute
        )
        image = _C.simulator.image_of(hosted)
        self.module, self.function, *_ = _C.load_binary(self.name, image, 0, device)

    def launch_metadata(self, *_: Any) -> None:
        return None

    def _init_handles(self) -> None:
        pass

    def _execute(self, grid: tuple[int, int, int], parameters: list[bytes]) -> None:
        values = iter([decode(data) for decode, data in zip(self._decoders, parameters)])
        args = {
            name: _rebuild(entry, (i,), self.src.constants, values)
            for i, (name, entry) in enumerate(self.src.signature.items())
        }
        global _running
        interpreted, compiled = _assignments()
        try:
            _running = self.name
            _C.simulator.assign(interpreted)
            with np.errstate(all="ignore"):
                self._interpret(grid, args)
        finally:
            # One native call, which Ctrl-C cannot cut in two.
            _C.simulator.assign(compiled)
            _running = None

    def _interpret(self, grid: tuple[int, int, int], args: dict[str, Any]) -> None:
        builder = interpreter.interpreter_builder
        body = _rewritten(self.src.fn.fn)
        args = {
            name: value if name in self._annotated else _convert(value)
            for name, value in args.items()
        }
        builder.options = self._options
        builder.set_grid_dim(*grid)
        for x in range(grid[0]):
            for y in range(grid[1]):
                for z in range(grid[2]):
                    builder.set_grid_idx(x, y, z)
                    body(**args)


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
    """From now on, launching a jit function on the (simulated) device interprets it."""
    JITFunction._do_compile = _simulate_instead_of_compiling
