"""Parameters of a model as a data sparsifier's data."""

from __future__ import annotations

import logging
from typing import Any

from tritorch.ao.pruning._experimental.data_sparsifier.base_data_sparsifier import SUPPORTED_TYPES

logger: logging.Logger = logging.getLogger(__name__)


def _get_valid_name(name: str) -> str:
    """A parameter's path as a name of a buffer, which has no dots."""
    return name.replace(".", "_")


def _attach_model_to_data_sparsifier(module: Any, data_sparsifier: Any, config: Any = None) -> None:
    """Adds all parameters to the sparsifier, with configurations by their names without dots."""
    for path, parameter in module.named_parameters():
        if type(parameter) in SUPPORTED_TYPES:
            name = _get_valid_name(path)
            data_sparsifier.add_data(name=name, data=parameter, **(config or {}).get(name, {}))


def _log_sparsified_level(model: Any, data_sparsifier: Any) -> None:
    """Logs the sparsity of each parameter's mask."""
    for path, parameter in model.named_parameters():
        if type(parameter) in SUPPORTED_TYPES:
            name = _get_valid_name(path)
            mask = data_sparsifier.get_mask(name=name)
            level = 1.0 - mask.float().mean().item()
            logger.info("Sparsity in layer %s = %.2f%%", name, 100 * level)
