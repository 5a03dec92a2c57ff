"""Settings of PyTorch's compiler of kernels, which programs read, set and patch."""

import sys
from typing import TYPE_CHECKING, Any

from tritorch.utils._config_module import install_config_module

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


install_config_module(sys.modules[__name__])
