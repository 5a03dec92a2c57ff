"""How modules convert their parameters, as in torch.__future__."""

from __future__ import annotations

_overwrite = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `module.to()` and the like make new parameters instead of changing the old ones."""
    global _overwrite
    _overwrite = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` was given."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Only False: objects of tensors cannot be swapped."""
    if value:
        raise NotImplementedError("tritorch cannot swap the objects of tensors yet")


def get_swap_module_params_on_conversion() -> bool:
    """False."""
    return False
