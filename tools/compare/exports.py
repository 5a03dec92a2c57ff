#!/usr/bin/env python3
"""Export single operators here and in torch, save them, and load each in the other.

    python tools/compare/exports.py                  # 100 operators chosen at random
    python tools/compare/exports.py --all -v         # every operator of OpInfo, with failures
    python tools/compare/exports.py --ops '^nn' -v   # some

Run with an interpreter that has torch 2.13 and tritorch.  An operator counts in a direction where
every sample that was tried, exported and saved by the one, gives in the other what torch gives
eagerly.  What torch itself cannot export or save is left out of the count from torch, and told.
Random results are compared by shape and dtype.  Three processes do it, one after the other: torch's
that exports, ours, and torch's that loads.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TORCH_LOGS", "-export")
import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

if "ours" in sys.argv:  # torch's export and tritorch do not run beside each other
    import tritorch

warnings.filterwarnings("ignore")
# Operators that test PyTorch's own internals, and those whose values are drawn or left over.
NOT_OURS = re.compile(r"^(jiterator_|ops\.aten|torch\.ops\.aten|_native_|_segment_reduce|"
                      r"_upsample_|_unsafe_|_chunk_cat|_batch_norm|_softmax_backward|native_|_scaled_|torch\._scaled|chalf$"
                      r"|slice$|max_pool2d_with_indices_backward)")  # fmt: skip
DRAWN = re.compile(r"(^|\.)(rand|randn|randint|randn_like|rand_like|randint_like|randperm|normal|"
                   r"bernoulli|multinomial|uniform|exponential|cauchy|geometric|log_normal|empty|empty_like|new_empty|"
                   r"new_empty_strided|empty_strided|empty_permuted|dropout|dropout2d|dropout3d|"
                   r"alpha_dropout|feature_alpha_dropout|rrelu|fractional_max_pool2d|fractional_max_pool3d|svd_lowrank|"
                   r"pca_lowrank|resize_|resize_as_)$")  # fmt: skip
UP_TO_SIGN = re.compile(
    r"(^|\.)(svd|eig|eigh|qr|linalg\.svd|linalg\.eig|linalg\.eigh|linalg\.qr|geqrf)$"
)
SECONDS = 40  # that a direction of one operator may take


class Late(Exception):
    """A direction took too long."""


def ours(x: object) -> object:
    """A value of torch as one of tritorch."""
    if isinstance(x, torch.Tensor):
        return tritorch.from_numpy(x.detach().resolve_conj().resolve_neg().numpy(force=True))
    if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(tritorch, str(x).rpartition(".")[2])
    if isinstance(x, torch.device):
        return tritorch.device(str(x))
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(map(ours, x)) if not isinstance(x, torch.Size) else tritorch.Size(x)
    return {k: ours(v) for k, v in x.items()} if isinstance(x, dict) else x


def counterpart(op: object) -> object:
    """The function of tritorch that an OpInfo's is in torch."""
    if op.op.__name__ == "<lambda>" or not getattr(op.op, "__module__", "torch").startswith(
        "torch"
    ):
        world = {**op.op.__globals__, "torch": tritorch, "F": tritorch.nn.functional}
        return types.FunctionType(
            op.op.__code__, world, op.op.__name__, op.op.__defaults__, op.op.__closure__
        )
    for path in (op.name, f"Tensor.{op.name}", *(alias.name for alias in op.aliases)):
        found = tritorch
        for part in path.split("."):
            found = getattr(found, part, None)
        if callable(found):
            return found
    raise AttributeError(f"tritorch has no {op.name}")


def module_of(lib: object, function: object, args: tuple, kwargs: dict, tensor: type) -> tuple:
    """A module that calls a function with the tensors among its arguments as inputs; these."""
    found = []

    def out(x: object) -> object:
        if isinstance(x, tensor):
            found.append(x)
            return Place(len(found) - 1)
        if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
            return type(x)(map(out, x))
        return {k: out(v) for k, v in x.items()} if isinstance(x, dict) else x

    kept = out(args), out(kwargs)

    class Call(lib.nn.Module):
        def forward(self, *tensors: object) -> object:
            def back(x: object) -> object:
                if isinstance(x, Place):
                    return tensors[x.at]
                if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
                    return type(x)(map(back, x))
                return {k: back(v) for k, v in x.items()} if isinstance(x, dict) else x

            result = function(*back(kept[0]), **back(kept[1]))
            return tuple(result) if isinstance(result, (tuple, list)) else result

    return Call(), tuple(found)


class Place:
    """Where an input of the module goes."""

    def __init__(self, at: int) -> None:
        self.at = at


def arrays(x: object) -> list:
    """The tensors of a result as arrays of NumPy."""
    if isinstance(x, (list, tuple)):
        return [a for item in x for a in arrays(item)]
    if hasattr(x, "detach"):
        x = x.detach()
        if str(x.layout).rpartition(".")[2] != "strided":
            x = x.to_dense()
        return [np.asarray(x.resolve_conj().resolve_neg().numpy())]
    return [np.asarray(x)]


