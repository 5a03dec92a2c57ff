"""How families are written: lines of text, and lines made of a pattern."""

from __future__ import annotations

from collections.abc import Iterable


def lines(text: str) -> list[str]:
    """The lines of a text that are not empty and no comments."""
    return [s for line in text.splitlines() if (s := line.strip()) and not s.startswith("#")]


def each(pattern: str, words: str | Iterable[str]) -> list[str]:
    """The pattern for each word, which stands for `@` in it."""
    return [pattern.replace("@", w) for w in (words.split() if isinstance(words, str) else words)]
