"""Settings of torch.export, which programs read, set and patch."""

import sys

from tritorch.utils._config_module import install_config_module

install_config_module(sys.modules[__name__])
