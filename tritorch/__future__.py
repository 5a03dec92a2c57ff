"""How modules convert their parameters, as in torch.__future__."""

from __future__ import annotations

_overwrite = _swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `module.to()` and the like make new parameters instead of changing the old ones."""
    global _overwrite
    _overwrite = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` was given."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether `module.to()` and the like swap what a parameter holds with what it becomes
    (`torch.utils.swap_tensors`), so that who holds the parameter sees the change."""
    global _swap
    _swap = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """What `set_swap_module_params_on_conversion` was given."""
    return _swap
