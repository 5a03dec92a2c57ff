"""Strings.  PyTorch counts bytes of UTF-8, these functions characters: they differ for text that is
not ASCII."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.jit.run.limits import check_elements
from tritorch.jit.run.text import formatted, percent_formatted, text_of

Function = Callable[..., Any]
_SPACE = " \t\n\r\f\v"


def _bounds(text: str, start: int, end: int) -> tuple[int, int]:
    """The places that two indices mean; -1 for the end is the whole string's."""
    size = len(text)
    if end == -1:
        end = size
    start = max(start + size, 0) if start < 0 else start
    end = max(end + size, 0) if end < 0 else min(end, size)
    return start, end


def find(text: str, part: str, start: int = 0, end: int = -1) -> int:
    """The first place of a substring; -1 if there is none."""
    return text.find(part, *_bounds(text, start, end))


def rfind(text: str, part: str, start: int = 0, end: int = -1) -> int:
    """The last place of a substring; -1 if there is none."""
    return text.rfind(part, *_bounds(text, start, end))


def _required(search: Function) -> Function:
    def call(*args: Any) -> int:
        found: int = search(*args)
        if found < 0:
            raise RuntimeError("ValueError: substring not found")
        return found

    return call


def _count(text: str, part: str, start: int = 0, end: int = -1) -> int:
    return text.count(part, *_bounds(text, start, end))


def _starts_with(text: str, part: str, start: int = 0, end: int = -1) -> bool:
    return text.startswith(part, *_bounds(text, start, end))


def _ends_with(text: str, part: str, start: int = 0, end: int = -1) -> bool:
    return text.endswith(part, *_bounds(text, start, end))


def _split(text: str, separator: str | None = None, most: int = -1) -> list[str]:
    if separator == "":
        raise RuntimeError("ValueError: empty separator")
    return text.split(separator, most)


def _rsplit(text: str, separator: str = " ", most: int = -1) -> list[str]:
    if separator == "":
        raise RuntimeError("ValueError: empty separator")
    return text.rsplit(separator, most)


def _split_lines(text: str, keep_ends: bool = False) -> list[str]:
    """Lines, of which \\n and \\r each end one."""
    lines, start = [], 0
    for at, letter in enumerate(text):
        if letter in "\n\r\f\v\x1c\x1d\x1e\x85":
            lines.append(text[start : at + keep_ends])
            start = at + 1
    return lines + [text[start:]] * (start < len(text))


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    if open_ended := most < 0:
        most = text.count(old)
    check_elements(len(text) + min(most, len(text) + 1) * len(new))
    return text.replace(old, new, -1 if open_ended else most)


def _join(between: str, parts: list[str]) -> str:
    check_elements(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def _filled(name: str) -> Function:
    """center, ljust and rjust."""

    def call(text: str, width: int, fill: str = " ") -> str:
        if len(fill) != 1:
            raise RuntimeError("TypeError: The fill character must be exactly one character long")
        check_elements(width)
        if name == "center" and width > len(text):
            left = (width - len(text)) // 2
            return fill * left + text + fill * (width - len(text) - left)
        return getattr(text, name)(width, fill)

    return call


def _with_zeros(text: str, width: int) -> str:
    check_elements(width)
    return text.rjust(width, "0")


def _expand_tabs(text: str, size: int = 8) -> str:
    check_elements(len(text) + text.count("\t") * max(size, 0))
    return text.expandtabs(size)


def _at(text: str, index: int) -> str:
    place = index + len(text) if index < 0 else index
    if not 0 <= place < len(text):
        raise RuntimeError(
            f"basic_string::at: __n (which is {place % (1 << 64)}) >= this->size() "
            f"(which is {len(text)})"
        )
    return text[place]


def _slice(text: str, start: int | None = None, end: int | None = None, step: int = 1) -> str:
    if step == 0:
        raise RuntimeError("List slice should have non-zero step")
    return text[slice(start, end, step)]


def _ord(text: str) -> int:
    if len(text) != 1:
        raise RuntimeError(f"String for ord() must be 1 character, found {len(text)}")
    return ord(text)


def _chr(number: int) -> str:
    if not 0 <= number < 0x110000:
        raise RuntimeError(f"chr() arg not in range(0x110000), found {number}")
    return chr(number & 255) if number < 256 else chr(number)


def _concatenated(a: str, b: str) -> str:
    check_elements(len(a) + len(b))
    return a + b


def _strip(name: str) -> Function:
    def call(text: str, letters: str = _SPACE) -> str:
        return getattr(text, name)(letters)

    return call


_METHODS = (
    "capitalize", "isalnum", "isalpha", "isdecimal", "isdigit", "isidentifier", "islower",
    "isnumeric", "isprintable", "isspace", "istitle", "isupper", "lower", "partition", "rpartition",
    "swapcase", "title", "upper",
)  # fmt: skip

STRINGS: dict[str, Function] = {
    **{f"aten::{name}": getattr(str, name) for name in _METHODS},
    **{f"aten::{name}": _filled(name) for name in ("center", "ljust", "rjust")},
    **{f"aten::{name}": _strip(name) for name in ("strip", "lstrip", "rstrip")},
    "aten::find": find,
    "aten::rfind": rfind,
    "aten::rindex": _required(rfind),
    "aten::startswith": _starts_with,
    "aten::endswith": _ends_with,
    "aten::split": _split,
    "aten::rsplit": _rsplit,
    "aten::splitlines": _split_lines,
    "aten::replace": _replace,
    "aten::join": _join,
    "aten::zfill": _with_zeros,
    "aten::expandtabs": _expand_tabs,
    "aten::ord": _ord,
    "aten::__getitem__": _at,
    "aten::add": _concatenated,
    "aten::count": _count,
    "aten::index": _required(find),
    "aten::len": len,
    "aten::list": list,
    "aten::slice": _slice,
    "prim::StringIndex": _at,
}
ALL: dict[str, Function] = {
    "aten::str": text_of,
    "aten::format": formatted,
    "aten::percentFormat": percent_formatted,
}
PLAIN: dict[str, Function] = {
    "aten::bin": bin,
    "aten::chr": _chr,
    "aten::hex": hex,
    "aten::oct": oct,
}
