"""Instructions by function, as callgrind counts them: `CallgrindStats` and what it consists of."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tritorch.utils.benchmark import TaskSpec

# What a table of counts shows of a long one: so many rows from each end.
_SHOWN_ROWS = 9
# Prefixes and suffixes that differ between two builds of the same sources.
_STANDARD_FORMS = (
    (r"^.+build/\.\./", "build/../"),
    (r"^.+/build/aten/", "build/aten/"),
    (r"^.+/Python/", "Python/"),
    (r"^.+/Objects/", "Objects/"),
    (r"\s\[.+\]$", ""),
)
_NO_DEBUG_SYMBOLS = """
Warning: PyTorch was not built with debug symbols.
         Source information may be limited. Rebuild with
         REL_WITH_DEB_INFO=1 for more detailed results."""


class FunctionCount(NamedTuple):
    """How many instructions a function took."""

    count: int  # type: ignore[assignment]
    function: str


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class FunctionCounts:
    """Functions with their counts, the largest first; can be added, subtracted, filtered."""

    _data: tuple[FunctionCount, ...]
    inclusive: bool
    truncate_rows: bool = True
    _linewidth: int | None = None  # None: that of printed tensors

    def __iter__(self) -> Iterator[FunctionCount]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, item: Any) -> FunctionCount | FunctionCounts:
        if isinstance(item, slice):
            return FunctionCounts(self._data[item], self.inclusive, truncate_rows=False)
        return self._data[item]

    def __repr__(self) -> str:
        from tritorch.compat.torch_private._tensor_str import PRINT_OPTS

        # A sign counts twice in PyTorch's columns.
        digits = max((len(str(c)) + (c < 0) for c, _ in self), default=0)
        room = max((self._linewidth or PRINT_OPTS.linewidth) - digits - 4, 40)
        lines = [f"  {count:>{digits}}  {_shortened(name, room)}" for count, name in self]
        if self.truncate_rows and len(lines) > 2 * _SHOWN_ROWS:
            lines[_SHOWN_ROWS:-_SHOWN_ROWS] = ["...".rjust(digits + 2)]
        if not self.inclusive:
            lines += ["", f"Total: {self.sum()}"]
        return "\n".join([super().__repr__(), *lines])

    def __add__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, 1)

    def __sub__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, -1)

    def __mul__(self, other: int | float) -> FunctionCounts:
        return _summed(((int(c * other), name) for c, name in self), self.inclusive)

    def transform(self, map_fn: Callable[[str], str]) -> FunctionCounts:
        """The counts by what map_fn makes of the names; those of equal names are added up."""
        return _summed(((c, map_fn(name)) for c, name in self), self.inclusive)

    def filter(self, filter_fn: Callable[[str], bool]) -> FunctionCounts:
        """The counts of the functions whose names filter_fn accepts."""
        kept = tuple(entry for entry in self if filter_fn(entry.function))
        return FunctionCounts(kept, self.inclusive)

    def sum(self) -> int:
        """All counts together."""
        return sum(c for c, _ in self)

    def denoise(self) -> FunctionCounts:
        """The counts without CPython's search of dictionaries, which varies between runs."""
        return self.filter(lambda name: "dictobject.c:lookdict_unicode" not in name)

    def _merge(self, second: FunctionCounts, sign: int) -> FunctionCounts:
        if self.inclusive != second.inclusive:
            raise AssertionError("Cannot merge inclusive and exclusive counts.")
        others = [(sign * c, name) for c, name in second]
        return _summed([*self, *others], self.inclusive)


def _summed(entries: Iterable[tuple[int, str]], inclusive: bool) -> FunctionCounts:
    counts: collections.Counter[str] = collections.Counter()
    for count, name in entries:
        counts[name] += count
    there = (FunctionCount(count, name) for name, count in counts.items() if count)
    return FunctionCounts(tuple(sorted(there, reverse=True)), inclusive)


