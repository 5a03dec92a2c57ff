"""Variants that test_compile.py compiles of kernels/sampling.py."""

import triton.language as tl

from tritorch.kernels import sampling as s

VARIANTS = {
    ("sampling", "draw_by"): [
        ({"a_ptr": kind, "b_ptr": kind, "y_ptr": kind, "n_elements": "i32", "seed": "i64",
          "offset": "i64"},
         {"OP": op, "COMPUTE": tl.float64 if kind == "*fp64" else tl.float32, "BLOCK": 128})
        for kind, op in (("*fp32", s.standard_gamma), ("*fp64", s.standard_gamma),
                         ("*fp32", s.poisson), ("*bf16", s.poisson), ("*fp64", s.poisson),
                         ("*fp32", s.binomial), ("*fp64", s.binomial))
    ],
}  # fmt: skip
