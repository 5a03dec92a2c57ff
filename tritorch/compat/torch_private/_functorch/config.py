"""Settings of PyTorch's compiler of both passes, which programs patch.

`activation_memory_budget` says how much is saved for backward passes (Note [Rematerialisation] in
`tritorch/compilation/backward/rematerialisation.py`); the others change nothing here."""

import sys
from typing import TYPE_CHECKING, Any

from tritorch.utils._config_module import install_config_module

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


install_config_module(sys.modules[__name__])