def _shortened(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    left = (room - 5) // 2
    return f"{name[:left]} ... {name[-(room - left - 5) :]}"


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class CallgrindStats:
    """What `Timer.collect_callgrind` returns: the statement's counts, and those of `pass`."""

    task_spec: TaskSpec
    number_per_run: int
    built_with_debug_symbols: bool
    baseline_inclusive_stats: FunctionCounts
    baseline_exclusive_stats: FunctionCounts
    stmt_inclusive_stats: FunctionCounts
    stmt_exclusive_stats: FunctionCounts
    stmt_callgrind_out: str | None

    def __repr__(self) -> str:
        base, threads = self.baseline_exclusive_stats, self.task_spec.num_threads
        rows = (
            ("Instructions:", self.counts(), self.counts(denoise=True)),
            ("Baseline:    ", base.sum(), base.denoise().sum()),
        )
        lines = [
            super().__repr__(),
            self.task_spec.summarize(),
            f"{'All':>30}{'':>10}Noisy symbols removed",
            *(f"    {title} {every:>12}{'':>15}{quiet:>12}" for title, every, quiet in rows),
            f"{self.number_per_run} runs per measurement, {threads} thread{'s' * (threads > 1)}",
        ]
        # PyTorch strips the block before it appends the warning.
        warning = "" if self.built_with_debug_symbols else _NO_DEBUG_SYMBOLS
        return "\n".join(lines).strip() + warning

    def stats(self, inclusive: bool = False) -> FunctionCounts:
        """The counts by function; inclusive ones contain those of the functions that are called."""
        return self.stmt_inclusive_stats if inclusive else self.stmt_exclusive_stats

    def counts(self, *, denoise: bool = False) -> int:
        """All instructions of the runs; `FunctionCounts.denoise` says which are noise."""
        stats = self.stmt_exclusive_stats
        return (stats.denoise() if denoise else stats).sum()

    def delta(self, other: CallgrindStats, inclusive: bool = False) -> FunctionCounts:
        """How many instructions more than the other's each function took."""
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self) -> CallgrindStats:
        """The same counts by names without folders of builds and without libraries."""

        def strip(stats: FunctionCounts) -> FunctionCounts:
            for pattern, form in _STANDARD_FORMS:
                stats = stats.transform(functools.partial(re.sub, pattern, form))
            return stats

        return dataclasses.replace(
            self,
            baseline_inclusive_stats=strip(self.baseline_inclusive_stats),
            baseline_exclusive_stats=strip(self.baseline_exclusive_stats),
            stmt_inclusive_stats=strip(self.stmt_inclusive_stats),
            stmt_exclusive_stats=strip(self.stmt_exclusive_stats),
            stmt_callgrind_out=None,  # it has the names as they were
        )


# ---- callgrind's files ---------------------------------------------------------------------------

_POSITION = re.compile(r"([+-]?\d+|\*|0x[0-9a-f]+)\s")
_COMPRESSED = re.compile(r"\((\d+)\)\s*(.*)")
# The name table of each kind of line: files, objects and functions are numbered apart.
_TABLES = {
    "fl": "file", "fi": "file", "fe": "file", "cfi": "file", "cfl": "file", "jfi": "file",
    "ob": "object", "cob": "object", "fn": "function", "cfn": "function", "jfn": "function",
}  # fmt: skip


def parse_callgrind(text: str) -> tuple[FunctionCounts, FunctionCounts]:
    """The inclusive and the exclusive counts of a callgrind.out file.

    Functions are named as callgrind_annotate names them: `file:function [object]`.  Instructions
    that were inlined from another file count for that file, under the name of the function they
    are in.  What a function includes is what calls of it cost, and for one that was entered before
    the count began, its own instructions and the calls it makes.
    """
    names: dict[tuple[str, str], str] = {}
    own: collections.Counter[tuple[str, str]] = collections.Counter()
    called: collections.Counter[tuple[str, str]] = collections.Counter()
    entered: collections.Counter[tuple[str, str]] = collections.Counter()
    objects: dict[tuple[str, str], str] = {}
    file = function = library = callee_file = ""
    callee = ("", "")
    positions, is_call, total = 1, False, 0
    for line in text.splitlines():
        if _POSITION.match(line):
            cost = int(line.split()[positions])
            if is_call:
                called[file, function] += cost
                entered[callee] += cost
            else:
                own[file, function] += cost
            is_call = False
            continue
        kind, separator, value = line.partition("=")
        if kind in _TABLES and separator:
            if match := _COMPRESSED.fullmatch(value):
                key = _TABLES[kind], match[1]
                value = names[key] = match[2] or names[key]
            if kind == "ob":
                library = value
            elif kind in ("fl", "fi", "fe"):
                file = value
            elif kind == "fn":
                function = value
                objects[file, function] = library
            elif kind in ("cfi", "cfl"):
                callee_file = value
            elif kind == "cfn":  # in the caller's file unless another is named
                callee, callee_file = (callee_file or file, value), ""
        elif kind == "calls":
            is_call = True
        elif line.startswith("positions:"):
            positions = len(line.split()) - 1
        elif line.startswith(("totals:", "summary:")):
            total = int(line.split()[1])

    def name(key: tuple[str, str]) -> str:
        library = objects.get(key)
        return f"{key[0]}:{key[1]}" + (f" [{library}]" if library else "")

    # What includes everything says nothing.
    costs = {**(own + called), **entered}
    whole = [(count, name(key)) for key, count in costs.items() if count != total]
    return _summed(whole, True), _summed(((c, name(key)) for key, c in own.items()), False)


for _class in (FunctionCount, FunctionCounts, CallgrindStats):
    _class.__module__ = "tritorch.utils.benchmark"
