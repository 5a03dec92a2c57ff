"""Variants of kernels/recurrent.py that are compiled for real targets."""

import inspect

import triton.language as tl

from tritorch.kernels import recurrent

CASES = [("fp32", tl.float32), ("bf16", tl.float32), ("fp64", tl.float64)]
EXTRA = {
    "gru_step": [{"HAS_BIAS": True}, {"HAS_BIAS": False}],
    "rnn_step": [{"HAS_BIAS": True, "TANH": True}, {"HAS_BIAS": False, "TANH": False}],
    "rnn_step_backward": [{"TANH": True}, {"TANH": False}],
}


def _variants(name):
    names = inspect.signature(getattr(recurrent, name).fn).parameters
    return [
        (
            {n: f"*{kind}" if n.endswith("_ptr") else "i32" for n in names if not n.isupper()},
            {"COMPUTE": compute, "BLOCK": 256} | extra,
        )
        for kind, compute in CASES
        for extra in EXTRA.get(name, [{}])
    ]


VARIANTS = {
    ("recurrent", name): _variants(name)
    for name in (
        "lstm_step", "lstm_step_backward", "gru_step", "gru_step_backward", "rnn_step",
        "rnn_step_backward",
    )
}  # fmt: skip
