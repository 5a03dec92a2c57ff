"""Connectionist temporal classification; see kernels/ctc.py."""

from __future__ import annotations

from tritorch import _C
from tritorch.gpu import errors
from tritorch.triton.kernel import kernel

Array = _C.Array


def _block(n_states: int) -> tuple[int, int]:
    """All states of a sequence in one program, and its warps."""
    block = max(1 << (n_states - 1).bit_length(), 32)
    return block, min(max(block // 256, 1), 16)


def ctc_loss(
    log_probs: Array, targets: Array, n_steps: Array, n_labels: Array, blank: int
) -> tuple[Array, Array]:
    """-log of the probability of each target, and (N, T, states) forward probabilities."""
    steps, batch, classes = log_probs.shape
    states = 2 * targets.shape[1] + 1
    kind, device = log_probs.dtype, log_probs.device_index
    alpha = _C.empty((batch, steps, states), kind, device)
    loss = _C.empty((batch,), kind, device)
    if batch == 0:
        return loss, alpha
    block, warps = _block(states)
    kernel("ctc", "ctc_alpha")(
        (batch,), log_probs, targets, n_steps.contiguous(), n_labels.contiguous(), alpha, loss,
        steps, states, classes, blank,
        *errors.mark(device, "ctc_loss", "Target {value} is out of bounds."), log_probs.strides,
        targets.strides, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return loss, alpha


def ctc_loss_backward(
    g: Array, log_probs: Array, targets: Array, n_steps: Array, n_labels: Array, loss: Array,
    alpha: Array, blank: int, zero_infinity: bool,
) -> Array:  # fmt: skip
    """(softmax - expected share of each class) g: the gradient of what log_softmax is taken of."""
    steps, batch, classes = log_probs.shape
    states = 2 * targets.shape[1] + 1
    kind, device = log_probs.dtype, log_probs.device_index
    out = _C.empty((steps, batch, classes), kind, device)
    if out.numel() == 0:
        return out
    block, warps = _block(states)
    n_steps, loss = n_steps.contiguous(), loss.contiguous()
    share, beta = _C.empty(alpha.shape, kind, device), _C.empty((batch, 2, states), kind, device)
    kernel("ctc", "ctc_share")(
        (batch,), log_probs, targets, n_steps, n_labels.contiguous(), alpha.contiguous(), loss,
        beta, share, steps, states, classes, blank, log_probs.strides, targets.strides,
        BLOCK=block, num_warps=warps,
    )  # fmt: skip
    size = min(1 << (classes - 1).bit_length(), 64)
    kernel("ctc", "ctc_backward")(
        (batch, steps, -(-classes // size)), g, log_probs, targets, n_steps, loss, share, out,
        steps, states, classes, blank, *g.strides, log_probs.strides, targets.strides,
        ZERO_INFINITY=zero_infinity, BLOCK_CLASSES=size, BLOCK_STATES=64, num_warps=4,
    )  # fmt: skip
    return out
