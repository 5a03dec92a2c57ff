"""Compiled variants of kernels/optim.py: every formula, the types that it meets."""

import triton.language as tl

from tritorch.kernels import optim, optim_rules

# formula -> its state, numbers of its own, and columns of one element
RULES = {
    "sgd": (1, 4, 0), "adam": (3, 4, 1), "nadam": (2, 5, 2), "radam": (2, 5, 1),
    "adamax": (2, 4, 1), "adagrad": (1, 2, 1), "adadelta": (2, 3, 1), "rmsprop": (3, 4, 1),
    "rprop": (2, 4, 1), "asgd": (1, 3, 3),
}  # fmt: skip
MODES = {"sgd": "nesterov", "adam": "amsgrad", "rmsprop": "centered momentum"}
BF16 = (tl.bfloat16, tl.bfloat16, tl.float32, tl.float32, tl.float32)
TABLE = {"table_ptr": "*i64", "chunks_ptr": "*i64"}
ARGUMENTS = {f"{letter}{k}": "i64" for letter in "no" for k in range(8)}


def steps():
    types = {**TABLE, "numbers_ptr": "*fp64", "scale_ptr": "*fp32", "found_ptr": "*fp32"}
    types |= {name: kind for name, kind in ARGUMENTS.items() if name[0] == "n"}
    for i, (name, (n_state, n_numbers, _)) in enumerate(RULES.items()):
        for kinds, compute in [
            ((tl.float32,) * (2 + n_state), tl.float32),
            (BF16[: 2 + n_state], tl.float32),
            ((tl.float64,) * (1 + n_state) + (None if n_state == 3 else tl.float64,), tl.float64),
        ]:  # fmt: skip
            flags = compute == tl.float32
            yield types, {
                "RULE": optim.formula(name), "MODE": MODES.get(name, "") if flags else "",
                "SCALED": flags, "MAXIMIZE": flags, "COUPLED": True, "DECOUPLED": flags,
                "ZERO": flags,
                "KINDS": kinds[: 2 + n_state], "COMPUTE": compute, "N_NUMBERS": 2 + n_numbers,
                "ON_DEVICE": bool(i % 2), "CHECKED": flags, "ALIGNED": flags, "CHUNK": 4096,
                "BLOCK": 1024,
            }  # fmt: skip


def advances():
    types = {"table_ptr": "*i64", "numbers_ptr": "*fp64", "found_ptr": "*fp32", "n_rows": "i32"}
    for i, (name, (_, n_numbers, n_counts)) in enumerate(RULES.items()):
        n_options = 3 + len(optim_rules.options_of(name)) - n_counts
        given = {f"o{k}": "*fp32" if k == i % 2 else "i64" for k in range(8)}
        yield {**types, **given}, {
            "RULE": optim.formula(f"{name}_numbers"), "KINDS": (tl.float32,) * n_counts,
            "N_OPTIONS": n_options, "N_NUMBERS": 2 + n_numbers, "CHECKED": bool(i % 3),
            "BLOCK": 128,
        }  # fmt: skip


GRADIENTS = [
    {"KIND": kind, "COMPUTE": tl.float64 if kind == tl.float64 else tl.float32, "ALIGNED": aligned,
     "CHUNK": 4096, "BLOCK": 1024}
    for kind in (tl.float32, tl.bfloat16, tl.float16, tl.float64)
    for aligned in (True, False)
]  # fmt: skip
VARIANTS = {
    ("optim", "step"): list(steps()),
    ("optim", "advance"): list(advances()),
    ("optim", "rescale"): [
        (
            {**TABLE, "factor_ptr": "*fp32", "found_ptr": "*fp32"},
            {**each, "SCALED": i != 1, "CHECKED": i != 2},
        )
        for i, each in enumerate(GRADIENTS)
    ],
    ("optim", "norms"): [
        ({**TABLE, "y_ptr": "*fp64" if i % 2 else "*fp32"}, {**each, "ORDER": i % 3})
        for i, each in enumerate(GRADIENTS)
    ],
}
