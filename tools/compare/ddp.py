#!/usr/bin/env python3
"""Train the character GPT on several processes, and compare its losses with one process's.

    python tools/compare/ddp.py                              # CPU: 1, 2, 4 and 8 processes
    python tools/compare/ddp.py --device cuda --runs 20      # the simulated GPU, 20 adversaries

Each line: how far the losses are from one process's (1e-5 is allowed), and whether all runs, on the
simulated GPU each with its own seed of the adversary in each process, end with the same bits.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.distributed.processes import Ranks

ALLOWED = 1e-5


def told(text: str) -> list[dict]:
    """The lines of JSON that rank 0 has printed."""
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"way"')]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--runs", type=int, default=2, help="of which all must have the same bits")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--limit", type=int, default=1800, help="seconds for one size")
    parser.add_argument("--ways", nargs="+", default=["eager", "compiled"])
    args = parser.parse_args()
    wrong = 0
    variables = {"TRITORCH_SIMULATE_CUDA": "1"} if args.device == "cuda" else {}
    for size in args.sizes:
        began = time.monotonic()
        ranks = Ranks(
            "gpt_program.py", size, args.device, args.steps, args.runs, *args.ways, **variables
        )
        found = told(ranks.succeed(args.limit)[0])
        for line in found:
            wrong += not (line["bitwise"] and line["off"] <= ALLOWED)
            print(
                f"{args.device}, {size} processes, {line['way']:8}: off by {line['off']:.1e}, "
                f"{args.runs} runs with {'the same' if line['bitwise'] else 'OTHER'} bits",
                flush=True,
            )
        wrong += len(found) != len(args.ways)
        print(f"   {time.monotonic() - began:.0f} s", flush=True)
    print(f"{wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
