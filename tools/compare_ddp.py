#!/usr/bin/env python3
"""Train the character GPT on several processes, and compare its losses with one process's.

    python tools/compare_ddp.py                              # CPU: 1, 2, 4 and 8 processes
    python tools/compare_ddp.py --device cuda --seeds 20     # the simulated GPU, 20 adversaries

Each line: how far the losses are from one process's (1e-5 is allowed), and whether a second run in
the same processes has the first one's bits.  The losses of seeds must be the same to the bit, too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
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
    parser.add_argument("--seeds", type=int, default=1, help="of the simulated device")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--ways", nargs="+", default=["eager", "compiled"])
    args = parser.parse_args()
    wrong, losses = 0, {}
    for size in args.sizes:
        for seed in range(args.seeds):
            began = time.monotonic()
            variables = {}
            if args.device == "cuda":
                variables["TRITORCH_SIMULATE_CUDA"] = f"seed={seed}"
            ranks = Ranks("gpt_program.py", size, args.device, args.steps, *args.ways, **variables)
            found = told(ranks.succeed(600)[0])
            for line in found:
                same = losses.setdefault((size, line["way"]), line["loss"]) == line["loss"]
                good = same and line["bitwise"] and line["off"] <= ALLOWED
                wrong += not good
                print(
                    f"{args.device} {size} processes, seed {seed}, {line['way']:8}: "
                    f"off by {line['off']:.1e}, {'same bits' if line['bitwise'] else 'OTHER BITS'}"
                    f"{'' if same else ', OTHER LOSS THAN SEED 0'}",
                    flush=True,
                )
            wrong += len(found) != len(args.ways)
            print(f"   {time.monotonic() - began:.0f} s", flush=True)
    print(f"{wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
