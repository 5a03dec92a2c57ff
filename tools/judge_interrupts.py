"""Interrupts training loops at every place at which a Ctrl-C can arrive, and at random times.

    python tools/judge_interrupts.py [PROGRAM ...] [--most N] [--cold N] [--timed N] [--seed N]

Each interrupt must leave all that is set as it was, and later runs must give the same numbers.
--most: how many places of each program (all by default); --cold: how many of its first run, in
which compiled programs are made; --timed: how many by a timer.  The exit status says whether all
passed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # behind the package that is installed


def main() -> int:
    """Runs the judge, and prints a line for each program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--most", type=int, default=None)
    parser.add_argument("--cold", type=int, default=0)
    parser.add_argument("--timed", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=12, help="kinds of failures that are printed")
    given = parser.parse_args()
    os.environ.setdefault("TRITORCH_SIMULATE_CUDA", "1")
    from tests.interrupts.judging import judge, judge_timed
    from tests.interrupts.programs import PROGRAMS

    interrupts = failures = 0
    for name in given.programs or PROGRAMS:
        verdicts = [judge(name, given.most, seed=given.seed)]
        if given.cold:
            verdicts.append(judge(name, given.cold, cold=True, seed=given.seed))
        if given.timed:
            verdicts.append(judge_timed(name, given.timed, given.seed))
        for verdict in verdicts:
            interrupts += verdict.interrupts
            failures += len(verdict.failures)
            print(
                f"{verdict.program:32} {verdict.places:7} places {verdict.interrupts:6} interrupts "
                f"{len(verdict.failures):5} failures",
                flush=True,
            )
            kinds = Counter(what for _, what in verdict.failures)
            first = {what: place for place, what in reversed(verdict.failures)}
            for what, times in kinds.most_common(given.show):
                print(f"    {times} x (place {first[what]}) {what[:600]}")
    print(f"{interrupts} interrupts, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
