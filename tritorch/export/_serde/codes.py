"""The numbers of dtypes, layouts and memory formats in files, and the operators on sizes."""

from __future__ import annotations

import math
import operator
from typing import Any

from tritorch.arrays import sym_functions
from tritorch.core import dtype, layout as layouts

dtypes: Any = dtype

SCALAR_TYPES: dict[Any, int] = {
    dtypes.uint8: 1, dtypes.int8: 2, dtypes.int16: 3, dtypes.int32: 4, dtypes.int64: 5,
    dtypes.float16: 6, dtypes.float32: 7, dtypes.float64: 8, dtypes.complex32: 9,
    dtypes.complex64: 10, dtypes.complex128: 11, dtypes.bool_: 12, dtypes.bfloat16: 13,
    dtypes.uint16: 28, dtypes.float8_e4m3fn: 29, dtypes.float8_e5m2: 30,
    dtypes.float8_e4m3fnuz: 31, dtypes.float8_e5m2fnuz: 32, dtypes.float8_e8m0fnu: 33,
    dtypes.uint32: 34, dtypes.uint64: 35,
}  # fmt: skip
LAYOUTS: dict[Any, int] = {
    layouts.sparse_coo: 1, layouts.sparse_csr: 2, layouts.sparse_csc: 3, layouts.sparse_bsr: 4,
    layouts.sparse_bsc: 5, layouts.strided: 7,
}  # fmt: skip
FORMATS: dict[Any, int] = {
    layouts.contiguous_format: 1, layouts.channels_last: 2, layouts.channels_last_3d: 3,
    layouts.preserve_format: 4,
}  # fmt: skip
OF_SCALAR_TYPE = {code: kind for kind, code in SCALAR_TYPES.items()}
OF_LAYOUT = {code: layout for layout, code in LAYOUTS.items()}
OF_FORMAT = {code: each for each, code in FORMATS.items()}

_PYTHON = "eq ne le ge lt gt neg pos mul add sub floordiv mod pow truediv and_ or_ lshift rshift"
_SYMBOLIC = "sym_not sym_int sym_float sym_ite sym_max sym_min sym_sqrt"
# What graphs compute of sizes, by the name that files have.
ON_NUMBERS: dict[str, Any] = {f"_operator.{n}": getattr(operator, n) for n in _PYTHON.split()}
ON_NUMBERS |= {
    f"torch.{name}": getattr(sym_functions, name)
    for name in _SYMBOLIC.split() if hasattr(sym_functions, name)
}  # fmt: skip
ON_NUMBERS["math.trunc"] = math.trunc
NAMES = {function: name for name, function in ON_NUMBERS.items()}
PARAMETERS = {1: ("a",), 2: ("a", "b"), 3: ("b", "t", "f")}  # of functions on numbers
