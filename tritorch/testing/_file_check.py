"""FileCheck: whether a text has what it should have, where it should have it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tritorch.schema.signature import quoted
from tritorch.schema.source import highlight

_SPECIAL = re.compile(r"^[ \t]*#[ \t]*CHECK(?P<rest>.*)$", re.MULTILINE)
_FORM = re.compile(
    r"(?:-(?:(?P<exactly>COUNT-EXACTLY)-(?P<n>\d+)|COUNT-(?P<count>\d+)|(?P<kind>[A-Z-]+)))?"
    r": (?P<text>.*)"
)


class _Check(NamedTuple):
    kind: str  # "", "NEXT", "SAME", "NOT", "DAG", "COUNT", "REGEX", "SOURCE-HIGHLIGHTED"
    text: str
    times: int = 1

    def __str__(self) -> str:
        label = "".join(f"-{part}" for part in (self.kind, self._times()) if part)
        return f"CHECK{label}: {self.text}"

    def _times(self) -> str:
        return str(self.times) if self.kind == "COUNT" else ""


class FileCheck:
    """Checks of a text, in order: each looks where the one before has left off.

        FileCheck().check("def forward").check_next("return").check_not("relu").run(text)

    `run` raises RuntimeError with the part of the text that is not as it should be.
    """

    def __init__(self) -> None:
        self._checks: list[_Check] = []
        self._has_run = False

    def __del__(self) -> None:
        if not self._has_run:
            print("You have not run this instance of FileCheck!\nFileCheck checks:")
            for check in self._checks:
                print(f"\t{check}")

    def _add(self, kind: str, text: str, count: int = 1) -> FileCheck:
        if not isinstance(text, str):
            raise TypeError(f"FileCheck: expected a str to look for, got {type(text).__name__}")
        self._checks.append(_Check(kind, text, count))
        return self

    def check(self, text: str, /) -> FileCheck:
        """The text comes."""
        return self._add("", text)

    def check_next(self, text: str, /) -> FileCheck:
        """The text comes on the next line."""
        return self._add("NEXT", text)

    def check_same(self, text: str, /) -> FileCheck:
        """The text comes on the same line."""
        return self._add("SAME", text)

    def check_not(self, text: str, /) -> FileCheck:
        """The text does not come before what the next check finds, or the end."""
        return self._add("NOT", text)

    def check_dag(self, text: str, /) -> FileCheck:
        """The text comes, in any order with those of the `check_dag`s beside this one."""
        return self._add("DAG", text)

    def check_regex(self, text: str, /) -> FileCheck:
        """Something comes that the regular expression matches."""
        return self._add("REGEX", text)

    def check_source_highlighted(self, text: str, /) -> FileCheck:
        """The text comes, and the line below underlines it with `~`."""
        return self._add("SOURCE-HIGHLIGHTED", text)

    def check_count(self, str: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes so many times; exactly: and not again before the next check."""
        if count < 0 or (not count and not exactly):
            raise RuntimeError(f"check_count(): expected a count above 0, got {count}")
        if count:
            self._add("COUNT", str, count)
        return self._add("NOT", str) if exactly else self

    def run(self, *given: Any) -> None:
        """Checks a text or a graph; of two, the first has the checks, in lines such as
        `# CHECK: text`."""
        texts = tuple(str(each) if type(each).__name__ == "Graph" else each for each in given)
        if len(texts) not in (1, 2) or not all(isinstance(text, str) for text in texts):
            got = ", ".join(type(text).__name__ for text in texts)
            raise TypeError(f"FileCheck.run(): expected one or two str, got ({got})")
        self._has_run = True
        if len(texts) == 2:
            self._read(texts[0])
        if not self._checks:
            raise RuntimeError(
                "No checks have been added to this instance of FileCheck! Check for bad input."
            )
        _Run(texts[-1]).all(self._checks)

    def _read(self, text: str) -> None:
        """Adds the checks in a text's comments."""
        for line in _SPECIAL.finditer(text):
            form = _FORM.fullmatch(line["rest"])
            kinds = ("NEXT", "SAME", "NOT", "DAG", "REGEX", "SOURCE-HIGHLIGHTED", None)
            if form is None or form["kind"] not in kinds:
                at = line.start("rest")
                raise RuntimeError(
                    f"Could not parse check at:\n{highlight(text, at, at + 1)}Check for bad input."
                )
            if form["n"] or form["count"]:
                self.check_count(form["text"], int(form["n"] or form["count"]), bool(form["n"]))
            else:
                self._add(form["kind"] or "", form["text"])


