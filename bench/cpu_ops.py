"""Operators on the CPU, small, in the cache and large, beside PyTorch with as many threads.

    python bench/cpu_ops.py [--threads 2] [--rounds 7] [--only REGEX] [--sizes small ...] [--json]

Every operator runs on the same numbers in both libraries and the results are compared.  Processes
and rounds are those of train_cpu.py.  A ratio is our time over PyTorch's: below 1 we are faster.
"""

from __future__ import annotations

import importlib
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tritorch.bench import beside

RESULTS = Path(__file__).parent / "results" / "cpu_ops.json"
SECONDS = 0.02  # a round of one case takes at least so long
SIZES = {"small": 8, "cached": 256, "large": 2048}  # a side of a square matrix
SLOWEST = 2.0  # no operator should take more of PyTorch's time

# ---- the operators -------------------------------------------------------------------------------
# x, y: normal numbers; p: positive ones; row, col: one row, one column; i: whole numbers below the
# side; k: int64; b: booleans; h: bfloat16.  t is the library, F its torch.nn.functional.

MATRICES: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "add_row": lambda x, row: x + row,
    "mul_column": lambda x, col: x * col,
    "add_number": lambda x: x + 1.5,
    "mul": lambda x, y: x * y,
    "div": lambda x, p: x / p,
    "add_int64": lambda k: k + k,
    "add_bfloat16": lambda h: h + h,
    "add_": lambda x, y: x.add_(y, alpha=1e-9),
    "abs": lambda x: x.abs(),
    "exp": lambda x: x.exp(),
    "log": lambda p: p.log(),
    "sqrt": lambda p: p.sqrt(),
    "sin": lambda x: x.sin(),
    "tanh": lambda x: x.tanh(),
    "erf": lambda x: x.erf(),
    "square": lambda x: x**2,
    "pow": lambda p: p**1.7,
    "clamp": lambda x: x.clamp(-1, 1),
    "maximum": lambda x, y, t: t.maximum(x, y),
    "less": lambda x, y: x < y,
    "logical_and": lambda b: b & ~b,
    "where": lambda b, x, y, t: t.where(b, x, y),
    "masked_fill": lambda x, b: x.masked_fill(b, 0.0),
    "addcmul": lambda x, y, p, t: t.addcmul(x, y, p, value=0.5),
    "lerp": lambda x, y: x.lerp(y, 0.3),
    "sigmoid": lambda x: x.sigmoid(),
    "relu": lambda x, F: F.relu(x),
    "gelu": lambda x, F: F.gelu(x),
    "silu": lambda x, F: F.silu(x),
    "dropout": lambda x, F: F.dropout(x, 0.5).shape,
    "to_bfloat16": lambda x, t: x.to(t.bfloat16),
    "to_float64": lambda x, t: x.to(t.float64),
    "transposed_copy": lambda x: x.t().contiguous(),
    "cat": lambda x, y, t: t.cat([x, y], 1),
    "flip": lambda x: x.flip(0),
    "tril": lambda x: x.tril(),
    "sum": lambda x: x.sum(),
    "sum_rows": lambda x: x.sum(0),
    "mean_columns": lambda x: x.mean(1),
    "var": lambda x: x.var(1),
    "norm": lambda x: x.norm(),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(1).values,
    "argmax": lambda x: x.argmax(1),
    "any": lambda b: b.any(0),
    "logsumexp": lambda x: x.logsumexp(1),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "cumsum": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(1).values,
    "topk": lambda x: x.topk(4, 1).values,
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, k: x.gather(1, k),
    "scatter_add": lambda x, k, y: x.scatter_add(1, k, y),
    "masked_select": lambda x, b: x[b],
    "embedding": lambda x, i, F: F.embedding(i, x),
    "layer_norm": lambda x, F: F.layer_norm(x, x.shape[1:]),
    "cross_entropy": lambda x, i, F: F.cross_entropy(x, i),
    "linear": lambda x, y, row, F: F.linear(x, y, row[0]),
    "mv": lambda x, col: x @ col[:, 0],
    "randn": lambda x, t: t.randn(x.shape).shape,
}
# Images: (batch, channels, height, width) by size.  A signal is as eight of an image's rows.
IMAGES = {"small": (2, 4, 6, 6), "cached": (8, 16, 16, 16), "large": (32, 64, 56, 56)}
PICTURES: dict[str, Callable[..., Any]] = {
    "conv2d": lambda image, kernel, F: F.conv2d(image, kernel, padding=1),
    "conv2d_strided": lambda image, kernel, F: F.conv2d(image, kernel, stride=2, padding=1),
    "conv2d_1x1": lambda image, kernel, F: F.conv2d(image, kernel[:, :, :1, :1]),
    "conv2d_depthwise": lambda image, kernel, F: F.conv2d(
        image, kernel[:, :1], padding=1, groups=image.shape[1]
    ),
    "conv_transpose2d": lambda image, kernel, F: F.conv_transpose2d(image, kernel, padding=1),
    "conv2d_backward": lambda image, kernel, F, t: t.autograd.grad(
        F.conv2d(image.requires_grad_(), kernel.requires_grad_(), padding=1).sum(), (image, kernel)
    )[0],
    "depthwise_backward": lambda image, kernel, F, t: t.autograd.grad(
        F.conv2d(
            image.requires_grad_(), kernel.requires_grad_()[:, :1], padding=1, groups=image.shape[1]
        ).sum(),
        (image, kernel),
    )[0],
    "conv1d": lambda signal, taps, F: F.conv1d(signal, taps, padding=1),
    "conv1d_depthwise": lambda signal, taps, F: F.conv1d(
        signal, taps[:, :1], padding=1, groups=signal.shape[1]
    ),
    "conv1d_backward": lambda signal, taps, F, t: t.autograd.grad(
        F.conv1d(signal.requires_grad_(), taps.requires_grad_(), padding=1).sum(), (signal, taps)
    )[0],
    "max_pool2d": lambda image, F: F.max_pool2d(image, 2),
    "avg_pool2d": lambda image, F: F.avg_pool2d(image, 2),
    "batch_norm": lambda image, F: F.batch_norm(image, None, None, training=True),
    "group_norm": lambda image, F: F.group_norm(image, 2),
    "interpolate": lambda image, F: F.interpolate(image, scale_factor=2.0, mode="bilinear"),
    "bmm": lambda image: image[0] @ image[1],
    "attention": lambda image, F: F.scaled_dot_product_attention(image, image, image),
}
OPERATORS = MATRICES | PICTURES
ABOUT = {"dropout", "randn"}  # whose results are random


