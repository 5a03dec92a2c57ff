"""Settings of the compiler."""

import os
import sys
from typing import TYPE_CHECKING, Any

from tritorch.utils._config_module import install_config_module

if TYPE_CHECKING:
    patch: Any

    def __getattr__(name: str) -> Any: ...


install_config_module(sys.modules[__name__])
if os.environ.get("TORCH_COMPILE_DISABLE", "0") == "1":
    sys.modules[__name__].disable = True  # type: ignore[attr-defined]
