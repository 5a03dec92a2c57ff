#!/usr/bin/env python3
"""Run PyTorch's operator database compiled, and hold it to eager: the same bits, four calls each.

    python tools/compare/compiled.py --scripts ../shared/conformance            # every operator
    python tools/compare/compiled.py --scripts ../shared/conformance --ops '^linalg' -v

torch==2.13.0 (CPU) is needed beside tritorch, whose samples it gives.  For each sample the operator
runs in a compiled function of its own, called four times, and what it gives, its strides and its
gradients must be those of a plain call.  With `--together` an operator has one compiled function
for all its samples, so that sizes and numbers differ from call to call.  With `--between` it stands
between pointwise calls and sums, with which a kernel may join it.  Reported, too: which calls were
graph breaks, and why.

On a GPU, or the simulated one (`TRITORCH_SIMULATE_CUDA=1`), kernels are written:

    python tools/compare/compiled.py --device cuda --exact --between
    python tools/compare/compiled.py --device cuda --near 1e-4 --between
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

CALLS = 4


def dense(tensor: Any) -> Any:
    """A tensor with all its entries."""
    return tensor if str(tensor.layout).endswith(".strided") else tensor.to_dense()


def bits(tensor: Any) -> Any:
    """What two equal tensors agree in."""
    array = dense(tensor.detach()).cpu()
    return (
        tuple(tensor.shape), str(tensor.dtype), dense(tensor).stride(), tensor.requires_grad,
        array._array.tobytes(), array,
    )  # fmt: skip


def alike(one: Any, other: Any, near: float) -> bool:
    """Whether two things that calls gave are the same; floats may be near each other."""
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return bool(one == other)
    if one[:4] != other[:4] or one[4] == other[4]:
        return one[:4] == other[:4]
    if not near or not (one[5].is_floating_point() or one[5].is_complex()):
        return False
    a, b = (np.asarray(x[5].double() if x[5].is_floating_point() else x[5]) for x in (one, other))
    largest = np.abs(a[np.isfinite(a)]).max(initial=1.0)
    return np.allclose(a, b, near, near * largest, equal_nan=True)


def same(one: list[Any], other: list[Any], near: float) -> bool:
    """Whether two outcomes are the same."""
    return len(one) == len(other) and all(alike(a, b, near) for a, b in zip(one, other))


def between(lib: Any, function: Any) -> Any:
    """The function between pointwise calls that change no value, and sums."""

    def before(x: Any) -> Any:
        if isinstance(x, (tuple, list)) and not hasattr(x, "_fields"):
            return type(x)(before(each) for each in x)
        return x * 2 * 0.5 if _is_float(lib, x) else x

    def after(x: Any) -> list[Any]:
        if not _is_float(lib, x):
            return [x]
        doubled = x * 2
        return [doubled * 0.5, doubled.sum(-1) if x.dim() else doubled.relu(), x.sum(0, True) + 1
                if x.dim() else x]  # fmt: skip

    def call(*args: Any, **kwargs: Any) -> list[Any]:
        results = flat(function(*map(before, args), **kwargs), lib.Tensor)
        return [y for x in results for y in after(x)]

    return call


def _is_float(lib: Any, x: Any) -> bool:
    """Whether a value is a dense tensor of floats."""
    return isinstance(x, lib.Tensor) and x.is_floating_point() and dense(x) is x


def flat(value: Any, tensor_type: type) -> list[Any]:
    """The tensors and numbers of nested data."""
    if isinstance(value, tensor_type):
        return [value]
    if isinstance(value, (tuple, list)):
        return [x for item in value for x in flat(item, tensor_type)]
    return [value]


def outcome(lib: Any, call: Any, sample: Any, bridge: Any) -> list[Any]:
    """What a call gives, and the gradients of its sum; or the error."""
    with contextlib.suppress(RuntimeError):  # of tensors that are no leaves
        sample = copy.deepcopy(sample)  # calls may write, and samples share tensors
    x, args, kwargs = map(bridge.to_lib, (sample.input, sample.args, dict(sample.kwargs)))
    leaves = [t for t in flat([x, *args, *kwargs.values()], lib.Tensor) if is_leaf(lib, t)]
    lib.manual_seed(0)
    try:
        results = flat(call(x, *args, **kwargs), lib.Tensor)
    except Exception as error:
        return [type(error), str(error)]
    found = [bits(r) if isinstance(r, lib.Tensor) else repr(r) for r in results]
    wanted = [dense(r) for r in results if isinstance(r, lib.Tensor) and r.requires_grad]
    if wanted and leaves:
        try:
            lib.autograd.backward(wanted, [lib.ones_like(r) for r in wanted])
        except Exception as error:
            found.append(str(error))
        found += [None if leaf.grad is None else bits(leaf.grad) for leaf in leaves]
    return found


def is_leaf(lib: Any, value: Any) -> bool:
    """Whether a value gets a gradient."""
    return isinstance(value, lib.Tensor) and value.requires_grad


def shown(found: list[Any]) -> str:
    """An outcome, in short."""
    return str([x[5] if isinstance(x, tuple) else x for x in found])[:600]


def runs(op: Any, sample: Any) -> bool:
    """Whether PyTorch takes a sample."""
    import torch

    torch.manual_seed(0)
    try:
        op.op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return False
    return True


def operators(opinfo: Any, bridge: Any, options: argparse.Namespace) -> Iterator[Any]:
    """(name, our function, samples that PyTorch takes) of each operator that is asked for."""
    import torch

    dtype = getattr(torch, options.dtype)
    for op in opinfo.op_db:
        if not re.search(options.ops, op.name) or opinfo.NOT_OURS.search(op.name):
            continue
        if opinfo.SHAPE_ONLY.search(op.name) and "empty" in op.name:
            continue
        function = bridge.function(op)
        if function is None or dtype not in op.dtypes:
            continue
        wants = op.supports_autograd and not options.no_grad and dtype.is_floating_point
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=wants))
        name = f"{op.name} {op.variant_test_name}".strip()
        yield name, function, [each for each in samples[: options.limit] if runs(op, each)]


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What says which operators and samples."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scripts", default="../shared/conformance")
    parser.add_argument("--ops", default="")
    parser.add_argument("--limit", type=int, default=4, help="samples of an operator")
    parser.add_argument("--no-grad", action="store_true", help="inputs that want no gradient")
    parser.add_argument("--dtype", default="float32")
    return parser


def steps(step: Any) -> Any:
    """All calls of a trie."""
    for each in step.next:
        yield each
        yield from steps(each)


def main() -> int:
    """Compares; the exit status says whether something differs."""
    parser = arguments(__doc__)
    parser.add_argument("--together", action="store_true", help="one function for all samples")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--exact", action="store_true", help="as mode='exact' compiles")
    parser.add_argument("--near", type=float, default=0.0, help="how near floats have to be")
    parser.add_argument("--between", action="store_true", help="pointwise calls around each call")
    parser.add_argument("-v", action="store_true", help="each graph break")
    options = parser.parse_args()
    sys.path.insert(0, options.scripts)
    warnings.simplefilter("ignore")
    import opinfo

    import tritorch
    from tritorch.compilation.follow import counts
    from tritorch.compilation.follow.regions import Follower, Options
    from tritorch.compilation.plan.plans import Making

    making = Making(fusing="exact" if options.exact else "default")
    bridge = opinfo.Bridge("tritorch", options.device)
    calls, dynamic, differ, breaks = 0, 0, collections.Counter[str](), collections.Counter[str]()
    for name, function, valid in operators(opinfo, bridge, options):
        if options.between:
            function = between(tritorch, function)
        follow = lambda f=function: Follower(lambda *a, **k: f(*a, **k), Options(making=making))
        plain = [outcome(tritorch, function, each, bridge) for each in valid]
        followers = [follow()] * len(valid) if options.together else [follow() for _ in valid]
        for _ in range(CALLS):
            for sample, expected, compiled in zip(valid, plain, followers, strict=True):
                calls += 1
                found = outcome(tritorch, compiled, sample, bridge)
                if not same(expected, found, options.near):
                    differ[name] += 1
                    if options.v and differ[name] == 1:
                        print(f"{name}: {shown(expected)}\n  compiled: {shown(found)}", flush=True)
        for step in (step for compiled in {*followers} for step in steps(compiled.trace_tree)):
            dynamic += step.call.dynamic is not None and bool(step.call.dynamic.symbols)
            if step.graph_break:
                breaks[f"{name}: {step.gate.__name__}: {step.call.graph_break}"] += 1
    print(f"{calls} calls, {sum(differ.values())} differ, {len(breaks)} graph breaks")
    print(f"  {dynamic} steps have dynamic sizes or numbers")
    for name, count in differ.most_common():
        print(f"  {name}: {count}")
    reasons = collections.Counter(key.rsplit(": ", 1)[1] for key in breaks)
    for key, count in (breaks if options.v else reasons).items():
        print(f"  graph break {key}: {count}")
    for why, count in counts.unfit_reasons.most_common(None if options.v else 10):
        print(f"  computed by its calls: {why}: {count}")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
