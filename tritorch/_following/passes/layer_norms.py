"""Layer norms of float32 and their gradients: eager's sums, and chains for what is between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch._following.lowering import Lowered
from tritorch._following.passes.norms import is_dense
from tritorch._following.passes.rowwise import SINGLE, kinds, rowwise
from tritorch._following.tape import Form
from tritorch.host import threads
from tritorch.host.norm import _Blocks, _flat, _rows
from tritorch.host.rows import FEW, dots, sums

Array = np.ndarray[Any, Any]


def _centred(x: Any, mean: Any) -> Any:
    return x - mean


def _scaled(x: Any, rstd: Any, weight: Any, bias: Any) -> Any:
    y = x * rstd
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


def _products(x: Any, mean: Any, g: Any) -> Any:
    centred = x - mean
    return centred, g * centred


def _gradient(g: Any, centred: Any, by: Any, plus: Any, rstd: Any, weight: Any) -> Any:
    return ((g if weight is None else g * weight) - (centred * by + plus)) * rstd


def forward(
    x: Array, weight: Array | None, bias: Array | None, n: int, eps: float
) -> tuple[Array, Array, Array]:
    """`host.norm.layer_norm`."""
    rows, w, b = _rows(x, n), _flat(weight), _flat(bias)
    out = np.empty(rows.shape, SINGLE)
    mean, rstd = np.empty((len(rows), 1), SINGLE), np.empty((len(rows), 1), SINGLE)
    size = SINGLE.type(rows.shape[1])
    centre = rowwise(_centred, "ac")
    scale = rowwise(_scaled, "ac" + kinds(w, b))

    def work(low: int, high: int) -> None:
        block, target = rows[low:high], out[low:high]
        m, r = mean[low:high], rstd[low:high]
        np.divide(sums(block), size, out=m)
        centre(block, m, target)
        variance = sums(np.square(target)) if block.size < FEW else dots(target, target)
        np.divide(variance, size, out=variance)
        np.add(variance, SINGLE.type(eps), out=r)
        np.reciprocal(np.sqrt(r, out=r), out=r)
        scale(target, r, w, b, target)

    threads.rows(len(rows), rows.shape[1] * SINGLE.itemsize, work)
    lead = x.shape[: x.ndim - n]
    return out.reshape(x.shape), mean.reshape(lead), rstd.reshape(lead)


def backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, n: int
) -> tuple[Array, Array, Array]:
    """`host.norm.layer_norm_backward`."""
    rows, grad, w = _rows(x, n), _rows(g, n), _flat(weight)
    m, r = mean.reshape(-1, 1), rstd.reshape(-1, 1)
    out = np.empty(rows.shape, SINGLE)
    blocks = _Blocks(len(rows), rows.shape[1], SINGLE)
    dw, db = (blocks.partial(rows.shape[1:], SINGLE) for _ in range(2))
    size = SINGLE.type(rows.shape[1])
    column = np.ones((rows.shape[1], 1), SINGLE) if w is None else w[:, None]
    multiply = rowwise(_products, "aca")
    finish = rowwise(_gradient, "aaccc" + kinds(w))

    def work(low: int, high: int) -> None:
        block, dy, scale = rows[low:high], grad[low:high], r[low:high]
        centred, product = np.empty(block.shape, SINGLE), np.empty(block.shape, SINGLE)
        multiply(block, m[low:high], dy, centred, product)
        np.matmul(scale.T, product, out=dw[low // blocks.per, None])
        np.matmul(np.ones_like(scale).T, dy, out=db[low // blocks.per, None])
        by = np.matmul(product, column) * (scale * scale / size)
        plus = np.matmul(dy, column) / size
        finish(dy, centred, by, plus, scale, w, out[low:high])

    blocks.run(work)
    shape = x.shape[x.ndim - n :]
    dw, db = np.add.reduce(dw, axis=0).reshape(shape), np.add.reduce(db, axis=0).reshape(shape)
    return out.reshape(x.shape), dw, db


_CHAINED = {"layer_norm": forward, "layer_norm_backward": backward}


def layer_normed(calls: Sequence[Lowered], forms: Sequence[Form]) -> list[Lowered]:
    """The calls, layer norms by chains."""
    return [
        call._replace(function=_C.Quiet(_CHAINED[call.note.op.name]))
        if _fits(call, forms)
        else call
        for call in calls
    ]


def _fits(call: Lowered, forms: Sequence[Form]) -> bool:
    note = call.note
    if note.form != "call" or note.op.name not in _CHAINED or call.function is not note.op.cpu:
        return False
    if not is_dense(call, forms):
        return False
    x = forms[call.results[0]]
    width = x.shape[len(x.shape) - note.params[0] :] if type(note.params[0]) is int else ()
    return len(width) > 0 and width[-1] > 1
