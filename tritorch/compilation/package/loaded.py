"""Loaded packages: functions of tensors, which check them and run a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.arrays import strides_of
from tritorch.compilation.dynamic_shapes.symbols import computed
from tritorch.compilation.package import kernels
from tritorch.compilation.package.archive import Archive
from tritorch.compilation.package.checking import require_consistent
from tritorch.compilation.package.plan import Given, GivenKind, Plan, ResultKind
from tritorch.compilation.package.running import Program
from tritorch.compilation.package.structure import read_structure
from tritorch.compilation.plan.coding import PackageError
from tritorch.compilation.plan.plans import Making
from tritorch.core import locks, scopes
from tritorch.core.device import device as Device
from tritorch.core.tensor import Tensor
from tritorch.utils._pytree import tree_flatten, tree_unflatten


class Misfit(ValueError):
    """Arguments that a plan is not for."""


class Runner:
    """A plan on a device."""

    def __init__(self, plan: Plan, device: Any) -> None:
        self.plan, self.device = plan, device
        self.arguments, self.results = map(read_structure, plan.structure)
        if self.arguments.num_leaves != len(plan.given):
            raise PackageError("the plan has another number of arguments than its structure")
        if self.results.num_leaves != len(plan.results):
            raise PackageError("the plan has another number of results than its structure")
        require_consistent(plan)
        self._program: Any = None
        self._lock = locks.lock()

    @property
    def program(self) -> Program:
        """The native program, which is made when it is first asked for."""
        if self._program is None:
            with self._lock:
                if self._program is None:
                    self._program = Program(self.plan, Making())
        return self._program

    def take(self, leaves: list[Any]) -> tuple[int, ...]:
        """The numbers of a call, whose arguments fit; else Misfit says why they do not."""
        plan = self.plan
        for given, x in zip(plan.given, leaves, strict=True):
            _require_kind(given, x, self.device)
        numbers = []
        for free in plan.free:
            x = leaves[free.argument]
            size = x if free.dim < 0 else x.shape[free.dim]
            number, rest = divmod(size - free.addend, free.factor)
            where = _where(plan.given[free.argument], free.dim)
            if rest:
                raise Misfit(f"{where} is {size}: it has to be a multiple of {free.factor}")
            if number < free.low or (free.high is not None and number > free.high):
                top = "" if free.high is None else f" to {free.high * free.factor + free.addend}"
                least = free.low * free.factor + free.addend
                raise Misfit(f"{where} is {size}: the package is for sizes from {least}{top}")
            numbers.append(number)
        found = tuple(numbers)
        for given, x in zip(plan.given, leaves):
            _require_sizes(given, x, found, plan)
        for text, condition in plan.conditions:
            if not condition.of(found):
                names = ", ".join(
                    f"{free.name} = {n} ({_where(plan.given[free.argument], free.dim)})"
                    for free, n in zip(plan.free, found)
                )
                raise Misfit(f"the package is for sizes of which {text} holds, not for {names}")
        return found

    def __call__(self, leaves: list[Any], state: Sequence[Tensor], numbers: tuple[int, ...]) -> Any:
        """The results for arguments that fit."""
        plan, moved = self.plan, []
        tensors: dict[int, Tensor] = {}
        writes = {number for number, _ in plan.written}
        for (_, number), x in zip(plan.state, state, strict=True):
            tensors.setdefault(number, x)
        for given, x in zip(plan.given, leaves):
            if given.kind != GivenKind.TENSOR:
                continue
            strides = computed(given.strides, numbers)
            if tuple(strides) != strides_of(x._array):
                laid = _laid_out(x, strides)
                moved += [(x, laid)] if given.value in writes else []
                x = laid
            tensors[given.value] = x
        if writes:
            _require_apart(plan, tensors, writes)
        with scopes.unrecorded:
            arrays = [tensors[number]._array for number in plan.inputs]
            values = self.program.run(numbers, arrays)
            for number, times in plan.written:
                tensors[number]._shared.version += times
            for x, laid in moved:
                x.copy_(laid)
            return tree_unflatten(self._results(values, tensors, numbers), self.results)

    def _results(self, values: Any, tensors: dict[int, Tensor], numbers: Any) -> list[Any]:
        found: list[Any] = []
        for each in self.plan.results:
            if each.kind == ResultKind.SAME:
                found.append(tensors[each.value])
            elif each.kind == ResultKind.VALUE:
                known = tensors.get(each.value)
                if known is None:
                    array = values[each.value]
                    base = tensors.get(each.like) if each.like is not None else None
                    known = _C.wrap(array) if base is None else _C.alias(base, array)
                    tensors[each.value] = known
                found.append(known)
            else:
                found.append(computed(each.value, numbers))
        return found


def _where(given: Given, dim: int) -> str:
    return given.name if dim < 0 else f"size {dim} of {given.name}"


def _require_kind(given: Given, x: Any, device: Any) -> None:
    if given.kind == GivenKind.CONSTANT:
        if type(x) is not type(given.value) or x != given.value:
            raise Misfit(f"{given.name} is {x!r}: the package is for {given.value!r}")
        return
    if given.kind == GivenKind.NUMBER:
        if type(x) is not int:
            raise Misfit(f"{given.name} is a {type(x).__name__}: the package is for integers")
        return
    if not isinstance(x, Tensor):
        raise Misfit(f"{given.name} is a {type(x).__name__}: the package takes a tensor")
    if x.dtype is not given.dtype:
        raise Misfit(f"{given.name} is of {x.dtype}: the package is for {given.dtype}")
    wanted = device if given.device == "own" else Device("cpu")
    if x.device != wanted:
        raise Misfit(f"{given.name} is on {x.device}: the package is on {wanted}")
    if len(x.shape) != len(given.shape):
        raise Misfit(f"{given.name} has {len(x.shape)} dims: the package is for {len(given.shape)}")


def _require_sizes(given: Given, x: Any, numbers: tuple[int, ...], plan: Plan) -> None:
    if given.kind == GivenKind.NUMBER:
        if x != computed(given.value, numbers):
            raise Misfit(f"{given.name} is {x}: the package is for {given.value}")
    elif given.kind == GivenKind.TENSOR:
        wanted = computed(given.shape, numbers)
        for dim, (size, own) in enumerate(zip(x.shape, wanted)):
            if size != own:
                dynamic_size = given.shape[dim]
                why = f"{own}" if type(dynamic_size) is int else f"{dynamic_size} = {own}"
                raise Misfit(f"{_where(given, dim)} is {size}: the package is for {why}")


def _laid_out(x: Tensor, strides: Sequence[int]) -> Tensor:
    """A copy that lies as a plan has it."""
    made = x.new_empty_strided(x.shape, strides)
    made.copy_(x.detach())
    return made


def _require_apart(plan: Plan, tensors: Mapping[int, Tensor], writes: set[int]) -> None:
    """Refuses arguments that share memory which the program writes."""
    for number in writes:
        for other in plan.inputs:
            if other != number and tensors[number]._shared is tensors[other]._shared:
                raise Misfit("arguments share memory that the program writes")


class LoadedPackage:
    """A model of a package: called as the module that was exported."""

    def __init__(self, archive: Archive, name: str, device: Any) -> None:
        self._archive, self._name = archive, name
        plans = archive.plans(name)
        self.device = _device(plans, device)
        kernels.attach(archive)
        own = [data for data in plans if _device_type(data) == self.device.type]
        if not own:
            raise PackageError(f"the package has no plan for {self.device}")
        self._runners = [Runner(Plan.from_json(data, self.device), self.device) for data in own]
        self._weights = archive.weights(name)
        for runner in self._runners:
            _require_weights(runner.plan, self._weights)
        if self.device.type != "cpu":
            self._weights = {key: x.to(self.device) for key, x in self._weights.items()}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for arguments of which a plan is."""
        problems = []
        for runner in self._runners:
            try:
                leaves = _leaves(runner, args, kwargs)
                numbers = runner.take(leaves)
            except Misfit as error:
                problems += [] if runner.plan.ones else [str(error)]
                continue
            state = [self._weights[key] for key, _ in runner.plan.state]
            return runner(leaves, state, numbers)
        text = problems[0] if len(problems) == 1 else "no plan fits:\n  " + "\n  ".join(problems)
        raise ValueError(text)

    def get_constant_fqns(self) -> list[str]:
        """The names of the weights."""
        return list(self._weights)

    def get_metadata(self) -> dict[str, str]:
        """Where the package runs and what made it."""
        return {"AOTI_DEVICE_KEY": self.device.type, "TRITORCH_VERSION": str(
            self._archive.head.get("version", ""))}  # fmt: skip

    def load_constants(
        self, constants_map: Mapping[str, Tensor], *, check_full_update: bool,
        user_managed: bool = False, allow_h2d_copy: bool = False,
    ) -> None:  # fmt: skip
        """Takes other weights, by their names.

        check_full_update: all of them have to be given; user_managed: the tensors themselves are
        taken, so that later changes of them count; allow_h2d_copy: those of the CPU are moved to
        the package's device."""
        if user_managed and allow_h2d_copy:
            raise RuntimeError("user_managed and allow_h2d_copy exclude each other")
        missing = [name for name in self._weights if name not in constants_map]
        if check_full_update and missing:
            raise RuntimeError(f"weights are missing: {', '.join(missing)}")
        found = {}
        for name, x in constants_map.items():
            if name not in self._weights:
                raise RuntimeError(f"the package has no weight {name!r}")
            found[name] = _replaced(name, self._weights[name], x, user_managed, allow_h2d_copy)
        self._weights = {**self._weights, **found}


