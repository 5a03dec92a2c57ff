"""`python -m tritorch precompile --plan`: packages of what a function of a program gives.

The program's code runs once, in a process of its own, which exports it and makes the plans that are
for where its tensors lie.  For each GPU that was named, one process makes plans of what was
exported, on the simulated device with launches discarded (Note [Tracing launches] in
`triton/trace.py`); another one loads these, and compiles what they launch: that and no more.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tritorch.compilation.plan.coding import PackageError

_SIZES = 3  # for which kernels are compiled, of plans with dynamic sizes


def package(where: str, file: str, targets: Sequence[int], jobs: int | None = None) -> int:
    """Writes a package of what `MODULE:NAME` or `SCRIPT.py:NAME` gives; the exit status.

    targets: GPUs, as 90, and 0 for the CPU; none: where the program's tensors lie."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = not targets or 0 in targets
        gpus = [target for target in targets if target]
        steps: list[tuple[list[str], int | None]] = []
        steps += [(["export", str(folder), where, str(int(own))], None)]
        for target in gpus:
            steps += [(["plans", str(folder), str(target)], target)]
            steps += [(["kernels", str(folder), str(target), str(jobs or 0)], target)]
        for arguments, gpu in steps:
            if status := _child(arguments, gpu):
                return status
        try:
            count = _assemble(folder, file)
        except (PackageError, OSError) as error:
            print(f"{file}: {error}", file=sys.stderr)
            return 1
    size = Path(file).stat().st_size
    print(f"{count} plans packaged in {file} ({size / 1e6:.1f} MB)")
    return 0


def _child(arguments: list[str], target: int | None) -> int:
    from tritorch.triton.trace import DISCARDING

    environment = dict(os.environ)
    if target is not None:
        environment["TRITORCH_SIMULATE_CUDA"] = DISCARDING
    command = [sys.executable, "-m", "tritorch.compilation.package.command", *arguments]
    return subprocess.run(command, env=environment, check=False).returncode


def main(arguments: list[str]) -> int:
    """A step, in a process of its own."""
    step, folder, *rest = arguments
    try:
        if step == "export":
            _export(Path(folder), rest[0], rest[1] == "1")
        elif step == "plans":
            _plans(Path(folder), int(rest[0]))
        else:
            _kernels(Path(folder), int(rest[0]), int(rest[1]) or None)
    except PackageError as error:
        print(f"no package: {error}", file=sys.stderr)
        return 1
    return 0


# ---- the program's code --------------------------------------------------------------------------


def _export(folder: Path, where: str, own: bool) -> None:
    """Exports what a function gives, and makes its plans."""
    from tritorch import export
    from tritorch.compilation.package.making import plans_of
    from tritorch.compilation.package.packaging import device_of
    from tritorch.triton import cache

    models = programs_of(_found(where))
    names: dict[str, str] = {}
    for model, programs in models.items():
        for program in programs:
            names[f"{len(names)}"] = model
            file = folder / f"{len(names) - 1}"
            export.save(program, f"{file}.pt2")
            if own:
                _write(file, "own", plans_of(program, device_of(program)))
    (folder / "models.json").write_text(json.dumps(names))
    _keep(folder, "own", cache.used)


def _write(file: Path, name: str, plans: list[Any]) -> None:
    for i, plan in enumerate(plans):
        data = json.dumps(plan.to_json(), allow_nan=False)
        Path(f"{file}.{name}.{i}.json").write_text(data)


def _found(where: str) -> Any:
    """The value of a name in a module, or in a script."""
    from tritorch.compat.as_torch import as_torch

    place, _, name = where.rpartition(":")
    if not place or not name.isidentifier():
        raise PackageError(f"{where!r} names nothing: say MODULE:FUNCTION or SCRIPT.py:FUNCTION")
    as_torch()
    if place.endswith(".py"):
        if not Path(place).exists():
            raise PackageError(f"there is no file {place}")
        sys.path[:0] = [str(Path(place).resolve().parent)]
        names = runpy.run_path(place, run_name="__precompiled__")
    else:
        sys.path[:0] = [os.getcwd()]
        names = vars(importlib.import_module(place))
    if name not in names:
        raise PackageError(f"{place} has no {name}")
    found = names[name]
    is_program = isinstance(found, (tuple, list, dict)) or hasattr(found, "graph_signature")
    return found if is_program else found()


def programs_of(source: Any, name: str = "model") -> dict[str, list[Any]]:
    """The exported programs of each model.

    source: an exported program; a module, its arguments, and maybe keyword arguments and
    dynamic_shapes, in a tuple; a list of those, for several sizes; a dict of those, by names."""
    from tritorch.nn.modules.module import Module

    if isinstance(source, dict):
        return {str(key): programs_of(item)["model"] for key, item in source.items()}
    if isinstance(source, list):
        return {name: [_exported(item) for item in source]}
    if not isinstance(source, tuple) and not hasattr(source, "graph_signature"):
        kind = "a module alone" if isinstance(source, Module) else f"a {type(source).__name__}"
        raise PackageError(f"{kind} is no program: (module, arguments) or an exported program is")
    return {name: [_exported(source)]}


def _exported(source: Any) -> Any:
    from tritorch.export import export

    if hasattr(source, "graph_signature"):
        return source
    if (
        not isinstance(source, tuple)
        or not 2 <= len(source) <= 4
        or not isinstance(source[1], tuple)
    ):
        raise PackageError("a program is (module, arguments, keyword arguments, dynamic_shapes)")
    module, args, *rest = source
    kwargs, shapes = (*rest, None, None)[:2]
    return export(module, args, kwargs, dynamic_shapes=shapes)


