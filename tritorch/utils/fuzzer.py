"""Random sizes and layouts to measure with: `Fuzzer` of torch.utils.benchmark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tritorch.core.dtype import dtype as DType, float32
from tritorch.core.tensor import Tensor
from tritorch.schema.tags import Listed

__all__ = [
    "FuzzedParameter", "FuzzedSparseTensor", "FuzzedTensor", "Fuzzer", "Language", "ParameterAlias",
]  # fmt: skip

_ATTEMPTS = 1000  # draws that are rejected before a fuzzer gives up


class Language(Listed):
    """What a statement that is timed is written in; tritorch times Python."""

    PYTHON = 0
    CPP = 1


class ParameterAlias:
    """In a distribution: the value that another parameter has."""

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A random number, or one of several values.

    Args:
        name: what tensors and constraints call it.
        minval, maxval: the least and the largest number; integers if both are.
        distribution: "uniform", "loguniform", or a dict of values and their probabilities.
        strict: it is not drawn again if the parameters that are drawn with it are rejected.
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name, self.strict = name, strict
        self._minval, self._maxval = minval, maxval
        if isinstance(distribution, dict):
            if minval is not None or maxval is not None:
                raise AssertionError("a custom distribution has neither 'minval' nor 'maxval'")
            if not math.isclose(sum(distribution.values()), 1, abs_tol=1e-6):
                raise AssertionError("Distribution is not normalized")
        elif distribution not in ("uniform", "loguniform"):
            raise AssertionError(f"Unknown distribution: {distribution}")
        elif minval is None or maxval is None:
            raise AssertionError(f"distribution {distribution!r} needs 'minval' and 'maxval'")
        self._distribution = distribution

    @property
    def name(self) -> str:
        """What tensors and constraints call it."""
        return self._name

    def sample(self, state: np.random.RandomState) -> Any:
        """A value."""
        if isinstance(self._distribution, dict):
            values = tuple(self._distribution)
            return values[state.choice(len(values), p=list(self._distribution.values()))]
        low, high = self._minval, self._maxval
        assert low is not None and high is not None
        is_int = isinstance(low, int) and isinstance(high, int)
        if self._distribution == "uniform":
            return (
                int(state.randint(int(low), int(high) + 1)) if is_int else state.uniform(low, high)
            )
        found = 2 ** state.uniform(np.log2(low), np.log2(high))
        return int(min(max(found, low), high)) if is_int else min(max(found, low), high)


class FuzzedTensor:
    """A tensor of a random size and layout.

    Args:
        name: what the tensor is called in what a fuzzer gives.
        size: a number, or the name of a parameter, for each dimension.
        steps: as size: every how many elements of a larger tensor are taken; None for every one.
        probability_contiguous: how often the dimensions are stored in order.
        min_elements, max_elements, max_allocation_bytes: parameters beyond these are rejected.
        dim_parameter: the name of the parameter that says how many dimensions there are.
        roll_parameter: for programs that give it; in PyTorch too nothing is done with it.
        dtype, cuda: of the tensor.
        tensor_constructor: makes the larger tensor of size, dtype and the parameters by name.
    """

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: DType = float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Tensor] | None = None,
    ) -> None:
        self._name, self._size, self._steps = name, size, steps
        self._probability_contiguous = probability_contiguous
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter = dim_parameter
        self._dtype, self._cuda = dtype, cuda
        self._tensor_constructor = tensor_constructor

    @property
    def name(self) -> str:
        """What the tensor is called."""
        return self._name

    @staticmethod
    def default_tensor_constructor(size: Sequence[int], dtype: DType, **kwargs: Any) -> Tensor:
        """Numbers between 0 and 1, or integers from 0 to 126."""
        from tritorch.ops.shape.factory import empty

        raw = empty(tuple(size), dtype=dtype, device="cpu")
        if dtype.is_complex:
            real = empty((*size, 2), dtype=dtype.to_real(), device="cpu").uniform_()
            return raw.copy_(real[..., 0] + 1j * real[..., 1])
        return raw.uniform_() if dtype.is_floating_point else raw.random_(0, 127)

    def _make_tensor(
        self, params: dict[str, Any], state: np.random.RandomState
    ) -> tuple[Tensor, dict[str, Any]]:
        size, steps = self._get_size_and_steps(params)
        make = self._tensor_constructor or self.default_tensor_constructor
        whole = [length * step for length, step in zip(size, steps, strict=True)]
        raw = make(size=whole, dtype=self._dtype, **params)
        if self._cuda:
            raw = raw.cuda()
        dim = len(size)
        order = np.arange(dim)
        if state.rand() > self._probability_contiguous:
            while dim > 1 and np.all(order == np.arange(dim)):
                order = state.permutation(raw.dim())
            stored = raw.permute(tuple(order.tolist())).contiguous()
            raw = stored.permute(tuple(np.argsort(order).tolist()))
        tensor = raw[tuple(slice(0, n * step, step) for n, step in zip(size, steps, strict=True))]
        return tensor, {
            "numel": int(tensor.numel()),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }

    def _get_size_and_steps(
        self, params: dict[str, Any]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        dim = params[self._dim_parameter] if self._dim_parameter else len(self._size)

        def resolve(values: Sequence[Any]) -> tuple[int, ...]:
            known = [params.get(value, value) for value in values]
            return tuple(known[:dim] + [1] * (dim - len(known)))

        return resolve(self._size), resolve(self._steps or ())

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether the tensor of these parameters is neither too small nor too large."""
        size, steps = self._get_size_and_steps(params)
        count = math.prod(size)
        stored = count * math.prod(steps) * self._dtype.itemsize
        return (
            (self._min_elements is None or count >= self._min_elements)
            and (self._max_elements is None or count <= self._max_elements)
            and (self._max_allocation_bytes is None or stored <= self._max_allocation_bytes)
        )


