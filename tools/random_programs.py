"""Random programs, compiled beside eager: long runs of what tests run a few hundred of.

    python tools/random_programs.py --count 20000 [--start N] [--simulated] [--growing] [--jobs 2]
    python tools/random_programs.py --count 2000 --simulated --near 1e-5   kernels that round less
    python tools/random_programs.py --show SEED       prints one program, and what differs
    python tools/random_programs.py --count 2000 --compiler drops_buffers      a wrong compiler

Prints how many programs and calls ran, how many programs have each feature, and each failure in its
smallest form.  The exit status says whether anything differed.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # behind the package that is installed
PORTION = 100


@dataclass
class Counted:
    """What a run of seeds has come to."""

    programs: int = 0
    calls: int = 0
    raising: int = 0  # programs with an error that nobody put there
    deliberate: int = 0
    backward: int = 0  # programs whose backward pass raised
    seconds: list[float] = field(default_factory=list)
    features: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    failing: list[int] = field(default_factory=list)

    def add(self, other: Counted) -> None:
        """Adds what another run has come to."""
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


def compiler_of(name: str) -> Any:
    """torch.compile, as it is or in the mode of a name, or the wrong compiler of a name."""
    import tritorch
    from tests.compile.generated.wrong_compilers import COMPILERS

    if name in COMPILERS:
        return COMPILERS[name][0]
    return functools.partial(tritorch.compile, mode=name or None)


def count(
    seeds: range, device: str, compiler: str, rounds: int, growing: bool, near: float
) -> Counted:  # fmt: skip
    """Runs the programs of some seeds, with all their calls a number of times."""
    from tests.compile.generated.comparing import compare
    from tests.compile.generated.random_programs import generate
    from tests.compile.generated.worlds import observe

    counted = Counted()
    for seed in seeds:
        program = generate(seed, growing)
        program = program.but(calls=program.calls * rounds)
        start = time.perf_counter()
        eager = observe(program, None, device)
        counted.seconds.append(time.perf_counter() - start)
        counted.programs += 1
        counted.calls += len(program.calls)
        counted.deliberate += program.deliberate
        counted.features.update({name for name, times in program.features.items() if times})
        errors = [call["error"] for call in eager[:-1] if call["error"]]
        own = [error for error in errors if error[0] != " "]
        if own and not program.deliberate:
            counted.raising += 1
            counted.errors[own[0].partition("\n")[0][:100]] += 1
        counted.backward += any(" backward: " in error for error in errors)
        if compare(program, compiler_of(compiler), device, eager, near):
            counted.failing.append(seed)
    return counted


def small(
    seed: int, device: str, compiler: str, rounds: int, shrink: bool, growing: bool, near: float
) -> str:  # fmt: skip
    """A failing program in its smallest form, with what differs."""
    from tests.compile.generated.comparing import report
    from tests.compile.generated.random_programs import generate

    program = generate(seed, growing)
    program = program.but(calls=program.calls * rounds)
    return report(program, compiler_of(compiler), device, shrink, near)


def main() -> int:
    """Runs, and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--simulated", action="store_true", help="on the simulated GPU")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--rounds", type=int, default=1, help="how often to make the four calls")
    parser.add_argument("--growing", action="store_true", help="eight calls of other sizes")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the program of a seed")
    parser.add_argument(
        "--compiler",
        default="",
        help="a mode of torch.compile, or one of tests/compile/generated/wrong_compilers",
    )
    parser.add_argument("--near", type=float, default=0.0, help="how near floats have to be")
    parser.add_argument("--failures", type=int, default=5, help="how many failures to print")
    parser.add_argument("--whole", action="store_true", help="print failures as they are")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if options.simulated:
        os.environ.setdefault("TRITORCH_SIMULATE_CUDA", "1")
    device = "cuda" if options.simulated else "cpu"
    how = {
        "device": device, "compiler": options.compiler, "rounds": options.rounds,
        "growing": options.growing, "near": options.near,
    }  # fmt: skip
    shrunk = functools.partial(small, shrink=not options.whole, **how)
    if options.show is not None:
        print(shrunk(options.show))
        return 0
    last = options.start + options.count
    portions = [
        range(first, min(first + PORTION, last)) for first in range(options.start, last, PORTION)
    ]
    total, start = Counted(), time.perf_counter()
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        running = [pool.submit(count, seeds, **how) for seeds in portions]
        for done, future in enumerate(as_completed(running)):
            total.add(future.result())
            if sys.stderr.isatty():
                print(f"\r{done + 1}/{len(portions)}", end="", file=sys.stderr)
        shown = sorted(total.failing)[: options.failures]
        reports = list(pool.map(shrunk, shown))
    print(
        f"{total.programs} programs, {total.calls} calls in {time.perf_counter() - start:.0f} s on "
        f"{device}; eager {1e3 * statistics.median(total.seconds):.1f} ms a program"
    )
    print(
        f"{total.deliberate} with errors on purpose, {total.raising} with others, "
        f"{total.backward} whose backward pass raises"
    )
    print("programs with each feature:")
    print("  " + ", ".join(f"{name} {number}" for name, number in total.features.most_common()))
    print("errors that were not meant:")
    for name, number in total.errors.most_common(10):
        print(f"  {number} {name}")
    print(
        f"{len(total.failing)} failures"
        + (f": seeds {sorted(total.failing)[:50]}" if shown else "")
    )
    for text in reports:
        print("\n" + "-" * 100 + "\n" + text)
    return bool(total.failing)


if __name__ == "__main__":
    sys.exit(main())
