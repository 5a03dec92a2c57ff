"""Worlds in which a random program runs, and all that can be seen there after each call.

A world is a namespace with the prelude's modules and state, inputs of its own and generators that
start from the program's seed.  Two worlds of one program differ in one thing only: whether the
program, and what it calls `compiled`, went through torch.compile.  What is seen is plain data
(numbers, text, bytes), so worlds are compared after both are gone.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import linecache
import random
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tritorch as torch
from tritorch.autograd import engine
from tritorch.utils._python_dispatch import TorchDispatchMode

from . import operators
from .random_programs import Program

_PRELUDE = Path(__file__).with_name("prelude.py")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_PASS = engine._run.__code__

Seen = dict[str, Any]


@functools.cache
def _prelude() -> Any:
    return compile(_PRELUDE.read_text(), str(_PRELUDE), "exec")


@functools.lru_cache(maxsize=64)
def _code(text: str, name: str) -> Any:
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    return compile(text, name, "exec")


def _normal(seed: int, *shape: int, dtype: Any, zeros: bool = False, special: bool = False) -> Any:
    """Numbers of a seed; if asked, in eighths with zeros, or with -0.0, infinities and NaN."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    if zeros:
        values = np.round(values * 2) / 8
    if special:
        flat = values.reshape(-1)
        flat[1::7], flat[2::11], flat[5::13] = -0.0, np.inf, np.nan
    return torch.tensor(values, device=_DEVICE[0]).to(dtype)


def _integers(seed: int, *shape: int) -> Any:
    return torch.tensor(np.random.default_rng(seed).integers(-3, 4, shape), device=_DEVICE[0])


_DEVICE = ["cpu"]


def contents(tensor: Any) -> bytes:
    """A tensor's numbers to the bit, but for the many forms of NaN."""
    plain = tensor.detach()
    if plain.dtype in (torch.bfloat16, torch.float16):
        plain = plain.cpu().float()
    values = plain.cpu().numpy()
    if values.dtype.kind == "f" and np.isnan(values).any():
        values = np.where(np.isnan(values), np.nan, values).astype(values.dtype)
    return values.tobytes()


