"""The words of a schema."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from tritorch.schema.source import highlight

# Words that name nothing in a schema: Python's and TorchScript's.
_RESERVED = """
    and as assert break class continue def elif else for global if in is lambda not or pass raise
    return while with None True False
"""
_TOKEN = re.compile(
    r"""
    (?P<space> (?:\s|\#[^\n]*)+ )
    | (?P<number> \d+\.?\d*(?:[eE][+-]?\d+)?j? | \.\d+(?:[eE][+-]?\d+)?j? )
    | (?P<ident> [A-Za-z_]\w* )
    | (?P<string_literal> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<symbol> -> | \.\.\. | [()\[\]*,:.=!?|-] )
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """A word: its kind (a symbol's or reserved word's is itself), its text, where it is."""

    kind: str
    text: str
    start: int
    end: int


class Tokens:
    """The words of a text from some character on, one after the other."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self._all = list(self._split(start))
        self._at = 0

    def _split(self, at: int) -> list[Token]:
        found, reserved = [], frozenset(_RESERVED.split())
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                where = Token("", self.text[at], at, at + 1)
                self.wrong(f"expected a valid token but found '{where.text}' here", where)
            kind, word = match.lastgroup or "", match.group()
            if kind != "space":
                if kind == "symbol" or word in reserved:
                    kind = word
                found.append(Token(kind, word, at, match.end()))
            at = match.end()
        return [*found, Token("eof", "", at, at)]

    @property
    def next(self) -> Token:
        """The next word, which stays."""
        return self._all[self._at]

    def look(self, ahead: int) -> Token:
        """A word further on, which stays."""
        return self._all[min(self._at + ahead, len(self._all) - 1)]

    def take(self, *kinds: str) -> Token:
        """The next word, which must be of one of these kinds."""
        token = self.next
        if kinds and token.kind not in kinds:
            self.wrong(f"expected {kinds[0]} but found '{token.kind}' here", token)
        self._at = min(self._at + 1, len(self._all) - 1)
        return token

    def took(self, kind: str) -> bool:
        """Takes the next word if it is of this kind."""
        if self.next.kind != kind:
            return False
        self.take()
        return True

    def wrong(self, message: str, where: Token | None = None) -> NoReturn:
        """RuntimeError with the place in the text."""
        token = where or self.next
        raise RuntimeError(f"{message}:\n{highlight(self.text, token.start, token.end)}")

    def refuse(self, message: str, where: Token | None = None) -> NoReturn:
        """As `wrong`, for words that are right and mean nothing."""
        self.wrong(f"\n{message}", where)
