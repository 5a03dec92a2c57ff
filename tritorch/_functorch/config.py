"""Settings of PyTorch's compiler that programs patch around calls which do not compile here."""

import sys

from tritorch.utils._config_module import install_config_module

install_config_module(sys.modules[__name__])
