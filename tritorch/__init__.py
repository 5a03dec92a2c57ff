"""tritorch: PyTorch's Python API on Triton kernels and NumPy."""

from tritorch._extension import require as _require

_require()

from tritorch import _triton, cuda
from tritorch.core.device import device
from tritorch.core.dtype import (
    bfloat16,
    bool_ as bool,
    complex64,
    complex128,
    dtype,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tritorch.version import __version__

_triton.install()
