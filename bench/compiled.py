"""What `compile` costs and gains on the CPU, beside the same code without it.

    python bench/compiled.py [--threads 2] [--rounds 9] [--json [PATH]] [--only host ...]
    python bench/compiled.py --torch     # PyTorch's own figures, in an interpreter that has it

Both sides run in one process, in turn, round by round; a figure is the median of the rounds, a
ratio the median of the rounds' ratios.  `host` counts what following costs: a GPT as deep as GPT-2,
so narrow that the arithmetic is small beside Python.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tritorch.bench import beside, machine
from tritorch.bench.models import gpt, initialise, trainer

RESULTS = Path(__file__).parent / "results" / "compiled.json"
CHAINS = 5_000_000  # elements
TRAINED: dict[str, dict[str, Any]] = {
    "gpt": {}, "mlp": {}, "transformer": {}, "lstm": {}, "cnn": {},
}  # fmt: skip
# So small that Python is most of it.
SMALL: dict[str, dict[str, Any]] = {
    "gpt": {"batch": 1, "length": 16}, "mlp": {"batch": 8, "width": 64},
    "transformer": {"batch": 1, "length": 16}, "lstm": {"batch": 2, "length": 8},
    "cnn": {"batch": 2, "side": 16},
}  # fmt: skip
SECTIONS = ("host", "chains", "train", "small")
# Twelve layers, as GPT-2 124M has them, of 24 numbers.
NARROW = {"layers": 12, "width": 24, "heads": 12, "words": 32, "batch": 1, "length": 4}
WARM = 6  # runs until every way through a program is planned

Run = Callable[[], Any]
# With one thread the processor's time of this process: others may run beside it.
CLOCKS = {True: time.process_time, False: time.perf_counter}
clock = time.perf_counter


def timed(run: Run, count: int = 1) -> float:
    """Seconds a call."""
    start = clock()
    for _ in range(count):
        run()
    return (clock() - start) / count


def in_turn(runs: dict[str, Run], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Seconds a call of each, of interleaved rounds that take so long."""
    for run in runs.values():
        for _ in range(WARM):
            run()
    counts = {name: max(1, int(seconds / timed(run))) for name, run in runs.items()}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            taken[name].append(timed(run, counts[name]))
    return taken


def beside_eager(eager: Run, compiled: Run, rounds: int, seconds: float, unit: float) -> Any:
    """A row of the report: both times and eager's over the compiled one's."""
    taken = in_turn({"eager": eager, "compiled": compiled}, rounds, seconds)
    row = {name: round(statistics.median(x) / unit, 4) for name, x in taken.items()}
    ratios = [a / b for a, b in zip(taken["eager"], taken["compiled"])]
    row["times as fast"] = round(statistics.median(ratios), 3)
    return row


# ---- host ----------------------------------------------------------------------------------------


def one_operator(t: Any, rounds: int) -> Any:
    """A compiled function of one operator, in microseconds."""
    a, b = t.ones(16), t.ones(16)
    wanting = t.ones(16, requires_grad=True)
    plain = lambda a, b: a + b
    report = {}
    for name, given in {"a + b": (a, b), "a + b with grad": (wanting, b)}.items():
        fast = t.compile(plain)
        eager = lambda given=given: plain(*given)
        compiled = lambda fast=fast, given=given: fast(*given)
        report[name] = beside_eager(eager, compiled, rounds, 0.05, 1e-6)
    return report


@contextlib.contextmanager
def constants(calls: list[Any], results: dict[int, Any]) -> Iterator[None]:
    """Inside, each of the public functions gives what it gave first, whatever it is called with."""
    stand_ins = {id(c.gate): c.gate for c in calls}
    answers = {}
    for key in stand_ins:
        answers[key] = lambda *args, _result=results[key], **kwargs: _result
    places = []
    owners = [m for name, m in list(sys.modules.items()) if name.startswith("tritorch") and m]
    owners.append(importlib.import_module("tritorch").Tensor)
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if id(value) in stand_ins:
                places.append((owner, name, value))
    try:
        for owner, name, value in places:
            setattr(owner, name, answers[id(value)])
        yield
    finally:
        for owner, name, value in places:
            setattr(owner, name, value)


