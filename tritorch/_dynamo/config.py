"""Settings of the compiler, which programs patch around calls that do not compile here."""

import sys

from tritorch.utils._config_module import install_config_module

install_config_module(sys.modules[__name__])
