"""Connectionist temporal classification: forward and backward probabilities, over the batch.

A target of S labels has 2 S + 1 states: a blank before, between and after its labels.  A path
stays, moves on by one state, or by two where that leaves a blank out between different labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.host import loops

Array = np.ndarray[Any, Any]


def _states(targets: Array, blank: int) -> tuple[Array, Array]:
    """The label of each state, and to which states a path may come by two."""
    n, size = targets.shape
    labels = np.full((n, 2 * size + 1), blank, np.int64)
    labels[:, 1::2] = targets
    jump = np.zeros(labels.shape, bool)
    jump[:, 3::2] = targets[:, 1:] != targets[:, :-1]
    return labels, jump


def _add(*logs: Array) -> Array:
    """log(sum(exp(logs)))"""
    top = np.maximum.reduce(logs)
    shift = np.where(np.isneginf(top), 0, top)
    return loops.log(sum(loops.exp(log - shift) for log in logs)) + shift


def _moved(logs: Array, by: int) -> Array:
    """Each state has what the one `by` states before it had."""
    out = np.full(logs.shape, -np.inf, logs.dtype)
    if by >= 0:
        out[:, by:] = logs[:, : max(logs.shape[1] - by, 0)]
    else:
        out[:, :by] = logs[:, -by:]
    return out


def _check(targets: Array, classes: int) -> None:
    bad = (targets < 0) | (targets >= classes)
    if bad.any():
        raise IndexError(f"Target {int(targets[bad][0])} is out of bounds.")


def ctc_loss(
    log_probs: Array, targets: Array, n_steps: Array, n_labels: Array, blank: int
) -> tuple[Array, Array]:
    """-log of the probability of each target, and (N, T, states) forward probabilities."""
    steps, batch, classes = log_probs.shape
    _check(targets, classes)
    labels, jump = _states(targets, blank)
    rows = np.arange(batch)
    alpha = np.full((batch, steps, labels.shape[1]), -np.inf, log_probs.dtype)
    for t in range(steps):
        emitted = np.take_along_axis(log_probs[t], labels, 1)
        if t == 0:
            alpha[:, 0, 0] = emitted[:, 0]
            alpha[:, 0, 1:2] = np.where(n_labels[:, None] > 0, emitted[:, 1:2], -np.inf)
            continue
        last = alpha[:, t - 1]
        by_two = np.where(jump, _moved(last, 2), -np.inf)
        alpha[:, t] = _add(last, _moved(last, 1), by_two) + emitted
    last = alpha[rows, np.maximum(n_steps - 1, 0)]
    on_label = last[rows, np.maximum(2 * n_labels - 1, 0)]
    ends = _add(last[rows, 2 * n_labels], np.where(n_labels > 0, on_label, -np.inf))
    nothing = np.where(n_labels == 0, 0.0, -np.inf).astype(ends.dtype)
    return -np.where(n_steps == 0, nothing, ends) + 0.0, alpha


def ctc_loss_backward(
    g: Array, log_probs: Array, targets: Array, n_steps: Array, n_labels: Array, loss: Array,
    alpha: Array, blank: int, zero_infinity: bool,
) -> Array:  # fmt: skip
    """(softmax - expected share of each class) g: the gradient of what log_softmax is taken of."""
    steps, batch, _ = log_probs.shape
    labels, jump = _states(targets, blank)
    rows = np.arange(batch)
    ahead = np.zeros(jump.shape, bool)
    ahead[:, :-2] = jump[:, 2:]
    beta = np.full(labels.shape, -np.inf, log_probs.dtype)
    ending = np.full(labels.shape, -np.inf, log_probs.dtype)  # 0 where a path may end
    ending[rows, 2 * n_labels] = 0
    some = n_labels > 0
    ending[rows[some], 2 * n_labels[some] - 1] = 0
    share = np.zeros((batch, steps, labels.shape[1]), log_probs.dtype)
    for t in range(steps - 1, -1, -1):
        emitted = np.take_along_axis(log_probs[t], labels, 1)
        by_two = np.where(ahead, _moved(beta, -2), -np.inf)
        going = _add(beta, _moved(beta, -1), by_two)
        beta = np.where((n_steps == t + 1)[:, None], ending, going) + emitted
        both = alpha[:, t] + beta - emitted + loss[:, None]
        seen = np.isfinite(alpha[:, t]) & np.isfinite(beta)
        share[:, t] = np.where(seen, loops.exp(both, where=seen, out=np.zeros_like(both)), 0)
    out = loops.exp(log_probs)
    size = targets.shape[1]
    for i in range(batch):
        out[:, i, blank] -= share[i, :, 0::2].sum(1)
        kinds, which = np.unique(targets[i, : n_labels[i]], return_inverse=True)
        member = np.zeros((size, len(kinds)), out.dtype)
        member[np.arange(len(which)), which.reshape(-1)] = 1
        out[:, i, kinds] -= share[i, :, 1::2] @ member
    out *= g[:, None]
    out[:, np.isposinf(loss)] = 0 if zero_infinity else np.nan
    out[np.arange(steps)[:, None] >= n_steps] = 0
    return out