class FuzzedSparseTensor(FuzzedTensor):
    """A sparse COO tensor of a random size.

    sparse_dim, nnz, density, coalesced: the names of the parameters with the number of sparse
    dimensions, of values, the share of the elements that have one, and whether none is there twice.
    """

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        min_elements: int | None = None,
        max_elements: int | None = None,
        dim_parameter: str | None = None,
        sparse_dim: str | None = None,
        nnz: str | None = None,
        density: str | None = None,
        coalesced: str | None = None,
        dtype: DType = float32,
        cuda: bool = False,
    ) -> None:
        super().__init__(
            name,
            size,
            min_elements=min_elements,
            max_elements=max_elements,
            dim_parameter=dim_parameter,
            dtype=dtype,
            cuda=cuda,
        )
        self._names = sparse_dim, nnz, density, coalesced

    @staticmethod
    def sparse_tensor_constructor(
        size: Sequence[int], dtype: DType, sparse_dim: int, nnz: int, is_coalesced: bool
    ) -> Tensor:
        """A tensor with nnz values, or fewer where fewer fit, at random places."""
        from tritorch.ops.interpret.sparse.build import sparse_coo_tensor

        outer = tuple(size[:sparse_dim])
        count = min(nnz, math.prod(outer)) if is_coalesced else nnz
        generator = np.random.default_rng(nnz)
        cells = (
            generator.choice(math.prod(outer), count, replace=False)
            if is_coalesced
            else generator.integers(0, math.prod(outer), count)
        )
        values = FuzzedTensor.default_tensor_constructor((count, *size[sparse_dim:]), dtype)
        found = sparse_coo_tensor(
            np.stack(np.unravel_index(cells, outer)), values, tuple(size), check_invariants=False
        )
        return found.coalesce() if is_coalesced else found

    def _make_tensor(
        self, params: dict[str, Any], state: np.random.RandomState
    ) -> tuple[Tensor, dict[str, Any]]:
        size, _ = self._get_size_and_steps(params)
        given = [params[name] if name else None for name in self._names]
        sparse_dim = min(given[0] or len(size), len(size))
        density = 1.0 if given[2] is None else given[2]
        nnz = given[1] or math.ceil(math.prod(size) * density)
        is_coalesced = given[3] is None or bool(given[3])
        tensor = self.sparse_tensor_constructor(size, self._dtype, sparse_dim, nnz, is_coalesced)
        if self._cuda:
            tensor = tensor.cuda()
        filled = tensor._nnz() / max(math.prod(size[:sparse_dim]), 1)
        return tensor, {
            "numel": int(tensor.numel()),
            "shape": tensor.size(),
            "is_coalesced": tensor.is_coalesced(),
            "density": filled,
            "sparsity": 1 - filled,
            "sparse_dim": tensor.sparse_dim(),
            "dense_dim": tensor.dense_dim(),
            "is_hybrid": tensor.dense_dim() > 0,
            "dtype": str(self._dtype),
        }


class Fuzzer:
    """Draws parameters until they fit, and makes tensors of them.

    Args:
        parameters: `FuzzedParameter`s, or lists of them.
        tensors: `FuzzedTensor`s, or lists of them.
        constraints: functions of the dict of parameters; where one is false they are drawn again.
        seed: of the parameters; None for another each time.
    """

    def __init__(
        self,
        parameters: list[FuzzedParameter | list[FuzzedParameter]],
        tensors: list[FuzzedTensor | list[FuzzedTensor]],
        constraints: list[Callable[..., bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        self._seed = int(np.random.RandomState().randint(0, 2**31 - 1)) if seed is None else seed
        self._parameters = list(_flat(parameters))
        self._tensors = list(_flat(tensors))
        self._constraints = constraints or ()
        names = [one.name for one in (*self._parameters, *self._tensors)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"names of parameters and tensors must differ: {', '.join(repeated)}")
        self._rejections = self._total = 0

    @property
    def rejection_rate(self) -> float:
        """The share of the draws that did not fit; 0 before the first."""
        return self._rejections / self._total if self._total else 0.0

    def take(self, n: int) -> Iterator[tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]]:
        """n times: the tensors by name, what they are like by name, and the parameters."""
        state = np.random.RandomState(self._seed)
        for _ in range(n):
            params = self._generate(state)
            made = {t.name: t._make_tensor(params, state) for t in self._tensors}
            tensors = {name: tensor for name, (tensor, _) in made.items()}
            yield tensors, {name: told for name, (_, told) in made.items()}, params

    def _generate(self, state: np.random.RandomState) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for _ in range(_ATTEMPTS):
            drawn = {p.name: kept[p.name] if p.name in kept else p.sample(state)
                     for p in self._parameters}  # fmt: skip
            kept = {p.name: drawn[p.name] for p in self._parameters if p.strict}
            params = _resolved(drawn)
            self._total += 1
            if all(fits(params) for fits in self._constraints) and all(
                tensor.satisfies_constraints(params) for tensor in self._tensors
            ):
                return params
            self._rejections += 1
        raise ValueError("Failed to generate a set of valid parameters.")


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from _flat(value) if isinstance(value, (list, tuple)) else (value,)


def _resolved(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the values of those that stand for others."""
    found = dict(params)
    for name in params:
        seen = {name}
        while isinstance(found[name], ParameterAlias):
            target = found[name].alias_to
            if target in seen:
                raise ValueError(f"parameters stand for each other: {', '.join(sorted(seen))}")
            seen.add(target)
            found[name] = found[target]
    return found