def inputs(torch: Any, size: str) -> dict[str, Any]:
    """The arguments that operators name."""
    random = np.random.default_rng(0)
    n, shape = SIZES[size], IMAGES[size]
    channels = shape[1]
    normal = lambda *shape: torch.from_numpy(random.standard_normal(shape, "float32"))
    whole = lambda *shape: torch.from_numpy(random.integers(0, n, shape))
    return {
        "x": normal(n, n), "y": normal(n, n), "p": normal(n, n).abs() + 0.1, "row": normal(1, n),
        "col": normal(n, 1), "i": whole(n), "k": whole(n, n), "b": normal(n, n) > 0,
        "h": normal(n, n).to(torch.bfloat16), "image": normal(*shape),
        "kernel": normal(channels, channels, 3, 3), "signal": normal(*shape[:2], 8 * shape[2]),
        "taps": normal(channels, channels, 3), "t": torch, "F": torch.nn.functional,
    }  # fmt: skip


# ---- one library's process -----------------------------------------------------------------------


def serve(library: str, threads: int) -> None:
    """Answers requests: {"size", "operator", "calls"}."""
    torch = importlib.import_module(library)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    made: dict[str, Any] = {}
    for request in beside.requests():
        size, name = request["size"], request["operator"]
        if size not in made:
            made = {size: inputs(torch, size)}
        run = OPERATORS[name]
        arguments = [made[size][each] for each in run.__code__.co_varnames]
        out = run(*arguments)
        start = time.perf_counter()
        for _ in range(request["calls"]):
            run(*arguments)
        taken = (time.perf_counter() - start) / request["calls"]
        total = 0.0
        if request.get("check") and name not in ABOUT:
            total = out.detach().double().abs().sum().item()
        beside.answer(us=taken * 1e6, sum=total)


# ---- the report ----------------------------------------------------------------------------------


def main() -> None:
    """Prints, and on request writes, the report."""
    parser = beside.parser(__doc__, RESULTS, threads=2, rounds=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads)
        return
    report: dict[str, dict[str, Any]] = {}
    with beside.libraries(__file__, options.threads) as libraries:
        for size in options.sizes:
            for operator in OPERATORS:
                if re.search(options.only, operator):
                    row = beside.compare(
                        libraries, options.rounds, SECONDS, {"size": size, "operator": operator},
                        count="calls", time="us", check="sum", scale=1e-6, tolerance=2e-3,
                        decimals=2,
                    )  # fmt: skip
                    row.pop("sum", None)
                    report[f"{operator} {size}"] = row
                    print(beside.line(f"{size:7} {operator}", row, "us", 24), flush=True)
    more = summary(report, options.sizes) if len(libraries) == 2 else {}
    beside.finish(options.json, report, "operators", threads=options.threads, **more)


def summary(report: dict[str, dict[str, Any]], sizes: list[str]) -> dict[str, Any]:
    """Geometric means of ratios, and the operators that are too slow."""
    of = lambda size: [row["ratio"] for key, row in report.items() if key.endswith(size)]
    means = {size: statistics.geometric_mean(of(size)) for size in sizes if of(size)}
    means["all"] = statistics.geometric_mean(of(""))
    for size, mean in means.items():
        print(f"geometric mean of ratios, {size}: {mean:.2f}")
    slow = {key: row["ratio"] for key, row in report.items() if row["ratio"] > SLOWEST}
    print(f"{len(slow)} of {len(report)} take more than {SLOWEST:g} times PyTorch's time:")
    for key, ratio in sorted(slow.items(), key=lambda item: -item[1]):
        print(f"  {key:30} {ratio:.2f}")
    return {"geometric means of ratios": means, "slow": slow}


if __name__ == "__main__":
    main()
