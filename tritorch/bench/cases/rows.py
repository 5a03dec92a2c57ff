"""Functions of rows, from a thousand to 64 thousand columns, and norms of images: both passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tritorch.bench.declare import Array, Benchmark, Scale, family, moved, with_gradient

COLUMNS = (1024, 4096, 8192, 16384, 32768, 65536)
COMPILED = 4096  # columns at which torch.compile takes part
ELEMENTS = 1 << 26


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _standard(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def _losses(x: Any, y: Any) -> Any:
    top = x.max(-1)
    of_all = top + np.log(np.exp(x - top[:, None]).sum(-1))
    return (of_all - x[np.arange(len(x)), y.astype(int)]).mean()


# Name: (the call, whether it has a weight and a bias of a row, NumPy's, JAX's).
ROWS: dict[str, tuple[Any, int, Any, Any]] = {
    "softmax": (lambda t, x: x.softmax(-1), 0, _softmax, lambda jax, x: jax.nn.softmax(x)),
    "log_softmax": (
        lambda t, x: x.log_softmax(-1), 0, lambda x: np.log(_softmax(x)),
        lambda jax, x: jax.nn.log_softmax(x),
    ),
    "layer_norm": (
        lambda t, x, w, b: t.nn.functional.layer_norm(x, x.shape[1:], w, b), 2,
        lambda x, w, b: _standard(x) * w + b, None,
    ),
    "rms_norm": (
        lambda t, x, w: t.nn.functional.rms_norm(x, x.shape[1:], w, 1e-5), 1,
        lambda x, w: x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-5) * w, None,
    ),
}  # fmt: skip


def _rows(scale: Scale, dtype: str, tolerance: float) -> Iterable[Benchmark]:
    for name, (call, weights, reference, in_jax) in ROWS.items():
        for columns in scale.pick(COLUMNS, (1024, 16384), (33,)):
            rows = max(scale.pick(ELEMENTS, 1 << 22, 132) // columns, 2)
            x = Array((rows, columns), dtype, grad=True)
            inputs = {"x": x} | {
                key: Array((columns,), dtype, "positive", grad=True) for key in "wb"[:weights]
            }
            forward = Benchmark(
                "rows", f"{name} {rows}x{columns}", call, inputs, bytes=moved(inputs, x),
                tolerance=tolerance, reference=reference, compiled=columns == COMPILED,
                peers={"jax": in_jax} if in_jax else {},
                tags=("softmax" if weights == 0 else "norm", "forward"),
            )  # fmt: skip
            yield forward
            # Softmax needs its output and the gradient, a norm its input and the gradient.
            read = 2 * x.bytes + moved(dict(list(inputs.items())[1:]))
            written = moved(inputs)
            yield with_gradient(
                forward, x, read + written, tolerance=2 * tolerance,
                tags=("softmax" if weights == 0 else "norm", "backward"),
            )  # fmt: skip


def _images(scale: Scale, dtype: str, tolerance: float) -> Iterable[Benchmark]:
    n, side = scale.pick((64, 56), (8, 28), (2, 3))
    channels = scale.pick(256, 64, 8)
    x = Array((n, channels, side, side), dtype, grad=True)
    for name, groups, last in (
        ("group_norm", 32, False), ("batch_norm", 0, False), ("batch_norm channels last", 0, True),
    ):  # fmt: skip
        y = Array(x.shape, dtype, grad=True, channels_last=last)
        weight = Array((channels,), "float32" if groups == 0 else dtype, "positive", grad=True)
        call = _group_norm(min(groups, channels // 2)) if groups else _batch_norm
        inputs = {"x": y, "w": weight, "b": weight}
        forward = Benchmark(
            "rows", f"{name} {n}x{channels}x{side}x{side}", call, inputs,
            # Statistics need one pass, the result another.
            bytes=moved(inputs, x, x), tolerance=tolerance, tags=("image norm", "forward"),
        )  # fmt: skip
        yield forward
        yield with_gradient(
            forward, Array(x.shape, dtype, channels_last=last), 5 * x.bytes + 2 * weight.bytes,
            tolerance=4 * tolerance, tags=("image norm", "backward"),
        )  # fmt: skip


def _group_norm(groups: int) -> Any:
    return lambda t, x, w, b: t.nn.functional.group_norm(x, groups, w, b)


def _batch_norm(t: Any, x: Any, w: Any, b: Any) -> Any:
    return t.nn.functional.batch_norm(x, None, None, w, b, training=True)


def _cross_entropy(scale: Scale, dtype: str, tolerance: float) -> Iterable[Benchmark]:
    call = lambda t, x, y: t.nn.functional.cross_entropy(x, y)
    for columns in scale.pick((1024, 4096, 16384, 32768, 65536), (1024, 16384), (33,)):
        rows = max(scale.pick(ELEMENTS, 1 << 22, 132) // columns, 2)
        x = Array((rows, columns), dtype, grad=True)
        inputs = {"x": x, "y": Array((rows,), "int64", "labels", high=columns)}
        forward = Benchmark(
            "rows", f"cross_entropy {rows}x{columns}", call, inputs, bytes=moved(inputs),
            tolerance=tolerance, reference=_losses, compiled=columns == COMPILED,
            tags=("cross_entropy", "forward"),
        )  # fmt: skip
        yield forward
        yield with_gradient(
            forward, None, moved(inputs, x), tolerance=2 * tolerance,
            tags=("cross_entropy", "backward"),
        )  # fmt: skip


@family("rows", seconds=70)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """Rows of bfloat16 on a GPU, of float32 elsewhere."""
    dtype, tolerance = scale.pick(("bfloat16", 1e-2), ("float32", 1e-4), ("float32", 1e-4))
    yield from _rows(scale, dtype, tolerance)
    yield from _cross_entropy(scale, dtype, tolerance)
    yield from _images(scale, dtype, tolerance)
