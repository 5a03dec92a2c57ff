"""What of kernels/jacobi.py is compiled for real targets."""

SIZES = {"jacobi_svd": ("n_rows", "n_cols"), "jacobi_eigh": ("n",)}


def variant(name, kind, half, warps):
    types = {"a_ptr": f"*{kind}", "v_ptr": f"*{kind}", "eps": "i64"}
    types |= dict.fromkeys(SIZES[name], "i32")
    return types, {"BLOCK": 16, "HALF": half, "SWEEPS": 20, "num_warps": warps, "maxnreg": 128}


VARIANTS = {
    ("jacobi", name): [
        variant(name, "fp32", 64, 8),
        variant(name, "fp64", 64, 16),
        variant(name, "fp32", 2, 4),
        variant(name, "fp64", 16, 4),
    ]
    for name in SIZES
}
