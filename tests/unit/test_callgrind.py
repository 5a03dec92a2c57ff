"""Counts of instructions: files are read as valgrind's tool reads them, texts are PyTorch's."""

import re
import shutil
import subprocess

import pytest

import tritorch
from tritorch.utils.benchmark import (
    CallgrindStats,
    CopyIfCallgrind,
    FunctionCount,
    FunctionCounts,
    TaskSpec,
    Timer,
    _callgrind,
)
from tritorch.utils.benchmark._counts import parse_callgrind


def counts(*entries, inclusive=False):
    return FunctionCounts(tuple(FunctionCount(*entry) for entry in entries), inclusive)


FILE = """\
# callgrind format
version: 1
positions: line
events: Ir
summary: 165

ob=(1) /lib/a.so
fl=(1) /build/a.c
fn=(1) outer
10 5
+2 7
fi=(2) inlined.h
3 20
fe=(1)
cob=(2) /lib/b.so
cfi=(3) ./b.c
cfn=(2) inner
calls=2 7
+4 100
* 3

ob=(2)
fl=(3)
fn=(2)
7 40
cfn=(2)
calls=1 7
+1 60
"""


def test_a_file_of_callgrind_is_read_by_function():
    inclusive, exclusive = parse_callgrind(FILE)
    inner, outer, inlined = (
        "./b.c:inner [/lib/b.so]",
        "/build/a.c:outer [/lib/a.so]",
        "inlined.h:outer",
    )
    assert list(exclusive) == [(40, inner), (20, inlined), (15, outer)]
    # outer was entered before the count began; inner includes what its calls cost.
    assert list(inclusive) == [(160, inner), (115, outer), (20, inlined)]
    assert inclusive.inclusive and not exclusive.inclusive


def test_counts_are_added_subtracted_and_standardized():
    a, b = counts((30, "/x/Objects/f.c:f [/lib/p.so]"), (7, "g")), counts((30, "h"), (7, "g"))
    assert list(a + b) == [(30, "h"), (30, "/x/Objects/f.c:f [/lib/p.so]"), (14, "g")]
    assert list(a - b) == [(30, "/x/Objects/f.c:f [/lib/p.so]"), (-30, "h")]
    assert list(b * 1.5) == [(45, "h"), (10, "g")]
    assert list(a.transform(lambda name: "one")) == [(37, "one")]
    assert list(a.filter(lambda name: name == "g")) == [(7, "g")] and a[1] == (7, "g")
    assert len(a[:1]) == 1 and not a[:1].truncate_rows
    noise = counts((9, "/y/dictobject.c:lookdict_unicode"), (1, "g"))
    assert noise.denoise().sum() == 1
    with pytest.raises(AssertionError, match="Cannot merge inclusive and exclusive counts"):
        a + counts((1, "g"), inclusive=True)
    stats = CallgrindStats(TaskSpec("f()", "pass"), 10, True, a, noise, b, a, "text")
    plain = stats.as_standardized()
    assert list(plain.stats()) == [(30, "Objects/f.c:f"), (7, "g")]
    assert plain.stmt_callgrind_out is None and stats.counts() == 37
    assert list(stats.delta(plain)) == [(30, a[0].function), (-30, "Objects/f.c:f")]
    assert repr(stats).split("\n")[1:] == [
        "f()",
        "                           All          Noisy symbols removed",
        "    Instructions:           37                         37",
        "    Baseline:               10                          1",
        "10 runs per measurement, 1 thread",
    ]


def test_long_tables_and_long_names_are_cut():
    table = FunctionCounts(
        tuple(FunctionCount(100 - i, "n" * 50) for i in range(30)), False, True, 46
    )
    lines = repr(table).split("\n")[1:]
    assert lines[0] == "  100  " + "n" * 17 + " ... " + "n" * 18
    assert lines[9] == "  ..." and len(lines) == 9 + 1 + 9 + 2 and lines[-1] == "Total: 2565"


def test_what_cannot_be_measured_is_refused(monkeypatch):
    names = "  (<class 'str'>, <class 'bytes'>, <class 'bool'>, <class 'int'>, <class 'float'>, "
    with pytest.raises(ValueError, match=re.escape(f"following types:\n{names}")):
        CopyIfCallgrind([1])
    with pytest.raises(ValueError, match="`repeats` must be >= 1"):
        Timer().collect_callgrind(repeats=0)
    with pytest.raises(NameError):
        Timer("unknown").collect_callgrind()
    monkeypatch.setattr(_callgrind.shutil, "which", lambda name: None)
    with pytest.raises(OSError, match="Missing: valgrind, callgrind_control, callgrind_annotate"):
        Timer().collect_callgrind()
    monkeypatch.setattr(_callgrind.shutil, "which", lambda name: name)
    with pytest.raises(ValueError, match="globals be wrapped in `CopyIfCallgrind`"):
        Timer("x", globals={"x": 1}).collect_callgrind()
    with pytest.raises(ValueError, match="mocking out `torch`"):
        Timer("x", globals={"x": 1, "torch": re}).collect_callgrind()


def test_globals_of_every_kind_get_there(tmp_path):
    module = tritorch.nn.Linear(2, 3)
    wrapped = {"n": CopyIfCallgrind(3, setup="import math"), "m": CopyIfCallgrind(module)}
    found = {"tritorch": tritorch}
    exec("import pathlib, pickle\n" + _callgrind._read_copies(wrapped, tmp_path), found)
    assert found["n"] == 3 and "math" in found
    assert tritorch.equal(found["m"].weight, module.weight)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_instructions_are_counted_under_valgrind(tmp_path):
    timer = Timer("sorted(x)", "x = list(range(n))", globals={"n": CopyIfCallgrind(3)})
    first, second = timer.collect_callgrind(number=250, repeats=2, retain_out_file=True)
    base = first.baseline_exclusive_stats.sum()
    assert 0 < base < 10_000 < 250 * 500 < second.counts() < 250 * 10_000
    # What differs between the two is the interpreter's adaption to the loop, once.
    assert abs(first.counts() - second.counts()) < 0.05 * second.counts()
    assert any("sort" in name for _, name in second.stats())
    file = tmp_path / "callgrind.out"
    file.write_text(first.stmt_callgrind_out)
    for inclusive in (False, True):
        command = ["callgrind_annotate", "--threshold=100", "--show-percs=no"]
        shown = subprocess.run(
            [*command, f"--inclusive={'yes' if inclusive else 'no'}", str(file)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        lines = re.findall(r"^\s*([\d,]+)\s+(.+:.+)$", shown, re.MULTILINE)
        theirs = sorted((int(count.replace(",", "")), name) for count, name in lines)
        assert theirs == sorted(first.stats(inclusive))
