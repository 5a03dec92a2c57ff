"""Batch norms with the relu that follows, and their gradients with the relu's: sums as eager has
them, and one pass for the rest, while a block is in the cache."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch._following.lowering import Lowered
from tritorch._following.passes.chains import LEAST, ChainOp
from tritorch._following.passes.rowwise import SINGLE, rowwise
from tritorch._following.tape import Form, Note, Value
from tritorch.core.arrays import ndarray
from tritorch.core.layout import contiguous_strides
from tritorch.host import threads
from tritorch.host.norm import _flat, _over_batch
from tritorch.host.pointwise import relu, relu_backward
from tritorch.host.rows import dots, sums

Array = np.ndarray[Any, Any]


def _moved(x: Any, scale: Any, shift: Any) -> Any:
    y = x * scale
    return y if shift is None else y + shift


def _moved_relu(x: Any, scale: Any, shift: Any) -> Any:
    return relu(_moved(x, scale, shift))


def _cube(x: Array) -> Array:
    return x.reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def normalised(finish: Callable[..., Any]) -> Callable[..., Any]:
    """`host.norm.batch_norm` of large float32 arrays by their own statistics; finish: of what is
    centred, its scale and its shift."""

    def run(
        x: Array, weight: Array | None, bias: Array | None, mean: Any, var: Any, training: bool,
        eps: float,
    ) -> tuple[Array, Array, Array, Array]:  # fmt: skip
        cube, c = _cube(x), x.shape[1]
        w, b = _flat(weight), _flat(bias)
        out, average, variance = (
            np.empty(cube.shape, SINGLE),
            np.empty(c, SINGLE),
            np.empty(c, SINGLE),
        )
        count = cube.shape[0] * cube.shape[2]
        tail = rowwise(finish, "acc" if b is not None else "ac-")

        def work(low: int, high: int) -> None:
            block = cube[:, low:high]
            average[low:high] = _over_batch(sums(block)) / count
            centred = block - average[low:high, None]
            variance[low:high] = _over_batch(dots(centred, centred)) / count
            scale = 1 / np.sqrt(variance[low:high] + SINGLE.type(eps))
            if w is not None:
                scale = scale * w[low:high]
            shift = None if b is None else b[low:high, None]
            tail(centred, scale[:, None], shift, out[:, low:high])

        threads.rows(c, count * SINGLE.itemsize, work)
        rstd = 1 / np.sqrt(variance + SINGLE.type(eps))
        return out.reshape(x.shape), average, rstd, variance

    quiet: Callable[..., Any] = _C.Quiet(run)
    return quiet


def _masked(g: Any, y: Any) -> Any:
    return np.where(y <= 0, 0, g)


def _spread(dy: Any, centred: Any, by: Any, plus: Any, factor: Any) -> Any:
    return (dy - (centred * by + plus)) * factor


def _gradients(
    g: Array, y: Array | None, x: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """`host.norm.batch_norm_backward`; g is the gradient of relu's result y, if there is one."""
    cube, grad, c = _cube(x), _cube(g), x.shape[1]
    made = None if y is None else _cube(y)
    scale = rstd if weight is None else rstd * _flat(weight)
    out = np.empty(cube.shape, SINGLE)
    dw, db = np.empty(c, SINGLE), np.empty(c, SINGLE)
    count = cube.shape[0] * cube.shape[2]
    mask, tail = rowwise(_masked, "aa"), rowwise(_spread, "aaccc")

    def work(low: int, high: int) -> None:
        dy = grad[:, low:high]
        if made is not None:
            # It lies as the part of a whole does, which decides how NumPy adds it up.
            whole = np.empty((len(dy), high - low + (high - low < c), dy.shape[2]), SINGLE)
            mask(dy, made[:, low:high], whole[:, : high - low])
            dy = whole[:, : high - low]
        centred = cube[:, low:high] - mean[low:high, None]
        r = rstd[low:high]
        first, second = _over_batch(sums(dy)), _over_batch(dots(dy, centred)) * r
        db[low:high], dw[low:high] = first, second
        by = (second * r / count).astype(SINGLE)[:, None]
        plus = (first / count).astype(SINGLE)[:, None]
        tail(dy, centred, by, plus, scale[low:high, None], out[:, low:high])

    threads.rows(c, count * SINGLE.itemsize, work)
    return out.reshape(x.shape), dw, db


