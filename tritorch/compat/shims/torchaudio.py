"""torchaudio's compiled operators (`torch.ops.torchaudio`): recurrences over time, by NumPy.

They run on the host wherever their tensors are: each sample needs the one before.
"""

from __future__ import annotations

import numpy as np

import tritorch as torch
from tritorch.compat.shims._defining import operators
from tritorch.core.tensor import Tensor

_operator = operators("torchaudio")
_private = operators("_torchaudio")


@_private("is_align_available() -> bool")
def is_align_available() -> bool:
    """True."""
    return True


@_private("cuda_version() -> int?")
def cuda_version() -> int | None:
    """None: no CUDA toolkit built this."""
    return None


def _host(x: Tensor) -> np.ndarray:
    return x.detach().cpu().numpy()


# ---- filters -------------------------------------------------------------------------------------


@_operator(
    "_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, "
    "Tensor(a!) padded_output_waveform) -> Tensor(a!)"
)
def _lfilter_core_loop(
    input_signal_windows: Tensor, a_coeff_flipped: Tensor, padded_output_waveform: Tensor
) -> Tensor:
    """out[t] = in[t] - sum of a[i] out[t - i]: the recursive part of a filter, in place."""
    x, a, out = map(_host, (input_signal_windows, a_coeff_flipped, padded_output_waveform))
    order = a.shape[1]
    done = out.copy()
    weights = a[None, :, :-1] if np.all(a[:, -1] == 1) else a[None]
    for t in range(x.shape[2]):
        past = done[:, :, t : t + weights.shape[2]]
        done[:, :, t + order - 1] = x[:, :, t] - (past * weights).sum(2)
    return padded_output_waveform.copy_(torch.from_numpy(done))


@_operator(
    "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, "
    "Tensor(c!) output_waveform) -> (Tensor(a!), Tensor(b!), Tensor(c!))"
)
def _overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Half the wave and three quarters of its distortion, without the distortion's constant."""
    x, distorted, before, level = map(_host, (waveform, temp, last_in, last_out))
    made = np.empty_like(x)
    for t in range(x.shape[1]):
        level = distorted[:, t] - before + 0.995 * level
        before = distorted[:, t]
        made[:, t] = x[:, t] * 0.5 + level * 0.75
    output_waveform.copy_(torch.from_numpy(made))
    last_in.copy_(torch.from_numpy(before.copy()))
    last_out.copy_(torch.from_numpy(level.astype(x.dtype)))
    return last_in, last_out, output_waveform


# ---- sequences -----------------------------------------------------------------------------------


@_operator(
    "forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    "int blank) -> (Tensor, Tensor)"
)
def forced_align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The likeliest path of labels and blanks that spells the targets; the log-probabilities."""
    torch._check(log_probs.ndim == 3, lambda: "log_probs must be a 3-D tensor")
    torch._check(
        log_probs.shape[0] == 1,
        lambda: "The batch dimension for log_probs must be 1 at the current version.",
    )
    length, count = int(input_lengths[0]), int(target_lengths[0])
    scores, labels = _host(log_probs)[0, :length], _host(targets)[0, :count]
    repeats = int((labels[1:] == labels[:-1]).sum())
    torch._check(
        length >= count + repeats,
        lambda: (
            "targets length is too long for CTC. Found log_probs length: "
            f"{length}, targets length: {count}, and number of repeats: {repeats}"
        ),
    )
    states = np.full(2 * count + 1, blank, labels.dtype)
    states[1::2] = labels
    skips = np.zeros(len(states), bool)  # from the label before, over a blank
    skips[3::2] = labels[1:] != labels[:-1]
    best = np.full(len(states), -np.inf)
    best[:2] = scores[0, states[:2]]
    back = np.zeros((length, len(states)), np.int8)
    for t in range(1, length):
        ways = np.full((3, len(states)), -np.inf)
        ways[0], ways[1, 1:] = best, best[:-1]
        ways[2, 2:] = np.where(skips[2:], best[:-2], -np.inf)
        back[t] = ways.argmax(0)
        best = ways.max(0) + scores[t, states]
    state = len(states) - 1
    if count and best[-2] > best[-1]:
        state -= 1
    path = np.full((1, log_probs.shape[1]), blank, labels.dtype)
    for t in reversed(range(length)):
        path[0, t] = states[state]
        state -= back[t, state]
    return torch.from_numpy(path).to(targets.device), log_probs


@_operator(
    "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, "
    "int blank, float clamp, bool fused_log_softmax) -> (Tensor, Tensor)"
)
def rnnt_loss_forward(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int,
    clamp: float, fused_log_softmax: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The transducer's loss of each sequence, and its gradient: forward and backward variables."""
    scores = logits.detach().float()
    log_p = _host(scores.log_softmax(-1) if fused_log_softmax else scores).astype(np.float64)
    labels, frames, counts = map(_host, (targets, logit_lengths, target_lengths))
    costs, grads = np.zeros(len(log_p)), np.zeros_like(log_p)
    for b in range(len(log_p)):
        t, u = int(frames[b]), int(counts[b]) + 1
        costs[b] = _transduced(log_p[b, :t, :u], labels[b, : u - 1], blank, grads[b, :t, :u])
    if fused_log_softmax:
        grads -= np.exp(log_p) * grads.sum(-1, keepdims=True)
    if clamp > 0:
        grads = grads.clip(-clamp, clamp)
    kind = logits.dtype
    made = [torch.from_numpy(each).to(logits.device, kind) for each in (costs, grads)]
    return made[0], made[1]


def _transduced(log_p: np.ndarray, labels: np.ndarray, blank: int, grad: np.ndarray) -> float:
    """-log of the sum over all paths of one sequence; its gradient goes into `grad`."""
    frames, places = log_p.shape[:2]
    stay = log_p[:, :, blank]  # to the next frame
    move = np.full((frames, places), -np.inf)  # to the next label
    move[:, :-1] = log_p[:, np.arange(places - 1), labels]
    ahead, behind = (np.full((frames + 1, places + 1), -np.inf) for _ in range(2))
    for t in range(frames):
        for u in range(places):
            if t == u == 0:
                ahead[0, 0] = 0.0
                continue
            below = ahead[t - 1, u] + stay[t - 1, u] if t else -np.inf
            left = ahead[t, u - 1] + move[t, u - 1] if u else -np.inf
            ahead[t, u] = np.logaddexp(below, left)
    behind[frames, places - 1] = 0.0
    for t in reversed(range(frames)):
        for u in reversed(range(places)):
            behind[t, u] = np.logaddexp(
                behind[t + 1, u] + stay[t, u], behind[t, u + 1] + move[t, u]
            )
    total = behind[0, 0]
    grad[:, :, blank] -= np.exp(ahead[:-1, :-1] + behind[1:, :-1] + stay - total)
    moved = np.exp(ahead[:-1, :-1] + behind[:-1, 1:] + move - total)[:, :-1]
    grad[:, np.arange(places - 1), labels] -= moved  # each place has one label
    return -float(total)
