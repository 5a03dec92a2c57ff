"""Variants of kernels/matrices/jacobi.py that are compiled for real targets."""

SIZES = {"jacobi_svd": ("n_rows", "n_cols"), "jacobi_eigh": ("n",), "jacobi_gram": ("n",)}


def variant(name, kind, half, warps, pair=False):
    types = {"a_ptr": f"*{kind}", "v_ptr": f"*{kind}", "eps": "i64"}
    types |= dict.fromkeys(SIZES[name], "i32")
    constants = {"PAIR": pair, "BLOCK": 16, "HALF": half, "num_warps": warps, "maxnreg": 128}
    if name == "jacobi_gram":
        types["worst_ptr"] = f"*{kind}"
    else:
        constants["SWEEPS"] = 20
    return types, constants


def next_round(kind, pair):
    types = {"x_ptr": f"*{kind}", "y_ptr": f"*{kind}", "n_rows": "i32", "width": "i32",
             "n_panels": "i32"}  # fmt: skip
    return types, {"PAIR": pair, "BLOCK": 1024}


VARIANTS = {
    ("jacobi", name): [
        variant(name, "fp32", 64, 8),
        variant(name, "fp64", 64, 16),
        variant(name, "fp32", 2, 4),
        variant(name, "fp64", 16, 4),
        variant(name, "fp32", 64, 8, True),
        variant(name, "fp64", 64, 16, True),
    ]
    for name in SIZES
}
VARIANTS["jacobi", "next_round"] = [next_round("fp32", False), next_round("fp64", True)]
