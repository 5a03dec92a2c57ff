"""Where a compiler found a value: names for the dynamic sizes of a trace."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a value is from."""

    def name(self) -> str:
        """What a program writes for it."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class ConstantSource(Source):
    """A constant."""

    source_name: str

    def name(self) -> str:
        """Its name."""
        return self.source_name


@dataclasses.dataclass(frozen=True)
class LocalSource(Source):
    """A variable of a function."""

    local_name: str

    def name(self) -> str:
        """How a compiler writes it."""
        return f"L[{self.local_name!r}]"
