"""Connectionist temporal classification: one program walks the steps of one sequence.

# Note [States]
A target of S labels has 2 S + 1 states: even ones are blanks, state 2 i + 1 is label i.  A path
stays, moves on by one state, or by two onto a label that differs from the one before.  States of
neighbours pass through memory, with a barrier between the steps.
"""

import triton
import triton.language as tl

from .errors import report
from .scalar.elementary import negated


@triton.jit
def label_of(target, state, inside, blank, stride):
    """The label of a state."""
    on_label = inside & (state % 2 == 1)
    return tl.load(target + (state // 2) * stride, mask=on_label, other=blank)


@triton.jit
def add_logs(a, b, c):
    """log(exp(a) + exp(b) + exp(c))"""
    top = tl.maximum(tl.maximum(a, b), c)
    shift = tl.where(top == float("-inf"), 0.0, top)
    return tl.log(tl.exp(a - shift) + tl.exp(b - shift) + tl.exp(c - shift)) + shift


@triton.jit(do_not_specialize=["where"])
def ctc_alpha(
    log_probs_ptr, target_ptr, n_steps_ptr, n_labels_ptr, alpha_ptr, loss_ptr, max_steps, n_states,
    n_classes, blank, flag_ptr, where, log_probs_strides, target_strides, BLOCK: tl.constexpr,
):  # fmt: skip
    """alpha[t, s] = log(probability of all beginnings that are in state s at t); the loss is
    -log of that of the two last states at the last step.  See Note [States]."""
    sequence = tl.program_id(0).to(tl.int64)
    state = tl.arange(0, BLOCK)
    inside = state < n_states
    steps = tl.load(n_steps_ptr + sequence)
    labels = tl.load(n_labels_ptr + sequence)
    target_ptr += sequence * target_strides[0]
    log_probs_ptr += sequence * log_probs_strides[1]
    alpha_ptr += sequence * max_steps * n_states
    label = label_of(target_ptr, state, inside, blank, target_strides[1])
    before = label_of(target_ptr, state - 2, inside & (state >= 2), blank, target_strides[1])
    jump = inside & (state >= 3) & (state % 2 == 1) & (label != before)
    bad = inside & ((label < 0) | (label >= n_classes))
    report(flag_ptr, where, label, bad)
    emitted_ptr = log_probs_ptr + tl.where(bad, 0, label) * log_probs_strides[2]
    alpha = tl.load(emitted_ptr, mask=inside, other=float("-inf"))
    alpha = tl.where((state == 0) | ((state == 1) & (labels > 0)), alpha, float("-inf"))
    tl.store(alpha_ptr + state, alpha, mask=inside)
    for _step in range(1, steps):
        tl.debug_barrier()
        by_one = tl.load(alpha_ptr + state - 1, mask=inside & (state >= 1), other=float("-inf"))
        by_two = tl.load(alpha_ptr + state - 2, mask=jump, other=float("-inf"))
        emitted_ptr += log_probs_strides[0]
        emitted = tl.load(emitted_ptr, mask=inside, other=float("-inf"))
        alpha = add_logs(alpha, by_one, by_two) + emitted
        alpha_ptr += n_states
        tl.store(alpha_ptr + state, alpha, mask=inside)
    last = tl.max(tl.where(state == 2 * labels, alpha, float("-inf")), axis=0)
    on_label = tl.where((state == 2 * labels - 1) & (labels > 0), alpha, float("-inf"))
    other = tl.max(on_label, axis=0)
    loss = negated(add_logs(last, other, float("-inf")))
    loss = tl.where(steps > 0, loss, tl.where(labels > 0, float("inf"), 0.0))
    tl.store(loss_ptr + sequence, loss)


@triton.jit
def ctc_share(
    log_probs_ptr, target_ptr, n_steps_ptr, n_labels_ptr, alpha_ptr, loss_ptr, beta_ptr, share_ptr,
    max_steps, n_states, n_classes, blank, log_probs_strides, target_strides, BLOCK: tl.constexpr,
):  # fmt: skip
    """share[t, s] = the part of all paths that are in state s at t = exp(alpha + beta - emitted +
    loss), where beta[t, s] = log(probability of all ends that are in s at t).  beta: scratch, two
    rows that take turns."""
    sequence = tl.program_id(0).to(tl.int64)
    state = tl.arange(0, BLOCK)
    inside = state < n_states
    steps = tl.load(n_steps_ptr + sequence)
    labels = tl.load(n_labels_ptr + sequence)
    loss = tl.load(loss_ptr + sequence)
    target_ptr += sequence * target_strides[0]
    log_probs_ptr += sequence * log_probs_strides[1]
    alpha_ptr += sequence * max_steps * n_states
    share_ptr += sequence * max_steps * n_states
    beta_ptr += sequence * 2 * n_states
    label = label_of(target_ptr, state, inside, blank, target_strides[1])
    has_next = inside & (state + 2 < n_states)
    after = label_of(target_ptr, state + 2, has_next, blank, target_strides[1])
    jump = has_next & (state % 2 == 1) & (label != after)
    bad = (label < 0) | (label >= n_classes)
    emitted_ptr = log_probs_ptr + tl.where(bad, 0, label) * log_probs_strides[2]
    is_end = (state == 2 * labels) | ((state == 2 * labels - 1) & (labels > 0))
    going = tl.where(is_end, 0.0, float("-inf")).to(alpha_ptr.dtype.element_ty)
    for back in range(steps):
        t = steps - 1 - back
        emitted = tl.load(emitted_ptr + t * log_probs_strides[0], mask=inside, other=float("-inf"))
        beta = going + emitted
        row_ptr = beta_ptr + (t % 2) * n_states
        tl.store(row_ptr + state, beta, mask=inside)
        alpha = tl.load(alpha_ptr + t * n_states + state, mask=inside, other=float("-inf"))
        seen = (alpha != float("-inf")) & (beta != float("-inf"))
        share = tl.where(seen, tl.exp(tl.where(seen, alpha + going + loss, 0.0)), 0.0)
        tl.store(share_ptr + t * n_states + state, share, mask=inside)
        tl.debug_barrier()
        by_one = tl.load(
            row_ptr + state + 1, mask=inside & (state + 1 < n_states), other=float("-inf")
        )
        by_two = tl.load(row_ptr + state + 2, mask=jump, other=float("-inf"))
        going = add_logs(beta, by_one, by_two)


@triton.jit
def ctc_backward(
    dloss_ptr, log_probs_ptr, target_ptr, n_steps_ptr, loss_ptr, share_ptr, dx_ptr, max_steps,
    n_states, n_classes, blank, dloss_stride, log_probs_strides, target_strides,
    ZERO_INFINITY: tl.constexpr, BLOCK_CLASSES: tl.constexpr, BLOCK_STATES: tl.constexpr,
):  # fmt: skip
    """dx[t, n, c] = (exp(log_probs) - sum of share[n, t, s] over the states s of c) dloss[n]; dx is
    dense.  One program computes BLOCK_CLASSES classes of one step of one sequence."""
    sequence = tl.program_id(0).to(tl.int64)
    t = tl.program_id(1).to(tl.int64)
    classes = tl.program_id(2) * BLOCK_CLASSES + tl.arange(0, BLOCK_CLASSES)
    mask = classes < n_classes
    seen = t < tl.load(n_steps_ptr + sequence)
    loss = tl.load(loss_ptr + sequence)
    target_ptr += sequence * target_strides[0]
    share_ptr += (sequence * max_steps + t) * n_states
    total = tl.zeros([BLOCK_CLASSES], dx_ptr.dtype.element_ty)
    for start in range(0, n_states, BLOCK_STATES):
        state = start + tl.arange(0, BLOCK_STATES)
        inside = state < n_states
        label = label_of(target_ptr, state, inside, blank, target_strides[1])
        share = tl.load(share_ptr + state, mask=inside, other=0.0)
        total += tl.sum(tl.where(label[None, :] == classes[:, None], share[None, :], 0.0), axis=1)
    offsets = (
        t * log_probs_strides[0]
        + sequence * log_probs_strides[1]
        + classes.to(tl.int64) * log_probs_strides[2]
    )
    x = tl.load(log_probs_ptr + offsets, mask=mask, other=0.0)
    dx = (tl.exp(x) - total) * tl.load(dloss_ptr + sequence * dloss_stride)
    if ZERO_INFINITY:
        dx = tl.where(loss == float("inf"), 0.0, dx)
    else:
        dx = tl.where(loss == float("inf"), float("nan"), dx)
    dx = tl.where(seen, dx, 0.0)
    n_sequences = tl.num_programs(0).to(tl.int64)
    tl.store(dx_ptr + (t * n_sequences + sequence) * n_classes + classes, dx, mask=mask)