def following(t: Any, rounds: int) -> Any:
    """What a followed call costs in a GPT's forward pass, in microseconds, beside the floor: the
    same Python with operators that give constants."""
    import numpy as np

    from tritorch import _C
    from tritorch.compilation.follow.regions import Follower, Options

    random = np.random.default_rng(0)
    model, _, _ = gpt(t, random, **NARROW)
    initialise(t, model, random)
    ids = t.zeros(NARROW["batch"], NARROW["length"], dtype=t.int64)
    forward = lambda: model(ids)
    report: dict[str, Any] = {}
    with t.no_grad():
        follower = Follower(forward, Options())
        eager = min(timed(forward) for _ in range(20))
        capture = timed(follower)
        later = [timed(follower) for _ in range(3)]
        report["capture, in eager runs"] = round(capture / eager, 2)
        report["second and third run, in eager runs"] = [round(x / eager, 2) for x in later[:2]]
        calls = follower.segments[0].calls
        report["calls"] = len(calls)
        kept: dict[int, Any] = {}
        original = {id(c.gate): c.gate for c in calls}
        found = _first_results(t, forward, original)
        kept.update(found)
        parts: dict[str, list[float]] = {"floor": [], "follow": [], "program": [], "eager": []}
        for _ in range(rounds * 20):
            region = _C.Region(follower.trace_tree, follower)
            region.enter()
            start = time.perf_counter()  # the other clock is a system call
            result = forward()
            middle = time.perf_counter()
            region.leave()
            end = time.perf_counter()
            del result
            parts["follow"].append(middle - start)
            parts["program"].append(end - middle)
            parts["eager"].append(timed(forward))
        with constants(calls, kept):
            for _ in range(rounds * 20):
                start = time.perf_counter()
                forward()
                parts["floor"].append(time.perf_counter() - start)
    median = {name: statistics.median(x) * 1e6 for name, x in parts.items()}
    report |= {
        "eager": round(median["eager"], 1),
        "following": round(median["follow"], 1),
        "program": round(median["program"], 1),
        "floor": round(median["floor"], 1),
        "a followed call above the floor": round(
            (median["follow"] - median["floor"]) / len(calls), 4
        ),
    }
    return report


def _first_results(t: Any, forward: Run, gates: dict[int, Any]) -> dict[int, Any]:
    """What each public function of a program gives first."""
    from tritorch.compilation.follow import regions

    found: dict[int, Any] = {}
    follower = regions.Follower(forward, regions.Options())
    learn = regions._learn

    def noted(region: Any, gate: Any, args: Any, kwargs: Any) -> Any:
        result = learn(region, gate, args, kwargs)
        found.setdefault(id(gate), result)
        return result

    from tritorch import _C

    _C.set_following_handlers(noted, *regions.HANDLERS[1:])
    try:
        follower()
    finally:
        _C.set_following_handlers(*regions.HANDLERS)
    return found


def passes(t: Any, rounds: int) -> Any:
    """A forward pass without gradients, and both passes, of the narrow GPT, in microseconds."""
    import numpy as np

    report = {}
    runs: dict[str, dict[str, Run]] = {"forward": {}, "both": {}}
    for kind in ("eager", "compiled"):
        random = np.random.default_rng(0)
        model, _, loss_of = gpt(t, random, **NARROW)
        initialise(t, model, random)
        loss = t.compile(loss_of) if kind == "compiled" else loss_of
        runs["forward"][kind] = t.no_grad()(loss)
        runs["both"][kind] = lambda loss=loss: loss().backward()
    for name, pair in runs.items():
        report[name] = beside_eager(pair["eager"], pair["compiled"], rounds, 0.1, 1e-6)
    return report


# ---- chains --------------------------------------------------------------------------------------


