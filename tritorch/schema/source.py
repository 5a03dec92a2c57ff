"""Where in a text something is: lines around it with a mark, for messages."""

from __future__ import annotations

_CONTEXT = 2  # lines before and after


def highlight(text: str, start: int, end: int) -> str:
    """The lines around text[start:end], what is marked underlined with `~~~ <--- HERE`."""
    lines = text.splitlines(keepends=True) or [""]
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    number = text.count("\n", 0, start), text.count("\n", 0, max(start, end))
    shown = range(max(number[0] - _CONTEXT, 0), min(number[1] + _CONTEXT + 1, len(lines)))
    marks = {}
    for at in shown:
        indent = len(lines[at]) - len(lines[at].lstrip(" \t"))
        begin = max(start, begins[at] + indent)
        stop = min(end, begins[at] + len(lines[at].rstrip("\n")))
        if begin < stop:
            marks[at] = " " * (begin - begins[at]) + "~" * (stop - begin)
    out = ""
    for at in shown:
        out += lines[at]
        if at in marks:
            out += "" if out.endswith("\n") else "\n"
            out += marks[at] + (" <--- HERE" if at == max(marks) else "") + "\n"
    return out