def _replaced(name: str, old: Tensor, x: Tensor, managed: bool, moves: bool) -> Tensor:
    if (x.dtype, tuple(x.shape)) != (old.dtype, tuple(old.shape)):
        raise RuntimeError(
            f"{name} is {tuple(x.shape)} {x.dtype}, the package's {tuple(old.shape)} {old.dtype}"
        )
    if x.device != old.device and not moves:
        raise RuntimeError(f"{name} is on {x.device}, the package on {old.device}")
    if not managed:
        made = old.new_empty_strided(old.shape, strides_of(old._array))
        return made.copy_(x.detach())
    if strides_of(x._array) != strides_of(old._array):
        raise RuntimeError(f"{name} lies otherwise in memory than the package's")
    return x.detach()


def _leaves(runner: Runner, args: Any, kwargs: Any) -> list[Any]:
    wanted = runner.arguments.children()[1].context or []
    if set(wanted) == set(kwargs):
        kwargs = {name: kwargs[name] for name in wanted}
    leaves, spec = tree_flatten((args, kwargs))
    if spec != runner.arguments:
        raise Misfit(f"the arguments are built as {spec}, the package's as {runner.arguments}")
    return leaves


def _require_weights(plan: Plan, weights: Mapping[str, Tensor]) -> None:
    for name, number in plan.state:
        x, form = weights.get(name), plan.forms[number]
        if x is None or tuple(x.shape) != form.shape or strides_of(x._array) != form.strides:
            raise PackageError(f"the weight {name!r} is missing, or another one than in the plan")
        kind = x.dtype.numpy if form.kind is type(x._array) else x.dtype
        if kind != form.dtype:
            raise PackageError(f"the weight {name!r} is of {x.dtype}, not as the plan has it")