class Looker:
    """Walks over what a world has, once after each call."""

    def __init__(self) -> None:
        self.seen: Seen = {}
        self.objects: dict[int, str] = {}
        self.storages: dict[int, str] = {}

    def look(self, path: str, value: Any) -> None:
        """Writes down what can be seen of a value, under its path."""
        if isinstance(value, torch.Tensor):
            self.tensor(path, value)
        elif isinstance(value, np.ndarray):
            self.seen[path] = ("ndarray", str(value.dtype), value.shape, value.tobytes())
            if value.size:
                self.memory(path, value.__array_interface__["data"][0])
        elif isinstance(value, dict):
            self.seen[path] = ("dict", tuple(map(str, value)))
            for key, one in value.items():
                self.look(f"{path}[{key!r}]", one)
        elif isinstance(value, list | tuple):
            self.seen[path] = (type(value).__name__, len(value))
            for index, one in enumerate(value):
                self.look(f"{path}[{index}]", one)
        elif isinstance(value, float):
            self.seen[path] = ("float", "nan" if value != value else value.hex())
        else:
            self.seen[path] = (type(value).__name__, _ADDRESS.sub("0x", repr(value)))

    def memory(self, path: str, address: int) -> None:
        """Writes down which memory it is: the path under which it was seen first."""
        self.seen[path + ".memory"] = self.storages.setdefault(address, path)

    def tensor(self, path: str, tensor: Any) -> None:
        same = self.objects.setdefault(id(tensor), path)
        self.seen[path] = "the object " + same if same != path else type(tensor).__name__
        if same != path:
            return
        try:
            flags: Any = (tensor.requires_grad, tensor.is_leaf, tensor.grad_fn is not None)
        except RuntimeError as error:  # a view that may not be used after a write to its base
            flags = _text(error)
        self.seen[path + ".layout"] = (
            str(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.storage_offset(),
            str(tensor.device),
        )  # fmt: skip
        self.seen[path + ".flags"] = flags
        self.seen[path + ".version"] = "none" if tensor.is_inference() else tensor._version
        self.seen[path + ".contents"] = contents(tensor)
        base = tensor._base
        self.seen[path + ".base"] = None if base is None else self.objects.get(id(base), "a view")
        if storage := tensor.untyped_storage():
            if storage.nbytes():
                self.memory(path, storage.data_ptr())
        if isinstance(flags, tuple) and flags[0] and (flags[1] or tensor.retains_grad):
            self.look(path + ".grad", tensor.grad)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {_ADDRESS.sub('0x', str(error))}"


def _of_a_pass(error: BaseException) -> bool:
    """Whether an error ended a backward pass."""
    return any(frame.f_code is _PASS for frame, _ in traceback.walk_tb(error.__traceback__))


class World:
    """One run of a program's calls."""

    def __init__(self, program: Program, compiler: Callable | None, device: str) -> None:
        self.program = program
        _DEVICE[0] = device
        torch.manual_seed(program.seed)
        random.seed(program.seed)
        np.random.seed(program.seed % 2**32)
        self.names: dict[str, Any] = {
            "__name__": "program",
            "torch": torch,
            "device": device,
            "compiled": compiler or (lambda function: function),
            "normal": _normal,
            "integers": _integers,
            "scaled_operator": operators.scaled,
            "added_operator": operators.added,
            "TorchDispatchMode": TorchDispatchMode,
            "ambient": None,
        }
        exec(_prelude(), self.names)
        exec(_code(program.setup, "<setup>"), self.names)
        exec(_code(program.source, f"<program {program.seed}>"), self.names)
        function = self.names["program"]
        self.run = compiler(function) if compiler else function
        self.device = device
        self.results: list[Any] = []
        self.error = ""

    def calls(self) -> Iterator[Seen]:
        """What is seen after each call, and after all."""
        for text in self.program.calls:
            yield self.call(text)
        self.error = ""
        if self.program.backward == "end":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.backward(self.results)
        look = self.look(self.results if self.program.held else None)
        look.seen["error"] = self.error
        if refs := self.names["refs"]:
            gc.collect()
            look.seen["alive"] = [ref() is not None for ref in refs]
        yield look.seen

    def call(self, text: str) -> Seen:
        names, program = self.names, self.program
        names["ambient"] = None
        result, self.error = None, ""
        printed = io.StringIO()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            exec(_code(text, "<call>"), names)
            arguments = [names[name] for name in ("x", "y", "w", "model", "n", "lr", "flag")]
            with contextlib.redirect_stdout(printed), names["ambient"] or contextlib.nullcontext():
                try:
                    result = self.run(*arguments)
                except Exception as error:
                    self.error = _text(error)
                    if _of_a_pass(error):
                        self.forget_gradients()
            modes = self.modes()
            seen = self.look(result).seen if program.watched else {}
            if program.backward in ("each", "twice"):
                self.backward(result, program.backward == "twice")
                if program.watched:
                    after = self.look(result).seen
                    seen.update({"after backward " + path: value for path, value in after.items()})
            if program.writing:
                self.write(result)
        seen["error"] = self.error
        seen["modes"] = modes
        seen["printed"] = printed.getvalue()
        seen["warnings"] = [f"{w.category.__name__}: {str(w.message)[:60]}" for w in warned]
        self.results.append(result if program.held or program.backward == "end" else None)
        return seen

    def write(self, result: Any) -> None:
        """Writes into what a call gave, as its caller may."""
        found: list[Any] = []
        _tensors(result, found)
        for tensor in found:
            try:
                if not tensor.requires_grad:
                    tensor.copy_(tensor * 2 if tensor.dtype != torch.bool else ~tensor)
            except RuntimeError as error:  # it overlaps, or is an inference tensor
                self.error += " write: " + _text(error)

    def modes(self) -> tuple:
        """What is set for the thread after a call."""
        return (
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled(),
            str(torch.get_default_dtype()),
        )  # fmt: skip

    def backward(self, result: Any, twice: bool = False) -> None:
        """Goes back through the floating tensors of a result; twice: through the gradients too."""
        found: list[Any] = []
        _tensors(result, found)
        try:
            found = [t for t in found if t.is_floating_point() and t.requires_grad]
            if not found:
                return
            parts = [t.double().sum() for t in found]
            total = functools.reduce(torch.add, parts)
            if twice:
                w = self.names["w"]
                (grad,) = torch.autograd.grad(
                    total, [w], create_graph=True, allow_unused=True, materialize_grads=True
                )
                total = total + (grad.double() ** 2).sum()
            total.backward()
        except (RuntimeError, ValueError) as error:
            self.error += " backward: " + _text(error)
            self.forget_gradients()

    def forget_gradients(self) -> None:
        """Takes gradients away: a pass that fails has added up those of some tensors before, and
        which they are hangs on the order of nodes; a segment is a single node."""
        names = self.names
        leaves = (*names["model"].parameters(), names["w"], names.get("x"), names.get("y"))
        for x in (*leaves, names["cache"].get("retained")):
            if isinstance(x, torch.Tensor) and (x.is_leaf or x.retains_grad):
                x.grad = None

    def look(self, result: Any) -> Looker:
        """All that can be seen now."""
        names, looker = self.names, Looker()
        with torch.no_grad():
            looker.look("returned", result)
            for name in ("x", "y", "w", "log", "state", "setting", "cache", "arrays"):
                looker.look(name, names.get(name))
            for name in ("x0", "y0"):
                if name in names:
                    looker.look(name, names[name])
            model = names["model"]
            looker.look("parameters", dict(model.named_parameters()))
            looker.look("buffers", dict(model.named_buffers()))
            looker.look(
                "model", {k: getattr(model, k, None) for k in ("training", "steps", "last", "kept")}
            )
            looker.look("optimizer", names["optimizer"].state_dict())
            looker.look("cell", names["get_cell"]())
            looker.look("Settings", names["Settings"].factor)
            looker.look("hooks", len(model._forward_hooks) + len(model._forward_pre_hooks))
        looker.seen["generators"] = (contents(torch.get_rng_state()), random.getstate())
        if self.device == "cuda":
            looker.seen["the GPU's generator"] = contents(torch.cuda.get_rng_state())
        return looker


def _tensors(value: Any, found: list) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, dict):
        for one in value.values():
            _tensors(one, found)
    elif isinstance(value, list | tuple):
        for one in value:
            _tensors(one, found)


def observe(program: Program, compiler: Callable | None = None, device: str = "cpu") -> list[Seen]:
    """What is seen after each of a program's calls, run eagerly or through a compiler."""
    before = torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        return list(World(program, compiler, device).calls())
    finally:  # whatever a broken compiler leaves behind
        torch.set_grad_enabled(before[0])
        torch.set_default_dtype(before[1])