# ---- for a GPU -----------------------------------------------------------------------------------


def _plans(folder: Path, target: int) -> None:
    """Makes plans for a GPU, of what was exported."""
    from tritorch import export
    from tritorch.compilation.package.making import plans_of
    from tritorch.export.passes import move_to_device_pass
    from tritorch.triton import trace
    from tritorch.utils._pytree import tree_map

    trace.pretend(target)
    for place in json.loads((folder / "models.json").read_text()):
        program = move_to_device_pass(export.load(folder / f"{place}.pt2"), "cuda")
        program.example_inputs = tree_map(_on_gpu, program.example_inputs)
        _write(folder / place, f"sm_{target}", plans_of(program, "cuda", (target,)))


def _on_gpu(x: Any) -> Any:
    from tritorch.core.tensor import Tensor

    return x.to("cuda") if isinstance(x, Tensor) else x


def _kernels(folder: Path, target: int, jobs: int | None) -> None:
    """Compiles what plans launch."""
    from tritorch import cuda
    from tritorch.compilation.package.loaded import Runner
    from tritorch.compilation.package.plan import Plan
    from tritorch.core.device import device as Device
    from tritorch.triton import keys, trace

    trace.pretend(target)
    device = Device("cuda", 0)
    with trace.traced() as needs:
        for place in json.loads((folder / "models.json").read_text()):
            for path in sorted(folder.glob(f"{place}.sm_{target}.*.json")):
                plan = Plan.from_json(json.loads(path.read_text()), device)
                for numbers in numbers_of(plan):
                    Runner(plan, device)(*_arguments(plan, device, numbers), numbers)
        cuda.synchronize()

    def store(index: int) -> int:
        return needs.store(index, target)

    sizes = list(trace.on_all_processors(store, len(needs.work), jobs))
    generation = keys.generation(target)
    _keep(folder, f"sm_{target}", [f"{generation}/{key}" for known in needs.keys for key in known])
    if needs.unnamed:
        raise PackageError(f"kernels cannot be named: {', '.join(sorted(needs.unnamed))}")
    print(f"sm_{target}: {len(sizes)} kernels compiled, {sum(sizes) / 1e6:.1f} MB")


def numbers_of(plan: Any) -> list[tuple[int, ...]]:
    """Numbers for a plan's dynamic sizes: those of its making, odd ones, multiples of 16; kernels
    are others for each."""
    made = [_made(plan, free) for free in plan.free]
    odd = [_near(plan, i, n | 1) for i, n in enumerate(made)]
    even = [_near(plan, i, -(-n // 16) * 16) for i, n in enumerate(made)]
    chosen = dict.fromkeys(map(tuple, (made, odd, even)))
    return [numbers for numbers in chosen if _holds(plan, numbers)][:_SIZES]


def _made(plan: Any, free: Any) -> int:
    given = plan.given[free.argument]
    if free.dim < 0:
        return max(free.low, 1)
    return (plan.forms[given.value].shape[free.dim] - free.addend) // free.factor


def _near(plan: Any, place: int, number: int) -> int:
    free = plan.free[place]
    high = number if free.high is None else free.high
    return max(free.low, min(number, high))


def _holds(plan: Any, numbers: tuple[int, ...]) -> bool:
    return all(condition.of(numbers) for _, condition in plan.conditions)


def _arguments(plan: Any, device: Any, numbers: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Arguments and weights as a plan takes them, with nothing in them."""
    from tritorch.compilation.dynamic_shapes.symbols import computed
    from tritorch.compilation.package.plan import GivenKind
    from tritorch.ops.shape.factory import empty_strided

    leaves: list[Any] = []
    for given in plan.given:
        if given.kind != GivenKind.TENSOR:
            leaves.append(computed(given.value, numbers))
            continue
        where = device if given.device == "own" else "cpu"
        shape, strides = computed((given.shape, given.strides), numbers)
        leaves.append(empty_strided(shape, strides, dtype=given.dtype, device=where))
    state = []
    for _, number in plan.state:
        form = plan.forms[number]
        state.append(empty_strided(form.shape, form.strides, dtype=form.dtype, device=device))
    return leaves, state


def _keep(folder: Path, name: str, places: Any) -> None:
    """Writes down kernels, for the package."""
    from tritorch.triton import cache

    packed = io.BytesIO()
    cache.pack(packed, places)
    (folder / f"{name}.kernels").write_bytes(packed.getvalue())


# ---- the package ---------------------------------------------------------------------------------


def _assemble(folder: Path, file: str) -> int:
    """Writes the package of what steps have left; how many plans it has."""
    from tritorch import export
    from tritorch.compilation.package.packaging import merged, write_plans

    models: dict[str, list[Any]] = {}
    for place, name in json.loads((folder / "models.json").read_text()).items():
        program = export.load(folder / f"{place}.pt2")
        for path in sorted(folder.glob(f"{place}.*.json")):
            models.setdefault(name, []).append((json.loads(path.read_text()), program))
    made = {name: ([data for data, _ in plans], merged(plans)) for name, plans in models.items()}
    return write_plans(file, made, _packed(folder))


def _packed(folder: Path) -> Iterator[tuple[int, str, bytes]]:
    from tritorch.triton import cache

    seen: set[tuple[int, str]] = set()
    for path in sorted(folder.glob("*.kernels")):
        with zipfile.ZipFile(path) as archive:
            for place in archive.namelist():
                generation, _, key = place.partition("/")
                target = cache.target_of(generation)
                if (target, key) not in seen:
                    seen.add((target, key))
                    yield target, key, archive.read(place)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
