"""Settings and queries of backends, as in torch.backends.

tritorch has its own kernels and NumPy: cuDNN, MKL, oneDNN and the like are never there, which their
modules say.  Their settings are accepted, as PyTorch accepts them without the library; those
that tritorch has itself (TF32, which attention) have their effect.
"""

import importlib
from typing import Any

from tritorch.backends._flags import (
    disable_global_flags as disable_global_flags,
    flags_frozen as flags_frozen,
)

_NAMES = "cpu cuda cudnn cusparselt mha mkl mkldnn mps openmp opt_einsum quantized"
__all__ = _NAMES.split()


def __getattr__(name: str) -> Any:
    if name in __all__:  # imported when it is first asked for
        return importlib.import_module(f"tritorch.backends.{name}")
    raise AttributeError(f"module 'tritorch.backends' has no attribute {name!r}")
