"""The time that drawing a million numbers takes, and ten, of every kind and dtype, on the CPU.

    python bench/random_draws.py [--json PATH] [--against PATH] [--only WORD] [--threads N]

PyTorch is measured beside tritorch where this interpreter has it.  `--against` compares with an
earlier run's file and says what takes longer than 1.3 of its time (a million) or 1.2 (ten).
bench/results/random_draws.json has the times before the CPU's numbers became PyTorch's, drawn by
NumPy, and after, measured in turn on one machine.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import timeit
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.core.draws import DRAWS, Draw

SIZES = {1_000_000: 1.3, 10: 1.2}  # how many numbers, and which share of the earlier time is fine
ROUNDS, SECONDS = 7, 0.02


def clock(draw: Draw, torch: Any, n: int, dtype: str) -> float | None:
    """Microseconds: the least of several rounds, which others on the machine disturb least."""
    kind = getattr(torch, dtype)
    given = draw.given(torch, n, kind)
    timer = timeit.Timer(lambda: draw.call(torch, n, kind, *given))
    try:
        number = max(1, int(SECONDS / max(timer.timeit(1), timer.timeit(1))))
    except (RuntimeError, NotImplementedError, TypeError):
        return None  # not for this dtype
    return min(timer.repeat(ROUNDS, number)) / number * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="PATH", help="write the results here")
    parser.add_argument("--against", metavar="PATH", help="an earlier run's results")
    parser.add_argument("--only", default="", help="kinds whose name has this")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    libraries = {"tritorch": importlib.import_module("tritorch")}
    if importlib.util.find_spec("torch"):
        libraries["torch"] = importlib.import_module("torch")
    if options.threads:
        for module in libraries.values():
            module.set_num_threads(options.threads)
    earlier = json.loads(Path(options.against).read_text()) if options.against else {}
    earlier = earlier.get("before", earlier)
    report: dict[str, dict[str, float]] = {}
    slower = []
    for draw in DRAWS:
        if options.only not in draw.name:
            continue
        for dtype in draw.dtypes:
            for n, limit in SIZES.items():
                case = f"{draw.name} {dtype} {n}"
                row = {key: clock(draw, module, n, dtype) for key, module in libraries.items()}
                report[case] = {key: round(value, 3) for key, value in row.items() if value}
                line = f"{case:48}" + "".join(
                    f" {key} {v:12.2f}" for key, v in report[case].items()
                )
                before = earlier.get(case, {}).get("tritorch")
                if before and "tritorch" in report[case]:
                    share = report[case]["tritorch"] / before
                    line += f"  {share:6.2f} of {before:.2f}"
                    if share > limit:
                        slower.append(line)
                print(line, flush=True)
    if earlier:
        print(f"\n{len(slower)} of {len(report)} take longer:", *slower, sep="\n")
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
