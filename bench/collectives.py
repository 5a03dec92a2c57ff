"""Collectives of the gloo backend beside torch's, in turn on the same processes.

    python bench/collectives.py [--torch PYTHON] [--ranks 2 4] [--rounds 5] [--json FILE]

PYTHON is an interpreter that has torch.  Each side keeps its processes for the whole run; for every
collective and size the two take turns, and the ratio is of the medians: above 1, ours is faster.
"asynchronous" is what a call of all_reduce with async_op=True takes of the host until it returns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ASYNCHRONOUS = (1 << 10, 1 << 20)  # bytes
COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all")
SIZES = (8, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26)


def call_of(dist, torch, name, count, size):
    """One call of a collective whose largest tensor has that many float32."""
    x = torch.ones(count)
    part = max(1, count // size)
    if name == "all_reduce":
        return lambda: dist.all_reduce(x)
    if name == "broadcast":
        return lambda: dist.broadcast(x, 0)
    if name == "all_gather":
        outs, mine = [torch.zeros(part) for _ in range(size)], torch.ones(part)
        return lambda: dist.all_gather(outs, mine)
    if name == "reduce_scatter":
        ins, out = [torch.ones(part) for _ in range(size)], torch.zeros(part)
        return lambda: dist.reduce_scatter(out, ins)
    ins, outs = torch.ones(part * size), torch.zeros(part * size)
    return lambda: dist.all_to_all_single(outs, ins)


def serve():
    """A rank: does what its input says, and says how long it took."""
    library = __import__(sys.argv[2])
    dist = __import__(f"{sys.argv[2]}.distributed").distributed
    if hasattr(library, "set_num_threads"):
        library.set_num_threads(1)
    dist.init_process_group("gloo")
    for line in sys.stdin:
        name, count, repeats = json.loads(line)
        if name == "asynchronous":
            print(statistics.median(begun(dist, library, count, repeats)), flush=True)
            continue
        call = call_of(dist, library, name, count, dist.get_world_size())
        call()
        dist.barrier()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        print((time.perf_counter() - start) / repeats, flush=True)


def begun(dist, torch, count, repeats):
    """How long all_reduce takes to begin, each time after the one before is over."""
    x, times = torch.ones(count), []
    for _ in range(repeats):
        start = time.perf_counter()
        work = dist.all_reduce(x, async_op=True)
        times.append(time.perf_counter() - start)
        work.wait()
    return times


class Side:
    """The ranks of one library."""

    def __init__(self, python, library, size, port):
        self.ranks = [
            subprocess.Popen(
                [python, __file__, "--serve", library],
                env=os.environ
                | {
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "OMP_NUM_THREADS": "1",
                },
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for rank in range(size)
        ]

    def time(self, *task):
        for rank in self.ranks:
            rank.stdin.write(json.dumps(task) + "\n")
            rank.stdin.flush()
        return max(float(rank.stdout.readline()) for rank in self.ranks)

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
            rank.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default=sys.executable, help="an interpreter that has torch")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--json", type=Path, help="where all is written")
    args = parser.parse_args()
    rows = []
    for size in args.ranks:
        port = 20000 + os.getpid() % 20000
        ours = Side(sys.executable, "tritorch", size, port)
        theirs = Side(args.torch, "torch", size, port + 1)
        print(f"{size} ranks: ours / torch in us, and the ratio torch : ours")
        cases = [(name, length) for name in COLLECTIVES for length in args.sizes]
        for name, length in (*cases, *(("asynchronous", length) for length in ASYNCHRONOUS)):
            repeats = max(1, min(200, (1 << 22) // length))
            times = [
                [side.time(name, length // 4, repeats) for side in (ours, theirs)]
                for _ in range(args.rounds)
            ]
            mine, other = (statistics.median(column) for column in zip(*times, strict=True))
            rows.append({
                "ranks": size, "collective": name, "bytes": length, "us": round(mine * 1e6, 1),
                "torch us": round(other * 1e6, 1), "torch : ours": round(other / mine, 2),
            })  # fmt: skip
            print(
                f"{name:16}{length:>10} B {mine * 1e6:>11.1f} {other * 1e6:>11.1f} "
                f"{other / mine:>7.2f}",
                flush=True,
            )
        ours.close()
        theirs.close()
    if args.json:
        lines = ",\n".join(json.dumps(row) for row in rows)
        args.json.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    serve() if sys.argv[1:2] == ["--serve"] else main()
