"""Packages of exported programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tritorch.compilation.package.archive import Writer
from tritorch.compilation.package.making import plans_of
from tritorch.compilation.plan.coding import PackageError
from tritorch.core.tensor import Tensor
from tritorch.utils._pytree import tree_leaves

Kernels = Iterable[tuple[int, str, bytes]]  # target, key, file


def device_of(program: Any) -> str:
    """The type of device that a program's tensors are on: "cuda" if any is there."""
    tensors = [*program.state_dict.values(), *program.constants.values()]
    tensors += tree_leaves(program.example_inputs)
    kinds = {x.device.type for x in tensors if isinstance(x, Tensor)}
    return "cuda" if "cuda" in kinds else "cpu"


def merged(plans: Iterable[tuple[Any, Any]]) -> dict[str, Tensor]:
    """The weights of plans, as JSON, and their programs: those of one model have the same."""
    found: dict[str, Tensor] = {}
    for plan, program in plans:
        for name, _ in plan["state"]:
            x = program.state_dict.get(name)
            x = program.constants[name] if x is None else x
            other = found.setdefault(name, x)
            if other is not x and not _equal(other, x):
                raise PackageError(f"the programs of a model have two tensors {name!r}")
    return found


def _equal(a: Tensor, b: Tensor) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape) and bool((a.cpu() == b.cpu()).all())


def save_package(programs: Any, path: Any) -> None:
    """Writes a package of an exported program, which `load_package` reads.

    programs: a program; a list of programs of one model, for several sizes; or a dict of either, by
    the names of models.  path: a file's, or a file of bytes.  A program on a GPU takes along the
    kernels that this process has compiled for it; `python -m tritorch precompile --plan` compiles
    for GPUs that are not here."""
    models = programs if isinstance(programs, dict) else {"model": programs}
    made = {}
    for name, given in models.items():
        each = list(given) if isinstance(given, (list, tuple)) else [given]
        for program in each:
            if not hasattr(program, "graph_signature"):
                raise TypeError(f"an exported program is packaged, not a {type(program).__name__}")
        plans = [(plan.to_json(), x) for x in each for plan in plans_of(x, device_of(x))]
        made[name] = [plan for plan, _ in plans], merged(plans)
    write_plans(path, made, _used())


def _used() -> Kernels:
    """The kernels that this process has launched."""
    from tritorch.triton import cache

    for place in sorted(cache.used):
        generation, _, key = place.partition("/")
        entry = cache.read(generation, key)
        if entry is not None:
            yield cache.target_of(generation), key, entry.to_bytes()


def write_plans(
    file: Any, models: Mapping[str, tuple[Sequence[Any], Mapping[str, Tensor]]], kernels: Kernels
) -> int:
    """Writes a package of plans, as JSON, and weights; a file appears when it is complete.  How
    many plans it has."""
    if not isinstance(file, (str, os.PathLike)):
        return _fill(file, models, kernels)
    beside = f"{os.fspath(file)}.{os.getpid()}"
    try:
        with open(beside, "wb") as opened:
            count = _fill(opened, models, kernels)
        os.replace(beside, file)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
    return count


def _fill(file: Any, models: Any, kernels: Kernels) -> int:
    writer = Writer(file)
    for name, (plans, weights) in models.items():
        writer.model(name, plans, dict(weights))
    for target, key, data in kernels:
        writer.kernel(target, key, data)
    writer.close()
    return sum(len(plans) for plans, _ in models.values())
