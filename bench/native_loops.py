"""The gain of each native loop of the CPU on its operator, beside its NumPy twin.

    python bench/native_loops.py [--rounds 5]

Two processes in turn, with and without TRITORCH_NUMPY_ONLY=1 (Note [NumPy defines] in
tritorch/host/loops.py), medians of their times.  A loop that gains less than 1.5 goes, but for
those that are there for their bits (docs/backends.md).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

WORTH = 1.5

_SETUP = """
import tritorch as torch, tritorch.nn.functional as F
torch.manual_seed(0)
x, y = torch.randn(256, 1024), torch.randn(256, 1024)
u, d, unit = x.sigmoid(), x.double(), x.sigmoid() * 1.8 - 0.9
small, row = torch.randn(8, 64), torch.randn(1024)
index = torch.randint(1024, (256, 1024))
image, filters = torch.randn(8, 16, 32, 32), torch.randn(16, 16, 3, 3)
big, mean, var = torch.randn(16, 32, 32, 32), torch.zeros(32), torch.ones(32)
logits, target = torch.randn(256, 1000), torch.randint(1000, (256,))
q = torch.randn(2, 8, 128, 64)
a, b = torch.randn(256, 256), torch.randn(256, 256)
tokens, table = torch.randint(50, (8, 8)), torch.randn(1000, 64)
def gradient(function, *leaves):
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    out = function(*leaves)
    g = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, leaves, g, retain_graph=True)
conv_back = gradient(lambda i, w: F.conv2d(i, w, padding=1), image, filters)
batch_back = gradient(lambda i: F.batch_norm(i, None, None, training=True), big)
layer_back = gradient(lambda i, w: F.layer_norm(i, (1024,), w), x, row)
attend_back = gradient(lambda i: F.scaled_dot_product_attention(i, i, i, is_causal=True), q)
def stepping():
    model = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(4)])
    step = torch.optim.AdamW(model.parameters())
    for p in model.parameters(): p.grad = torch.randn_like(p)
    return step.step
adamw, lstm, sequence = stepping(), torch.nn.LSTM(64, 64), torch.randn(32, 16, 64)
"""

# By the loop: the operator that it is measured on.
CASES = {
    "exp": "x.exp()", "expm1": "x.expm1()", "log": "u.log()", "log1p": "u.log1p()",
    "tanh": "x.tanh()", "sigmoid": "x.sigmoid()", "normal": "F.gelu(x)", "erf": "x.erf()",
    "erf64": "d.erf()", "erfc64": "d.erfc()", "lgamma64": "d.lgamma()", "erfinv": "unit.erfinv()",
    "sum_dims": "small.sum()", "fold_columns": "x.sum(0)", "running_sums": "x.cumsum(1)",
    "running_products": "u.cumprod(1)", "add_scaled": "x.add_(y, alpha=1e-9)",
    "multiply": "a @ b", "dot": "x.norm()",
    "attend": "F.scaled_dot_product_attention(q, q, q, is_causal=True)",
    "attend_backward": "attend_back()", "all_inside": "F.embedding(tokens, table)",
    "gather": "x.gather(1, index)", "scatter_add": "x.scatter_add(1, index, y)",
    "first_of_rows": "x.topk(5)", "normalise_rows": "F.layer_norm(x, (1024,))",
    "normalise_rows_backward": "layer_back()",
    "normalise": "F.batch_norm(big, mean, var, training=True)",
    "normalise_backward": "batch_back()", "convolve": "F.conv2d(image, filters, padding=1)",
    "convolve_weight": "conv_back()", "pool_largest": "F.max_pool2d(image, 2)",
    "interpolate_planes": "F.interpolate(image, scale_factor=2, mode='bilinear')",
    "ChainTable": "F.silu(x)", "rowwise": "x.softmax(-1)", "write": "x.lerp_(y, 0.1)",
    "an optimizer's chain": "adamw()", "rowwise of cells": "lstm(sequence)",
}  # fmt: skip

_RUN = """
import json, sys, time
cases = json.loads(sys.argv[1])
scope = {}
exec(cases.pop(""), scope)
found = {}
for name, code in cases.items():
    run = eval(f"lambda: {code}", scope)
    run(); begin = time.perf_counter(); run()
    count = max(1, int(0.02 / (time.perf_counter() - begin + 1e-9)))
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(count): run()
        times.append((time.perf_counter() - begin) / count * 1e6)
    found[name] = min(times)
print(json.dumps(found))
"""


def measure(numpy_only: bool) -> dict[str, float]:
    """Microseconds of each operator, in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps({"": _SETUP, **CASES})],
        env={**os.environ, "TRITORCH_NUMPY_ONLY": str(int(numpy_only))},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(run.stdout)


def main() -> None:
    """Prints a table for docs/backends.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    times: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for _ in range(rounds):
        for numpy_only, found in times.items():
            found.append(measure(numpy_only))
    print("| Loop | Operator | native, us | NumPy, us | gain |\n| --- | --- | --- | --- | --- |")
    for name, code in CASES.items():
        ours, twins = (statistics.median(run[name] for run in times[n]) for n in (False, True))
        gain = twins / ours
        mark = "" if gain >= WORTH else " (!)"
        print(f"| `{name}` | `{code}` | {ours:.1f} | {twins:.1f} | {gain:.1f}{mark} |")


if __name__ == "__main__":
    main()
