"""Compiled variants of kernels/pointwise.py: every scalar function, every template."""

import inspect

import triton
import triton.language as tl

import tritorch.gpu.random.sampling  # noqa: F401  (says which of its functions are long)
from tritorch.gpu.pointwise.layout import LONG
from tritorch.kernels import pointwise as p
from tritorch.kernels.scalar import activations, bessel, elementary, gamma, polynomials, special

TEMPLATES = {"operand", "block_offsets", "strided", "like", "odd", "shift", "ends", "log_ratio",
             "log_factor", "lower_series", "upper_fraction", "upper_series", "zeta_positive",
             "zeta_double", "erfcx_positive", "exp_minus_square", "bits_and_exponent",
             "log1p_ratio", "off_zero", "beta_lead", "beta_expansion"}  # fmt: skip
INTEGERS = {"bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
            "bitwise_right_shift", "gcd", "lcm"}  # fmt: skip
BOTH = {"add", "mul", "pow", "floor_divide", "remainder", "sign", "eq", "clamp", "maximum"}
DOUBLE = {"erfinv", "lgamma", "atan2", "tanh", "nextafter", "signbit", "erfc", "pow", "exp",
          "fmod", "digamma", "i0", "sinh", "atan", "ndtri", "log_ndtr", "erfcx", "bessel_j1",
          "bessel_y0", "modified_bessel_k1", "airy_ai", "chebyshev_polynomial_v",
          "laguerre_polynomial_l", "hermite_polynomial_h", "igammac", "zeta", "mantissa",
          "standard_gamma_grad", "dirichlet_grad",
          "exponent"}  # fmt: skip
MODULES = {module.__name__ for module in (
    p, elementary, special, bessel, gamma, polynomials, activations)}  # fmt: skip


def functions():
    for name, value in vars(p).items():
        if not isinstance(value, triton.JITFunction) or value.__module__ not in MODULES:
            continue
        parameters = inspect.signature(value.fn).parameters
        if any(parameter.annotation is tl.constexpr for parameter in parameters.values()):
            continue  # a part of others
        if not name.startswith(("map", "_")) and name not in TEMPLATES:
            yield name, value, len(parameters)


def kinds(name):
    if name in INTEGERS:
        return [("i64", tl.int64)]
    if name == "polygamma":
        return [("fp64", tl.float64)]
    found = [("fp32", tl.float32)]
    if name in BOTH:
        found.append(("i64", tl.int64))
    if name in DOUBLE:
        found.append(("fp64", tl.float64))
    return found


def strided(n, types, ndim):
    letters = "abcd"[:n]
    signature = {f"{x}_ptr": t for x, t in zip(letters, types)} | {"y_ptr": types[-1]}
    signature |= {"n_elements": "i32", "shape": ("i32",) * ndim, "y_strides": ("i32",) * ndim}
    return signature | {f"{x}_strides": ("i32",) * ndim for x in letters}


def flags(n, number=None):
    return {f"{x.upper()}_NUMBER": x == number for x in "abcd"[:n]}


FLAT1, FLAT2, MAP3, MAP4 = [], [], [], []
for name, function, n in functions():
    for kind, compute in kinds(name):
        block = 256 if name in LONG else 1024
        common = {"OP": function, "COMPUTE": compute, "WIDE": False, "BLOCK": block}
        pointer = f"*{kind}"
        if n == 1:
            FLAT1.append((
                {"a_ptr": pointer, "y_ptr": pointer, "n_elements": "i32"},
                common | {"A_NUMBER": False},
            ))  # fmt: skip
        elif n == 2:
            FLAT2.append((
                {"a_ptr": pointer, "b_ptr": pointer, "y_ptr": pointer, "n_elements": "i32"}, common,
            ))  # fmt: skip
        elif n == 3:
            MAP3.append((strided(3, [pointer] * 4, 2), common | flags(3) | {"NDIM": 2}))
        else:
            MAP4.append((strided(4, [pointer] * 5, 2), common | flags(4) | {"NDIM": 2}))
VARIANTS = {
    ("pointwise", "map1_flat"): FLAT1 + [
        ({"a_ptr": "*bf16", "y_ptr": "*bf16", "n_elements": "i64"},
         {"OP": p.exp, "COMPUTE": tl.float32, "A_NUMBER": False, "WIDE": True, "BLOCK": 2048}),
        ({"a_ptr": "*fp32", "y_ptr": "*i1", "n_elements": "i32"},
         {"OP": p.isnan, "COMPUTE": tl.float32, "A_NUMBER": False, "WIDE": False, "BLOCK": 256}),
    ],
    ("pointwise", "map2_flat"): FLAT2,
    ("pointwise", "map1_strided"): [
        (strided(1, ["*fp32", "*fp32"], d), {"OP": p.exp, "COMPUTE": tl.float32, "NDIM": d,
                                             "WIDE": False, "BLOCK": 1024} | flags(1))
        for d in (1, 4)
    ],
    ("pointwise", "map2_flat_number"): [
        ({"a_ptr": a, "b_ptr": b, "y_ptr": "*fp32", "n_elements": "i32"},
         {"OP": p.mul, "COMPUTE": tl.float32, "WIDE": False, "BLOCK": 1024} | flags(2, number))
        for a, b, number in (("*fp32", "i64", "b"), ("i64", "*bf16", "a"))
    ],
    ("pointwise", "map2_strided"): [
        (strided(2, types, 3), {"OP": p.add, "COMPUTE": compute, "NDIM": 3, "WIDE": False,
                                "BLOCK": 1024} | flags(2, number))
        for types, compute, number in (
            (["*fp32", "*bf16", "*fp32"], tl.float32, None),
            (["*i64", "i64", "*i64"], tl.int64, "b"),
        )
    ],
    ("pointwise", "map3_strided"): MAP3,
    ("pointwise", "map4_strided"): MAP4,
}  # fmt: skip
