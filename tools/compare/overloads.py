#!/usr/bin/env python3
"""Compares `torch.ops.aten.<name>.<overload>` with PyTorch's, call by call.

    PYTHON_WITH_BOTH tools/compare/overloads.py               all that PyTorch's own samples reach
    PYTHON_WITH_BOTH tools/compare/overloads.py --ops '^nn'   some operators of its database

PyTorch's database of operators runs under a dispatch mode that keeps each call of an overload with
its arguments and results, gradients included; tritorch's overload then gets the same arguments.
torch 2.13 (CPU) and tritorch are needed in one interpreter.
"""

from __future__ import annotations

import collections
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

import tritorch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "record"))
from recording import parser

# What these give is random, or memory as it was: shapes and dtypes are compared.
RANDOM = re.compile(
    r"rand|normal|bernoulli|multinomial|uniform|exponential|cauchy|geometric|dropout|empty|rrelu|"
    r"resize|fractional|poisson|binomial|gamma|dirichlet"
)
# Unique up to signs.
SIGNS = re.compile(r"svd|eig|qr|lobpcg")


class Recorder(TorchDispatchMode):
    """Keeps the first calls of each overload, of different kinds of arguments."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.calls: dict[str, list[Any]] = collections.defaultdict(list)
        self.seen: collections.Counter[Any] = collections.Counter()
        self.most = most

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kind = (str(func), describe(args), describe(kwargs))
        keep = self.seen[kind] == 0 and self.seen[str(func)] < self.most
        before = cloned((args, kwargs)) if keep else None
        result = func(*args, **kwargs)
        if keep and func.namespace == "aten":
            self.seen[kind] += 1
            self.seen[str(func)] += 1
            self.calls[str(func)].append((func, before, cloned(result)))
        return result


def describe(value: Any) -> Any:
    """The kind of an argument: ranks and dtypes of tensors, numbers by their type."""
    if isinstance(value, torch.Tensor):
        return value.dtype, min(value.ndim, 3), value.numel() == 0
    if isinstance(value, (list, tuple)):
        return tuple(map(describe, value[:3]))
    if isinstance(value, dict):
        return tuple((k, describe(v)) for k, v in value.items())
    return value if isinstance(value, (bool, str)) else type(value).__name__


def cloned(value: Any) -> Any:
    """The value with tensors of its own, laid out as they were."""
    if isinstance(value, torch.Tensor):
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        return copy.copy_(value.detach()) if value.numel() else copy
    if isinstance(value, (list, tuple)):
        return (
            type(value)(map(cloned, value))
            if type(value) in (list, tuple)
            else tuple(map(cloned, value))
        )
    if isinstance(value, dict):
        return {k: cloned(v) for k, v in value.items()}
    return value


def ours(value: Any) -> Any:
    """The value with tritorch's tensors, dtypes and devices."""
    if isinstance(value, torch.Tensor):
        plain = value.resolve_conj().resolve_neg().contiguous()
        try:
            found = tritorch.from_numpy(plain.numpy().copy())
        except TypeError:  # NumPy has no such type
            plain = plain.reshape(1) if plain.ndim == 0 else plain
            bits = tritorch.from_numpy(plain.view(torch.uint8).numpy().copy())
            found = bits.view(ours(value.dtype)).reshape(tuple(value.shape))
        out = tritorch.empty_strided(tuple(value.shape), tuple(value.stride()), dtype=found.dtype)
        return out.copy_(found) if value.numel() else out
    if isinstance(value, torch.dtype):
        return getattr(tritorch, str(value).removeprefix("torch."))
    if isinstance(value, (torch.layout, torch.memory_format)):
        return getattr(tritorch, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return tritorch.device(str(value))
    if isinstance(value, (list, tuple)):
        return (
            type(value)(map(ours, value))
            if type(value) in (list, tuple)
            else tuple(map(ours, value))
        )
    if isinstance(value, dict):
        return {k: ours(v) for k, v in value.items()}
    return value


def differs(name: str, a: Any, b: Any) -> str:
    """What is different in our result `a` from PyTorch's `b`; nothing if it is the same."""
    if isinstance(b, (list, tuple)):
        if not isinstance(a, (list, tuple)) or len(a) != len(b):
            return f"{len(b)} results, not {len(a) if isinstance(a, (list, tuple)) else type(a)}"
        return next((d for d in (differs(name, x, y) for x, y in zip(a, b)) if d), "")
    if not isinstance(b, torch.Tensor):
        equal = a == b or (a != a and b != b)
        close = isinstance(b, float) and abs(a - b) <= 1e-5 * max(1.0, abs(b))
        return "" if equal or close else f"{a!r}, not {b!r}"
    if not isinstance(a, tritorch.Tensor):
        return f"{type(a).__name__}, not a tensor"
    if tuple(a.shape) != tuple(b.shape) or str(a.dtype)[-6:] != str(b.dtype)[-6:]:
        return f"{tuple(a.shape)} {a.dtype}, not {tuple(b.shape)} {b.dtype}"
    if RANDOM.search(name) or not b.numel():
        return ""
    wide = torch.complex128 if b.is_complex() else torch.float64
    kind = getattr(tritorch, str(wide).removeprefix("torch."))
    x, y = torch.from_numpy(a.to(kind).numpy().copy()), b.detach().to(wide)
    if SIGNS.search(name):
        x, y = x.abs(), y.abs()
    if not torch.allclose(x, y, 1e-4, 1e-4, equal_nan=True):
        return f"values: {x.flatten()[:4].tolist()}, not {y.flatten()[:4].tolist()}"
    return ""


def backward(result: Any) -> None:
    """Runs the gradients of a result, which are calls of overloads too."""
    results = result if isinstance(result, (list, tuple)) else [result]
    for each in results:
        if isinstance(each, torch.Tensor) and each.requires_grad:
            each.backward(torch.ones_like(each), retain_graph=True)


def main() -> None:
    """Runs the database and prints what differs."""
    known = parser(__doc__)
    known.add_argument("--ops", default="", help="a pattern of names in PyTorch's database")
    known.add_argument("--most", type=int, default=12, help="calls of each overload")
    known.add_argument("--samples", type=int, default=40, help="samples of each operator")
    args = known.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    recorder = Recorder(args.most)
    for op in op_db:
        if not re.search(args.ops, op.name):
            continue
        dtype = next((d for d in (torch.float32, torch.int64, torch.bool, torch.complex64)
                      if d in op.supported_dtypes("cpu")), None)  # fmt: skip
        try:
            grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
            samples = list(op.sample_inputs("cpu", dtype, requires_grad=grad))[: args.samples]
        except Exception:
            continue
        for sample in samples:
            try:
                with recorder:
                    backward(op(sample.input, *sample.args, **sample.kwargs))
            except Exception:
                continue
    agree, wrong = 0, collections.Counter()
    for name, calls in sorted(recorder.calls.items()):
        told = ""
        for func, (given, named), result in calls:
            packet, overload = func.overloadpacket.__name__, func._overloadname
            try:
                mine = getattr(getattr(tritorch.ops.aten, packet), overload)
                found = mine(*ours(given), **ours(named))
                told = differs(name, found, result)
            except Exception as error:
                told = f"{type(error).__name__}: {str(error)[:150]}"
            if told:
                told += f"  {str(describe(given))[:150]} {str(named)[:100]}"
                break
        agree += not told
        if told:
            wrong[told.split(":")[0]] += 1
            print(f"{name}: {told}".replace("\n", " "))
    print(f"{agree} of {len(recorder.calls)} overloads agree")


if __name__ == "__main__":
    main()
