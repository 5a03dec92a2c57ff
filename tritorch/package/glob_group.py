"""Patterns of dotted names: which modules are meant."""

from __future__ import annotations

import re
from collections.abc import Iterable

GlobPattern = str | Iterable[str]


class GlobGroup:
    """Names that match one of some patterns, and none of others.

    A pattern's parts stand between separators: `*` is any letters of one part, `**` any number of
    parts, none too.  "torch.**" is torch and all below it, "torch.*" what is directly below."""

    def __init__(
        self, include: GlobPattern, *, exclude: GlobPattern = (), separator: str = "."
    ) -> None:
        self._dbg = f"GlobGroup(include={include}, exclude={exclude})"
        self.include = self._glob_list(include, separator)
        self.exclude = self._glob_list(exclude, separator)
        self.separator = separator

    def __repr__(self) -> str:
        return self._dbg

    def matches(self, candidate: str) -> bool:
        """Whether a name is meant."""
        candidate = self.separator + candidate  # so that the first part has one in front too
        return any(p.fullmatch(candidate) for p in self.include) and not any(
            p.fullmatch(candidate) for p in self.exclude
        )

    @staticmethod
    def _glob_list(elems: GlobPattern, separator: str = ".") -> list[re.Pattern[str]]:
        several = [elems] if isinstance(elems, str) else elems
        return [GlobGroup._glob_to_re(each, separator) for each in several]

    @staticmethod
    def _glob_to_re(pattern: str, separator: str = ".") -> re.Pattern[str]:
        mark, letters = re.escape(separator), f"[^{re.escape(separator)}]"

        def part(text: str) -> str:
            if text == "**":
                return f"({mark}{letters}+)*"
            if "**" in text:
                raise ValueError("** can only appear as an entire path segment")
            return mark + f"{letters}*".join(map(re.escape, text.split("*")))

        return re.compile("".join(map(part, pattern.split(separator))))
