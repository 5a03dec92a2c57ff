"""utils.benchmark's Fuzzer: what it draws fits, and is the same for the same seed."""

import math

import pytest

import tritorch as torch
from tritorch.utils.benchmark import (
    FuzzedParameter,
    FuzzedSparseTensor,
    FuzzedTensor,
    Fuzzer,
    Language,
    ParameterAlias,
    set_torch_threads,
)


def fuzzer(seed=0):
    parameters = [
        FuzzedParameter("k", 4, 64, "loguniform"),
        [FuzzedParameter("d", distribution={ParameterAlias("k"): 0.5, 1: 0.5})],
        FuzzedParameter("step", 1, 3, "uniform", strict=True),
        FuzzedParameter("dim", 1, 3, "uniform"),
    ]
    tensors = [
        FuzzedTensor("x", ("k", "d", 2), ("step",), 0.3, min_elements=4, max_elements=3000),
        FuzzedTensor("y", ("k", 2), dim_parameter="dim", dtype=torch.int32),
    ]
    return Fuzzer(parameters, tensors, [lambda params: params["k"] > 10], seed)


def test_what_is_drawn_fits():
    made = fuzzer()
    for tensors, properties, params in made.take(20):
        k, d = params["k"], params["d"]
        assert 10 < k <= 64 and d in (1, k) and 1 <= params["step"] <= 3
        x, y = tensors["x"], tensors["y"]
        assert x.shape == (k, d, 2) and x.numel() == properties["x"]["numel"] <= 3000
        assert x.is_contiguous() == properties["x"]["is_contiguous"]
        assert y.shape == (k, 2, 1)[: params["dim"]] and y.dtype == torch.int32
        assert properties["x"]["steps"] == (params["step"], 1, 1)
    assert 0 < made.rejection_rate < 1


def test_a_seed_repeats():
    first, again = ([params for *_, params in fuzzer(3).take(5)] for _ in range(2))
    assert first == again != [params for *_, params in fuzzer(4).take(5)]


def test_sparse():
    parameters = [
        FuzzedParameter("n", 4, 8, "uniform"),
        FuzzedParameter("twice", distribution={True: 0.5, False: 0.5}),
    ]
    tensor = FuzzedSparseTensor("x", ("n", "n"), coalesced="twice")
    for tensors, properties, params in Fuzzer(parameters, [tensor], seed=0).take(6):
        x = tensors["x"]
        assert x.is_coalesced() == params["twice"] == properties["x"]["is_coalesced"]
        assert x.shape == (params["n"],) * 2 and x._nnz() == math.prod(x.shape)


def test_what_cannot_be_drawn():
    one = FuzzedParameter("k", 1, 2, "uniform")
    with pytest.raises(ValueError, match="Failed to generate a set of valid parameters"):
        list(Fuzzer([one], [], [lambda params: False]).take(1))
    with pytest.raises(ValueError, match="must differ: k"):
        Fuzzer([one, one], [])
    with pytest.raises(AssertionError, match="Unknown distribution: None"):
        FuzzedParameter("k")
    with pytest.raises(AssertionError, match="not normalized"):
        FuzzedParameter("k", distribution={1: 0.5, 2: 0.4})
    loop = {name: {ParameterAlias(other): 1.0} for name, other in ("ab", "ba")}
    with pytest.raises(ValueError, match="stand for each other"):
        list(Fuzzer([FuzzedParameter(n, distribution=d) for n, d in loop.items()], []).take(1))
    assert repr(Language.PYTHON) == "<Language.PYTHON: 0>"
    with set_torch_threads(1):
        pass