def chains(t: Any, rounds: int) -> Any:
    """Five pointwise operators over five million elements, in milliseconds."""
    x, y, z = (t.rand(CHAINS) + 0.5 for _ in range(3))
    functions: dict[str, Callable[..., Any]] = {
        "arithmetic": lambda x, y, z: (x * y + z) * x - y / 2,
        "exp, tanh, sigmoid": lambda x, y, z: t.sigmoid(t.tanh(x) * t.exp(-y)) + z,
        "where, comparison": lambda x, y, z: t.where(x > y, x * z, y - z) * 2.0,
        "gelu by hand": lambda x, y, z: x * 0.5 * (1 + t.erf(x * 0.7071)),
        "in place": lambda x, y, z: (x + y).mul_(z).add_(1.0).clamp_(0, 2).sqrt_(),
    }
    report = {}
    with t.no_grad():
        for name, function in functions.items():
            fast = t.compile(function)
            plain = function(x, y, z)
            for _ in range(WARM):
                again = fast(x, y, z)
            assert (again - plain).abs().max().item() < 1e-5, name
            eager = lambda function=function: function(x, y, z)
            compiled = lambda fast=fast: fast(x, y, z)
            report[name] = beside_eager(eager, compiled, rounds, 0.2, 1e-3)
    return report


# ---- training ------------------------------------------------------------------------------------


def train(t: Any, rounds: int, sizes: dict[str, dict[str, Any]]) -> Any:
    """Whole training steps of which the loss is compiled, in milliseconds."""
    report = {}
    for name, given in sizes.items():
        clipped = name == "gpt"
        eager = trainer(t, name, clipped=clipped, **given)
        compiled = trainer(t, name, clipped=clipped, compiled=True, **given)
        for _ in range(WARM):
            a, b = eager().item(), compiled().item()
            assert abs(a - b) <= 1e-4 * abs(a), (name, a, b)
        report[name] = beside_eager(eager, compiled, 4 * rounds, 0.05, 1e-3)
    return report


# ---- report --------------------------------------------------------------------------------------


def geometric_mean(rows: Any) -> float:
    """Of how many times as fast the compiled side is."""
    return round(statistics.geometric_mean(row["times as fast"] for row in rows.values()), 3)


def show(rows: Any, unit: str) -> None:
    """Rows as text."""
    for name, row in rows.items():
        print(
            f"  {name:22} eager {row['eager']:10.3f} {unit}  compiled {row['compiled']:10.3f} "
            f"{unit}  {row['times as fast']:.2f} times as fast",
            flush=True,
        )


def measure(t: Any, sections: list[str], rounds: int, ours: bool) -> dict[str, Any]:
    """The report; `ours`: the parts that look inside."""
    report: dict[str, Any] = {}
    if "host" in sections:
        report["one operator, us"] = one_operator(t, rounds)
        show(report["one operator, us"], "us")
        if ours:
            report["a GPT of 12 layers, us"] = following(t, rounds)
            for name, value in report["a GPT of 12 layers, us"].items():
                print(f"  {name:40} {value}")
        report["its passes, us"] = passes(t, rounds)
        show(report["its passes, us"], "us")
    if "chains" in sections:
        report["chains, ms"] = chains(t, rounds)
        show(report["chains, ms"], "ms")
    for section, title, sizes in (
        ("train", "training steps, ms", TRAINED), ("small", "small training steps, ms", SMALL),
    ):  # fmt: skip
        if section in sections:
            rows = report[title] = train(t, rounds, sizes)
            show(rows, "ms")
            mean = report[f"geometric mean of {title.partition(',')[0]}"] = geometric_mean(rows)
            print(f"  geometric mean {mean}")
    return report


def _restart(threads: int) -> None:
    """Begins again with BLAS's number of threads, and without what holds a library back."""
    wanted = {k: v for k, v in os.environ.items() if k not in beside.PRESCRIBED}
    wanted |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], wanted)


def main() -> None:
    """Prints, and on request writes, the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", nargs="?", const=RESULTS, type=Path)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--torch", action="store_true", help="PyTorch's figures in place of ours")
    options = parser.parse_args()
    _restart(options.threads)
    t = importlib.import_module("torch" if options.torch else "tritorch")
    t.set_num_threads(options.threads)
    global clock
    clock = CLOCKS[options.threads == 1]
    report = measure(t, options.only, options.rounds, not options.torch)
    if options.json:
        found = {
            **report,
            "threads": options.threads,
            "clock": clock.__name__,
            "machine": machine.describe("cpu"),
        }
        if options.torch:  # beside ours, which were measured before
            whole = json.loads(options.json.read_text()) if options.json.exists() else {}
            found = {**whole, "torch": found}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
