"""Settings and queries of backends, as in torch.backends.

tritorch has its own kernels and NumPy: cuDNN, MKL, oneDNN and the like are never there, which their
modules say.  Their settings are accepted, as PyTorch accepts them without the library; those
that tritorch has itself (TF32, which attention) have their effect.
"""

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

from tritorch.backends._flags import (
    disable_global_flags as disable_global_flags,
    exchange as _exchange,
    flags_frozen as flags_frozen,
    install as _install,
    within as _within,
)
from tritorch.backends._precision import Precision as _Precision

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.backends import (
        cpu as cpu,
        cuda as cuda,
        cudnn as cudnn,
        cusparselt as cusparselt,
        kleidiai as kleidiai,
        mha as mha,
        miopen as miopen,
        mkl as mkl,
        mkldnn as mkldnn,
        mps as mps,
        nnpack as nnpack,
        openmp as openmp,
        opt_einsum as opt_einsum,
        python_native as python_native,
        quantized as quantized,
    )


_NAMES = [
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "kleidiai",
    "mha",
    "miopen",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "python_native",
    "quantized",
]


def _come_late(name: str) -> Any:
    if name in _NAMES:  # imported when it is first asked for
        return importlib.import_module(f"tritorch.backends.{name}")
    raise AttributeError(f"module 'tritorch.backends' has no attribute {name!r}")


if not TYPE_CHECKING:  # to checkers every name would be one
    __getattr__ = _come_late


class backends:
    """How all backends multiply float32, where they have no setting of their own."""

    fp32_precision = _Precision("generic")


def set_flags(_fp32_precision: str | None = "none") -> tuple[Any, ...]:
    """Sets it where it is not None, and tells what it was."""
    return tuple(_exchange(sys.modules[__name__], {"fp32_precision": _fp32_precision}).values())


def flags(fp32_precision: str = "none") -> contextlib.AbstractContextManager[None]:
    """Within it, it is this."""
    return _within(sys.modules[__name__], {"fp32_precision": fp32_precision})


_install(__name__, backends)