def difference(op: object, wanted: object, got: object) -> str:
    """In what two results are not the same; "" if they are."""
    a, b = arrays(wanted), arrays(got)
    if len(a) != len(b):
        return f"{len(b)} results for {len(a)}"
    for x, y in zip(a, b, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{y.dtype}{y.shape} for {x.dtype}{x.shape}"
        if DRAWN.search(op.name):
            continue
        if UP_TO_SIGN.search(op.name):
            x, y = abs(x), abs(y)
        if not np.allclose(x, y, 1e-4, 1e-4, equal_nan=True):
            return (
                f"values differ by {np.nanmax(np.abs(x.astype(complex) - y.astype(complex))):.2g}"
            )
    return ""


class Other(Exception):
    """The one that loads a file fails."""


def samples(op: object, count: int) -> Iterator[tuple]:
    """Samples of an operator that have tensors of the usual layout, the same in each process."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    left = count
    for s in op.sample_inputs("cpu", torch.float32):
        call = (s.input, *s.args), s.kwargs
        tensors = module_of(torch, None, *call, torch.Tensor)[1]
        if tensors and left and all(x.layout is torch.strided for x in tensors):
            left -= 1
            yield call, tensors


def limited(run: Callable[[], str]) -> str:
    """What is wrong with one try, in the time that it may take."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def write_torch(op: object, place: Path, count: int) -> dict[str, str]:
    """torch's exports and results; {"from": "-"} where torch has none."""
    said = ""
    for i, (call, tensors) in enumerate(samples(op, count)):

        def run(i: int = i, call: tuple = call, tensors: tuple = tensors) -> str:
            given = [x.clone() if isinstance(x, torch.Tensor) else x for x in call[0]]
            (place / f"{i}.wanted").write_bytes(pickle.dumps(arrays(op.op(*given, **call[1]))))
            module = module_of(torch, op.op, *call, torch.Tensor)[0]
            torch.export.save(torch.export.export(module, tensors), place / f"{i}.from.pt2")
            return ""

        said = said or limited(run)
    return {"from": "-" if said else ""}


def ours_of(op: object, place: Path, count: int) -> dict[str, str]:
    """What is wrong with torch's exports here; writes ours."""
    found = {"from": "", "to": ""}
    for i, (call, tensors) in enumerate(samples(op, count)):
        wanted = place / f"{i}.wanted"
        if not wanted.exists():
            continue

        def load(i: int = i, tensors: tuple = tensors, wanted: Path = wanted) -> str:
            loaded = tritorch.export.load(place / f"{i}.from.pt2").module()
            got = loaded(*map(ours, tensors))
            return difference(op, pickle.loads(wanted.read_bytes()), arrays(got))

        def save(i: int = i, call: tuple = call) -> str:
            sample = ours(call[0]), ours(call[1])
            module, given = module_of(tritorch, counterpart(op), *sample, tritorch.Tensor)
            program = tritorch.export.export(module, given)
            tritorch.export.save(program, place / f"{i}.to.pt2")
            return ""

        if (place / f"{i}.from.pt2").exists():
            found["from"] = found["from"] or limited(load)
        found["to"] = found["to"] or limited(save)
    return found


def read_torch(op: object, place: Path, count: int) -> dict[str, str]:
    """What is wrong with our exports in torch."""
    said = ""
    for i, (_, tensors) in enumerate(samples(op, count)):
        file = place / f"{i}.to.pt2"

        def run(i: int = i, tensors: tuple = tensors, file: Path = file) -> str:
            got = torch.export.load(file).module()(*tensors)
            return difference(op, pickle.loads((place / f"{i}.wanted").read_bytes()), arrays(got))

        if file.exists():
            said = said or limited(run)
    return {"to": said}


STAGES = {"theirs": write_torch, "ours": ours_of, "back": read_torch}


def main() -> None:
    """Prints how many operators hold in each direction."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default="", help="a pattern of names")
    parser.add_argument("--all", action="store_true", help="every operator")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=3, help="of each operator")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--stage", nargs=2, default=None, help="of the three, and the folder")
    given = parser.parse_args()
    db = [op for op in op_db if torch.float32 in op.dtypes and not NOT_OURS.match(op.name)]
    db = [op for op in db if re.search(given.ops, op.name)]
    if not given.all and not given.ops:
        db = random.Random(given.seed).sample(db, given.count)
    if given.stage:
        run_stage(given.stage[0], Path(given.stage[1]), db, given.samples)
        return
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, dict[str, str]] = collections.defaultdict(dict)
        for stage in STAGES:
            words = [sys.executable, *given_words(), "--stage", stage, folder]
            subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
            for name, each in json.loads((Path(folder) / f"{stage}.json").read_text()).items():
                for direction, said in each.items():
                    found[name][direction] = found[name].get(direction) or said
        report(found, given.verbose)


def given_words() -> list[str]:
    """How this tool was started, for its stages."""
    return [os.environ.get("COMPARE_EXPORTS", __file__), *sys.argv[1:]]


def run_stage(stage: str, folder: Path, db: list, count: int) -> None:
    """One of the three processes: its results in a file of the folder."""

    def late(*_: object) -> None:
        raise Late(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    found = {}
    for op in db:
        name = f"{op.name}.{op.variant_test_name}".rstrip(".")
        place = folder / name
        place.mkdir(exist_ok=True)
        with torch.no_grad():
            found[name] = STAGES[stage](op, place, count)
    (folder / f"{stage}.json").write_text(json.dumps(found))


def report(found: dict[str, dict[str, str]], verbose: bool) -> None:
    """Prints the counts, and what is wrong."""
    for direction in ("from", "to"):
        states: collections.Counter = collections.Counter()
        for name, each in found.items():
            said = each.get(direction, "")
            states["left out" if said == "-" else "failed" if said else "ok"] += 1
            if said and verbose:
                print(f"{direction:4} {name}: {said[:300]}".replace("\n", " "), flush=True)
        total = states["ok"] + states["failed"]
        print(f"{direction} torch: {states['ok']} of {total}, left out {states['left out']}")


if __name__ == "__main__":
    main()
