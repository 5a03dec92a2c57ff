"""torch.backends.xnnpack: there is no XNNPACK here."""

from __future__ import annotations

from tritorch.backends import _flags


class xnnpack:
    """The settings."""

    @property
    def enabled(self) -> bool:
        """False: operators are tritorch's own."""
        return False


_flags.install(__name__, xnnpack)
