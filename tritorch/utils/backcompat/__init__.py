"""torch.utils.backcompat: warnings of PyTorch before 0.4, which nothing gives any more."""

from __future__ import annotations


class Warning:
    """A setting that is kept."""

    def __init__(self, name: str) -> None:
        self._name, self._enabled = name, False

    @property
    def enabled(self) -> bool:
        """Whether a program turned it on."""
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._enabled = value


broadcast_warning = Warning("broadcast")
keepdim_warning = Warning("keepdim")