def _device_type(data: Any) -> Any:
    """The type of device that a plan, as JSON, is for."""
    kind = data.get("device") if isinstance(data, dict) else None
    return kind if isinstance(kind, str) else None


def _device(plans: list[Any], wanted: Any) -> Any:
    """Where a package runs: on what is asked for, a GPU if there is one and plans are for it."""
    if wanted is not None:
        found = Device(wanted)
        if found.type == "cuda" and found.index is None:
            found = Device("cuda", _C.current_device())
        return found
    kinds = {_device_type(data) for data in plans}
    if "cuda" in kinds and ("cpu" not in kinds or _C.device_count() > 0):
        if _C.device_count() == 0:
            raise PackageError("the package is for a GPU, and there is none")
        return Device("cuda", _C.current_device())
    return Device("cpu")


def load_package(path: Any, name: str = "model", *, device: Any = None) -> LoadedPackage:
    """A model of a package that `python -m tritorch precompile --plan` or
    `torch._inductor.aoti_compile_and_package` has written, as a function.

    path: a file's, or a file of bytes.  name: of several models.  device: where it runs; else on a
    GPU if the package is for one.  Neither Triton nor the model's source is imported: nothing of a
    package is executed but the package's own operators, and kernels on the GPU."""
    archive = Archive(path)
    if name not in archive.models:
        known = ", ".join(archive.models)
        raise PackageError(f"the package has no model {name!r}, but {known}")
    return LoadedPackage(archive, name, device)
