"""Connectionist temporal classification (torch.nn.functional.ctc_loss)."""

from __future__ import annotations

import math
from typing import Any

from tritorch.arrays.meta import MetaArray
from tritorch.core.dtype import int64
from tritorch.core.promotion import not_implemented
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.loss.loss import reduction_mode
from tritorch.ops.pointwise import arithmetic
from tritorch.ops.record.backends import backend
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.publishing import functional
from tritorch.ops.shape import joining
from tritorch.ops.shape.factory import tensor
from tritorch.ops.shape.ranges import arange
from tritorch.ops.shape.shape import reshape

_NEVER = -1e30  # the log of 0, such that differences have gradients


def _gradient(
    g: Any, log_probs: Tensor, targets: Tensor, n_steps: Tensor, n_labels: Tensor, out: Any,
    blank: int, zero_infinity: bool,
) -> Any:  # fmt: skip
    inputs = (g[0], log_probs, targets, n_steps, n_labels, out[0].detach(), out[1])
    return _ctc_back.call(inputs, (blank, zero_infinity)), None, None, None, None


def _composed(
    log_probs: Tensor, targets: Tensor, n_steps: Tensor, n_labels: Tensor, blank: int,
    zero_infinity: bool,
) -> Tensor:  # fmt: skip
    """The recursion over steps, of smaller operators.

    # Note [The gradient of ctc_loss]
    As in PyTorch, the gradient is that of what log_softmax was taken of: softmax - expected share.
    So is it here, of any order, by a term that is 0 and whose gradient is softmax.
    """
    where, stack = arithmetic.where, joining.stack
    steps, batch, _ = log_probs.shape
    size = 2 * targets.shape[1] + 1
    state = arange(size, device=log_probs.device)
    labels = targets.new_full((batch, size), blank)
    labels[:, 1::2] = targets
    jump = (state % 2 == 1) & (state >= 3) & (labels != labels.roll(2, 1))
    emitted = log_probs.clamp_min(_NEVER).gather(2, labels.expand(steps, batch, size))
    never = log_probs.new_full((), _NEVER)
    alpha = where((state == 0) | ((state == 1) & (n_labels > 0).unsqueeze(1)), emitted[0], never)
    rows = [alpha]
    for t in range(1, steps):
        by_one = where(state >= 1, alpha.roll(1, 1), never)
        by_two = where(jump, alpha.roll(2, 1), never)
        alpha = (stack([alpha, by_one, by_two]).logsumexp(0) + emitted[t]).clamp_min(_NEVER)
        rows.append(alpha)
    last = (n_steps - 1).clamp_min(0).reshape(1, batch, 1).expand(1, batch, size)
    alpha = stack(rows).gather(0, last).squeeze(0)
    end = (2 * n_labels).unsqueeze(1)
    at = where((state == end) | ((state == end - 1) & (end > 0)), alpha, never)
    found = at.logsumexp(1)
    found = where(n_steps > 0, found, where(n_labels > 0, never, 0.0))
    possible = found > _NEVER / 2
    time = arange(steps, device=log_probs.device).unsqueeze(1)
    counted = log_probs.exp().sum(2).masked_fill(time >= n_steps, 0).sum(0)
    loss = counted - counted.detach() - found
    return loss.masked_fill(~possible, math.inf)


def _results(x: MetaArray, targets: MetaArray, *rest: Any) -> tuple[MetaArray, MetaArray]:
    steps, batch, _ = x.shape
    return x.new((batch,)), x.new((batch, steps, 2 * targets.shape[1] + 1))


_ctc = Operator(
    "ctc_loss", "log_probs targets n_steps n_labels", "blank zero_infinity",
    schema="_ctc_loss.Tensor(log_probs, targets, n_steps, n_labels, blank, zero_infinity)",
    cpu=lambda *given: backend("cpu", "ctc").ctc_loss(*given[:-1]),
    gpu=lambda *given: backend("gpu", "ctc").ctc_loss(*given[:-1]), composed=_composed,
    grad=Gradient(joint=_gradient, node="_ctc_loss", outputs=0b01), rules=Rules(infer=_results),
)  # fmt: skip
_ctc_back = Operator(
    "ctc_loss_backward", "y log_probs targets n_steps n_labels loss alpha", "blank zero_infinity",
    schema="_ctc_loss_backward.Tensor(y, log_probs, targets, n_steps, n_labels, loss, alpha,"
        " blank, zero_infinity)",
    kind="internal", cpu="ctc.ctc_loss_backward",
    rules=Rules(infer=lambda y, x, *rest: x.new(x.shape)),
)  # fmt: skip

