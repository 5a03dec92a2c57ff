"""`python -m tritorch profile script.py [args]`: a program's run as one page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tritorch import _C
from tritorch.cli import commands
from tritorch.compat import running
from tritorch.core.profiling import events
from tritorch.profiler._page import write_page
from tritorch.profiling.recordings import Options, Recorder
from tritorch.profiling.traces import write_trace

_MOST_EVENTS = 4_000_000


def main(arguments: Sequence[str]) -> int:
    """Runs the program, as `python script.py args...` would, and writes its page."""
    parser = commands.Parser(
        prog="python -m tritorch profile",
        description="Run a program, whose `import torch` gives tritorch, and write what it did as "
        "one page for a browser: time line, operators, modules, lines, idle time, memory.",
    )
    parser.add_argument("-o", "--out", help="the page; script.profile.html if it is not given")
    parser.add_argument("--trace", help="also a trace for Perfetto; .json, .json.gz or .pftrace")
    parser.add_argument("--no-memory", action="store_true", help="leave memory out")
    parser.add_argument(
        "--most-events", type=int, default=_MOST_EVENTS,
        help="nothing is written down after so many of a thread (%(default)s)",
    )  # fmt: skip
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module; args")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="script.py; args")
    given = parser.parse_args(arguments)
    program = given.program if given.module is None else ["-m", *given.module]
    if not program:
        parser.error("a program is needed")
    name = os.path.basename(program[1 if program[0] == "-m" and program[1:] else 0])
    out = given.out or f"{os.path.splitext(name)[0]}.profile.html"
    try:
        commands.program(program)
        for file in filter(None, (out, given.trace)):
            commands.writable(file)
    except commands.Refused as error:
        parser.error(str(error))
    wanted = Options(
        shapes=True, memory=not given.no_memory, stacks=True, modules=True,
        device=_C.device_count() > 0,
    )  # fmt: skip
    recorder = Recorder(wanted, lends=True)  # to the program's own profiles
    recorder.start()
    events.limit(given.most_events)
    try:
        return running.run(program)
    finally:
        recording = recorder.stop()
        data = write_page(recording, out, f"{name} {' '.join(program[1:])}".strip())
        if given.trace:
            write_trace(recording, given.trace, {}, {})
        size = os.path.getsize(out) / 1e6
        print(
            f"{out}: {data['events']} events, {data['kernels']} kernels, {size:.1f} MB",
            file=sys.stderr,
        )