class _Run:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0  # of what was found last

    def all(self, checks: list[_Check]) -> None:
        """Every check; RuntimeError if one fails."""
        forbidden: list[_Check] = []
        for group in _groups(checks):
            if group[0].kind == "NOT":
                forbidden += group
                continue
            before = self.end
            start, self.end = self._group(group)
            self._none_of(forbidden, before, start)
            forbidden = []
        self._none_of(forbidden, self.end, len(self.text))

    def _group(self, group: list[_Check]) -> tuple[int, int]:
        """Where the match of a check begins and ends, or those of several DAG checks."""
        check = group[0]
        find: Callable[[_Check], tuple[int, int]] = {
            "NEXT": self._next,
            "SAME": self._same,
            "COUNT": self._count,
            "REGEX": self._regex,
            "SOURCE-HIGHLIGHTED": self._highlighted,
        }.get(check.kind, lambda check: self._find(check, self.end))
        places = [find(check) for check in group]
        return min(start for start, _ in places), max(end for _, end in places)

    def _fail(self, what: str, start: int, end: int, check: _Check | None) -> Any:
        source = f"\nFrom {check}\n" if check else "\n"
        shown = highlight(self.text, start, end).rstrip("\n")
        raise RuntimeError(f"Expected to {what}\n{shown}{source}")

    def _find(self, check: _Check, start: int, wanted: str | None = None) -> tuple[int, int]:
        text = check.text if wanted is None else wanted
        at = self.text.find(text, start)
        if at < 0:
            self._fail(
                f"find {quoted(text)} but did not find it\nSearched string:",
                start,
                start + len(text),
                check,
            )
        return at, at + len(text)

    def _none_of(self, checks: list[_Check], start: int, end: int) -> None:
        for check in checks:
            self._without(check, check.text, start, end)

    def _without(self, check: _Check, text: str, start: int, end: int) -> None:
        at = self.text.find(text, start, end)
        if at >= 0:
            what = f"not find {quoted(text)} but found it"
            self._fail(what, at, at + len(text), check)

    def _same(self, check: _Check) -> tuple[int, int]:
        start, end = self._find(check, self.end)
        self._without(check, "\n", self.end, start)
        return start, end

    def _next(self, check: _Check) -> tuple[int, int]:
        _, line = self._find(check, self.end, "\n")
        start, end = self._find(check, line)
        self._without(check, "\n", line, start)
        return start, end

    def _count(self, check: _Check) -> tuple[int, int]:
        first, end = self._find(check, self.end)
        for _ in range(check.times - 1):
            _, end = self._find(check, end)
        return first, end

    def _regex(self, check: _Check) -> tuple[int, int]:
        match = re.compile(check.text).search(self.text, self.end)
        if match is None:
            self._fail(
                f"find regex {quoted(check.text)} but did not find it\nSearched string:",
                self.end,
                self.end,
                check,
            )
            raise AssertionError
        return match.start(), match.end()

    def _highlighted(self, check: _Check) -> tuple[int, int]:
        first, last = start, end = self._find(check, self.end)
        while start >= 0:
            line = self.text.rfind("\n", 0, start) + 1
            below = self.text.find("\n", end)
            rest = self.text[below + 1 :].partition("\n")[0] if below >= 0 else ""
            if rest[start - line : end - line] == "~" * (end - start):
                return start, below + 1 + end - line
            start = self.text.find(check.text, end)
            end = start + len(check.text)
        self._fail(f"find {quoted(check.text)} highlighted but it is not.", first, last, None)
        raise AssertionError


def _groups(checks: list[_Check]) -> Iterator[list[_Check]]:
    """The checks one by one, those DAG checks together that follow each other."""
    at = 0
    while at < len(checks):
        stop = at + 1
        while checks[at].kind == "DAG" and stop < len(checks) and checks[stop].kind == "DAG":
            stop += 1
        yield checks[at:stop]
        at = stop
