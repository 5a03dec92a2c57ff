"""Runs random programs with torch and with tritorch, and shrinks those that differ.

    python tools/compare/operators.py --chains 20000 --programs 5000
    python tools/compare/operators.py --chains 3000 --seed 7 --only strides
    python tools/compare/operators.py --chains 400 --record tests/expressions/chains.json
    python tools/compare/operators.py --record tests/expressions/histories.json

Runs under an interpreter that has torch 2.13 beside tritorch.  Chains are expressions of tensors of
all dtypes; programs are expressions with gradients.  Both are drawn from templates
(tools/differential), statement by statement, run in both libraries at once, and compared in status,
exception type, dtype, shape, strides, storage offset, value and what autograd says of them.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import random
import re
import sys
import time
import warnings
from typing import Any

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import tritorch  # noqa: E402
from tests.expressions import programs  # noqa: E402
from tools.differential import chains, gradients, lockstep, mended, shrink  # noqa: E402
from tools.differential.draw import Draw  # noqa: E402

STATEMENT = ("] = ", " += ", " -= ", " *= ", " /= ", "with ")
# Left out of what is recorded: uninitialised memory, and results that depend on the processor.
UNRECORDED = ("empty", "rand", "resize_", "inf", "nan")
LENGTH = {False: (2, 9), True: (4, 14)}


def drawn(family: Any, seed: int, *, grad: bool) -> tuple[list[str], Any]:
    """A program of one seed, run while it is drawn: its statements, and the first difference."""
    rng = random.Random(seed)
    draw = Draw(rng, torch, grad=grad)
    pair = lockstep.Pair(torch, tritorch)
    for _ in range(rng.randint(*LENGTH[grad])):
        draw.pending = []
        template = family.template(rng)
        text = draw.fill(template)
        if template.startswith("with ") or any(sign in template for sign in STATEMENT):
            lines = [text]
        else:
            lines = [f"{draw.new_name()} = {text}"]
        for statement in [*draw.pending, *lines]:
            draw.statements.append(statement)
            ends, found = lockstep.run(pair, statement)
            if ends or found:
                return draw.statements, found
        draw.tensors = _tensors(pair.theirs)
        if sum(t.numel() for t in draw.tensors.values()) > 4000:
            break
    for statement in gradients.ending(draw.tensors) if grad else ():
        draw.statements.append(statement)
        error, found = pair.step(statement)
        if found or error:
            return draw.statements, found
    return draw.statements, pair.compare_all(draw.statements[-1])


def _tensors(names: dict[str, Any]) -> dict[str, Any]:
    """The tensors among variables, those in tuples apart from them."""
    return {
        name: value
        for name, value in names.items()
        if name[0] == "v" and isinstance(value, torch.Tensor) and value.numel() < 300
        if programs.show(value).get("python") != "error"
    }


def report(groups: dict[Any, list[Any]], n: int, shown: int) -> None:
    """The kinds of differences, the most frequent first, each with its shortest program."""
    total = sum(map(len, groups.values()))
    for (operator, what), items in sorted(groups.items(), key=lambda item: -len(item[1]))[:shown]:
        seed, statements, found = min(items, key=lambda item: sum(map(len, item[1])))
        print(f"\n# {len(items)} x  {operator}: {what}   (seed {seed})")
        print("\n".join(f"    {line}" for line in statements))
        print(f"    # at: {found.statement[:200]}")
        if found.ours is not None:
            print(f"    # ours:  {_short(found.ours)}\n    # torch: {_short(found.theirs)}")
    print(f"\n{total} of {n} differ: {100 * total / max(n, 1):.2f}%, of {len(groups)} kinds")
    words = collections.Counter()
    for (_, what), items in groups.items():
        words[what] += len(items)
    print("  ".join(f"{what}: {count}" for what, count in words.most_common()))


def brief(groups: dict[Any, list[Any]]) -> None:
    """A line for each kind: the statement, and what its variables are."""
    for (operator, what), items in sorted(groups.items(), key=lambda item: -len(item[1])):
        for seed, statements, found in items[:2]:
            names = programs.namespace(torch)
            for statement in statements[:-1]:
                programs.step(statement, names)
            used = dict.fromkeys(re.findall(r"\bv\d+\b", found.statement))
            shown = [f"{v} {_geometry(names[v])}" for v in used if v in names]
            text = found.statement if len(found.statement) < 200 else found.statement[:200] + "..."
            print(f"{len(items):4} {operator}: {what} | {text} | {'; '.join(shown)} | {seed}")


def _geometry(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype)[6:]}{list(value.shape)}{list(value.stride())}"


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) < 400 else text[:397] + "..."


def search(family: Any, n: int, args: Any, *, grad: bool) -> dict[Any, list[Any]]:
    """Draws n programs; the differing ones shrunk, by kind."""
    groups: dict[Any, list[Any]] = collections.defaultdict(list)
    start = time.time()
    for i in range(n):
        seed = args.seed * 1_000_000 + i
        statements, found = drawn(family, seed, grad=grad)
        if found is None or args.only not in " ".join(found.kind):
            continue
        key = found.kind
        if len(groups[key]) < 3 and not args.fast:
            statements, found = shrink.shrunk(torch, tritorch, statements, found)
        groups[key].append((seed, statements, found))
    print(f"{n} programs in {time.time() - start:.0f} s", file=sys.stderr)
    return groups


def record(path: str, n: int, first: int) -> None:
    """Writes torch's results of programs that once differed, and of n random chains."""
    once = mended.programs(pathlib.Path(path).stem)
    cases = [(statements, programs.run(torch, statements)) for statements in once]
    seed = first * 1_000_000
    while n:
        seed += 1
        statements, found = drawn(chains, seed, grad=False)
        if found or any(word in line for line in statements for word in UNRECORDED):
            continue
        results = programs.run(torch, statements)
        ours = programs.run(tritorch, statements)
        same = all(programs.same(a, b) for a, b in zip(ours, results))
        text = json.dumps([statements, results])
        if same and len(text) < 1600 and len(statements) > 3:
            cases.append((statements, results))
            n -= 1
    lines = ",\n".join(json.dumps([a, programs.short(b)]) for a, b in cases)
    pathlib.Path(path).write_text(f"[\n{lines}\n]\n")
    print(f"{len(cases)} programs, torch {torch.__version__}")


def main() -> int:
    text = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=text)
    parser.add_argument("--chains", type=int, default=0)
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds whose name has this in it")
    parser.add_argument("--shown", type=int, default=400, help="kinds to print")
    parser.add_argument("--brief", action="store_true", help="a line for each kind")
    parser.add_argument("--fast", action="store_true", help="do not shrink")
    parser.add_argument("--record", help="write the programs with torch's results into a file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    failed = 0
    if args.record:
        record(args.record, args.chains, args.seed)
        return 0
    if args.chains:
        groups = search(chains, args.chains, args, grad=False)
        if args.brief:
            brief(groups)
        report(groups, args.chains, 0 if args.brief else args.shown)
        failed += sum(map(len, groups.values()))
    if args.programs:
        groups = search(gradients, args.programs, args, grad=True)
        if args.brief:
            brief(groups)
        report(groups, args.programs, 0 if args.brief else args.shown)
        failed += sum(map(len, groups.values()))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
