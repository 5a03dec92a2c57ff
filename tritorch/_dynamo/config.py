"""Settings of the compiler."""

import os
import sys

from tritorch.utils._config_module import install_config_module

install_config_module(sys.modules[__name__])
if os.environ.get("TORCH_COMPILE_DISABLE", "0") == "1":
    sys.modules[__name__].disable = True  # type: ignore[attr-defined]
