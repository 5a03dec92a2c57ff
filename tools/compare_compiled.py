#!/usr/bin/env python3
"""Run PyTorch's operator database compiled, and hold it to eager: the same bits, four calls each.

    python tools/compare_compiled.py --scripts ../shared/conformance            # every operator
    python tools/compare_compiled.py --scripts ../shared/conformance --ops '^linalg' -v

torch==2.13.0 (CPU) is needed beside tritorch, whose samples it gives.  For each sample the operator
runs in a compiled function of its own, called four times, and what it gives, its strides and its
gradients must be those of a plain call.  With `--together` an operator has one compiled function
for all its samples, so that sizes and numbers differ from call to call.  Reported, too: which calls
were barriers (they cannot wait for the end of the function), and why.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import re
import sys
import warnings
from typing import Any

CALLS = 4


def dense(tensor: Any) -> Any:
    """A tensor with all its entries."""
    return tensor if str(tensor.layout).endswith(".strided") else tensor.to_dense()


def bits(tensor: Any) -> Any:
    """What two equal tensors agree in."""
    array = dense(tensor.detach()).cpu()._array
    return (
        tuple(tensor.shape), str(tensor.dtype), dense(tensor).stride(), tensor.requires_grad,
        array.tobytes(),
    )  # fmt: skip


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


def runs(op: Any, sample: Any) -> bool:
    """Whether PyTorch takes a sample."""
    import torch

    torch.manual_seed(0)
    try:
        op.op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return False
    return True


def steps(step: Any) -> Any:
    """All calls of a trie."""
    for each in step.next:
        yield each
        yield from steps(each)


def main() -> int:
    """Compares; the exit status says whether something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", default="../shared/conformance")
    parser.add_argument("--ops", default="")
    parser.add_argument("--limit", type=int, default=4, help="samples of an operator")
    parser.add_argument("--no-grad", action="store_true", help="inputs that want no gradient")
    parser.add_argument("--together", action="store_true", help="one function for all samples")
    parser.add_argument("-v", action="store_true", help="each barrier")
    options = parser.parse_args()
    sys.path.insert(0, options.scripts)
    warnings.simplefilter("ignore")
    import opinfo
    import torch

    import tritorch
    from tritorch._following import counts
    from tritorch._following.regions import Follower, Options

    bridge = opinfo.Bridge("tritorch", "cpu")
    calls, opened, differ, barriers = 0, 0, collections.Counter[str](), collections.Counter[str]()
    for op in opinfo.op_db:
        if not re.search(options.ops, op.name) or opinfo.NOT_OURS.search(op.name):
            continue
        if opinfo.SHAPE_ONLY.search(op.name) and "empty" in op.name:
            continue
        function = bridge.function(op)
        if function is None:
            continue
        wants = op.supports_autograd and not options.no_grad
        samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=wants))
        name = f"{op.name} {op.variant_test_name}".strip()
        follow = lambda f=function: Follower(lambda *a, **k: f(*a, **k), Options())
        valid = [each for each in samples[: options.limit] if runs(op, each)]
        plain = [outcome(tritorch, function, each, bridge) for each in valid]
        followers = [follow()] * len(valid) if options.together else [follow() for _ in valid]
        for _ in range(CALLS):
            for sample, expected, compiled in zip(valid, plain, followers, strict=True):
                calls += 1
                if outcome(tritorch, compiled, sample, bridge) != expected:
                    differ[name] += 1
        for step in (step for compiled in {*followers} for step in steps(compiled.trie)):
            opened += step.call.opened is not None and bool(step.call.opened.symbols)
            if step.barrier:
                barriers[f"{name}: {step.gate.__name__}: {step.call.barrier}"] += 1
    print(f"{calls} calls, {sum(differ.values())} differ, {len(barriers)} barriers")
    print(f"  {opened} steps leave sizes or numbers open")
    for name, count in differ.most_common():
        print(f"  {name}: {count}")
    reasons = collections.Counter(key.rsplit(": ", 1)[1] for key in barriers)
    for key, count in (barriers if options.v else reasons).items():
        print(f"  barrier {key}: {count}")
    for why, count in counts.unfit_reasons.most_common(None if options.v else 10):
        print(f"  computed by its calls: {why}: {count}")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