def _gradient(g: Array, x: Array, w: Any, mean: Array, rstd: Array, training: bool) -> Any:
    return _gradients(g, None, x, w, mean, rstd)


def _gradient_relu(
    g: Array, y: Array, x: Array, w: Any, mean: Array, rstd: Array, training: bool
) -> Any:
    return _gradients(g, y, x, w, mean, rstd)


def normed(calls: Sequence[Lowered], forms: Sequence[Form], kept: set[int]) -> list[Lowered]:
    """The calls, with one for each batch norm and its relu, or the gradients of both."""
    reads = Counter(x.number for call in calls for x in call.args if type(x) is Value)
    found: list[Lowered | None] = []
    norms: dict[int, int] = {}  # results that a relu may take over, and which calls give them
    masks: dict[int, int] = {}  # relus' gradients
    for call in calls:
        i = len(found)
        found.append(call)
        if call.writes:
            norms, masks = _untouched(norms, found, call), _untouched(masks, found, call)
            continue
        given = call.args[0].number if call.args and type(call.args[0]) is Value else -1
        single = given not in kept and reads[given] == 1
        if _is_whole(call, forms, "batch_norm") and call.args[5]:
            found[i] = call._replace(function=normalised(_moved))
            norms[call.results[0]] = i
        elif _is_pointwise(call, relu) and given in norms and single:
            norm = found[norms[given]]
            assert norm is not None
            results = (call.results[0], *norm.results[1:])
            found[norms[given]] = _joined(norm, normalised(_moved_relu), norm.args, results, "relu")
            found[i] = None
        elif _is_pointwise(call, relu_backward) and is_dense(call, forms):
            masks[call.results[0]] = i
        elif _is_whole(call, forms, "batch_norm_backward") and call.args[5]:
            mask = found[masks[given]] if given in masks and single else None
            if mask is None:
                found[i] = call._replace(function=_C.Quiet(_gradient))
            else:
                args = (*mask.args, *call.args[1:])
                found[masks[given]] = None
                found[i] = _joined(
                    call, _C.Quiet(_gradient_relu), args, call.results, "relu_backward"
                )
    return [call for call in found if call is not None]


def _untouched(places: dict[int, int], found: Sequence[Any], call: Lowered) -> dict[int, int]:
    """Those of the calls whose arrays another call does not write."""
    touched = {x.number for x in call.args if type(x) is Value} | set(call.results)
    return {
        number: i for number, i in places.items()
        if not touched & ({number} | {x.number for x in found[i].args if type(x) is Value})
    }  # fmt: skip


def _is_pointwise(call: Lowered, function: Any) -> bool:
    return call.note.form == "pointwise" and call.note.op.function is function


def is_dense(call: Lowered, forms: Sequence[Form]) -> bool:
    """Whether all its arrays are dense, large or of one dim, and of float32."""
    for number in (*(x.number for x in call.args if type(x) is Value), *call.results):
        form = forms[number]
        dense = form.kind is ndarray and form.strides == contiguous_strides(form.shape)
        if not dense or form.dtype != SINGLE:
            return False
    return math.prod(forms[call.results[0]].shape) >= LEAST


def _is_whole(call: Lowered, forms: Sequence[Form], name: str) -> bool:
    return (
        call.note.op is not None
        and call.note.op.name == name
        and call.function is call.note.op.cpu
        and len(call.results) > 2
        and all(number >= 0 for number in call.results)
        and is_dense(call, forms)
    )


def _joined(
    call: Lowered, function: Any, args: tuple[Any, ...], results: tuple[int, ...], name: str
) -> Lowered:
    op = ChainOp([call.note.op.name, name])
    inputs = tuple(x for x in args if type(x) is Value)
    note = Note("joined", op, inputs, (), results, True)
    return Lowered(function, args, results, note, False)