_WHERE = "(while checking arguments for ctc_loss_allocate_outputs)"


def _lengths(name: str, lengths: Any) -> list[int]:
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype.name == "bool":
            raise RuntimeError(f"{name} must be integral")
        return reshape(lengths, (-1,)).tolist()
    return [int(n) for n in lengths]


def _padded(targets: Tensor, n_labels: list[int], blank: int) -> Tensor:
    """(N, S) labels, also of targets one after the other; 0 (or 1) where there are none."""
    longest = max(n_labels, default=0)
    fill = 0 if blank != 0 else 1
    place = arange(longest, device=targets.device)
    counts = tensor(n_labels, dtype=int64, device=targets.device).unsqueeze(1)
    if targets.ndim == 1:
        if targets.shape[0] != sum(n_labels):
            raise RuntimeError(
                f"Expected tensor to have size {sum(n_labels)} at dimension 0, but got size "
                f"{targets.shape[0]} for argument #2 'targets' {_WHERE}"
            )
        starts = counts.cumsum(0) - counts
        if not targets.shape[0]:
            return targets.new_full((len(n_labels), longest), fill)
        at = (starts + place).clamp_max(targets.shape[0] - 1)
        rows = targets[at]
    else:
        if targets.shape[0] != len(n_labels):
            raise RuntimeError(
                f"Expected tensor to have size {len(n_labels)} at dimension 0, but got size "
                f"{targets.shape[0]} for argument #2 'targets' {_WHERE}"
            )
        if targets.shape[1] < longest:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size "
                f"{targets.shape[1]} for argument #2 'targets' {_WHERE}"
            )
        rows = targets[:, :longest]
    return rows.masked_fill(place >= counts, fill)


def _losses(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The loss and the target's length of each sequence, after all checks."""
    steps, n = _lengths("input_lengths", input_lengths), log_probs.shape[1]
    counts = _lengths("target_lengths", target_lengths)
    if not log_probs.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError("blank must be in label range")
    for name, values in (("input_lengths", steps), ("target_lengths", counts)):
        if len(values) != n:
            raise RuntimeError(f"{name} must be of size batch_size")
        if min(values) < 0:
            raise RuntimeError(
                f"Expected {name} to have value at least 0, but got value {min(values)} {_WHERE}"
            )
    if max(steps) > log_probs.shape[0]:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {log_probs.shape[0]}, but got value "
            f"{max(steps)} {_WHERE}"
        )
    if log_probs.dtype.name not in ("float32", "float64"):
        raise not_implemented(
            "ctc_loss_cuda" if log_probs.is_cuda else "ctc_loss_cpu", log_probs.dtype
        )
    labels = _padded(targets.to(log_probs.device, int64), counts, blank)
    where: dict[str, Any] = {"dtype": int64, "device": log_probs.device}
    n_steps, n_labels = tensor(steps, **where), tensor(counts, **where)
    inputs = (log_probs, labels, n_steps, n_labels)
    return _ctc.call(inputs, (blank, bool(zero_infinity)))[0], n_labels


@functional
@autocast("cpu:float32")
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the probability that log_probs (T, N, C), without blanks and repetitions, are the
    targets: (N, S), or all one after the other."""
    mode = reduction_mode(None, None, reduction)
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.ndim}-dimensional tensor for "
            f"argument #1 'log_probs' {_WHERE}"
        )
    if targets.ndim not in (1, 2):
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument "
            f"#2 'targets' {_WHERE}"
        )
    batched = log_probs.ndim == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
        targets = reshape(targets, (1, -1))
    losses, n_labels = _losses(
        log_probs, targets, input_lengths, target_lengths, blank, zero_infinity
    )
    if zero_infinity:
        losses = losses.masked_fill(losses == math.inf, 0)
    if mode == "mean":
        return (losses / n_labels.clamp_min(1)).mean()
    if mode == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)


def _by_number(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """ctc_loss, with its reduction as a number: 0 none, 1 mean, 2 sum.

    PyTorch declares the default as mean; what its function does without one is none.
    """
    if not isinstance(reduction, int):
        raise TypeError(
            f"ctc_loss(): argument 'reduction' (position 6) must be int, not "
            f"{type(reduction).__name__}"
        )
    mode = {1: "mean", 2: "sum"}.get(reduction, "none")  # as PyTorch reads other numbers
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, mode, zero_infinity)


_by_number.__name__ = "ctc_loss"
PUBLIC["ctc_loss"] = _by_number
