"""Generators, and what is drawn: distributions, permutations, draws by weight, dropout.

Every draw is seeded, so nothing here is left to chance.
"""

from __future__ import annotations

import base64
import copy
import json
import math
import os
import pathlib
import pickle
import threading
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tritorch as torch
import tritorch.nn.utils.prune
import tritorch.utils.data
from tests.core.draws import COUNT, DRAWS as EVERY, SEQUENCES, digest
from tritorch.nn import functional as F

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]
N = 20_000
SOME = {"cpu": N, "cuda": 4_000}  # the simulated GPU interprets its kernels
RECORDED = json.loads((pathlib.Path(__file__).parent / "recorded_random.json").read_text())

everywhere = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(1)
    yield
    torch.manual_seed(1)


DRAWS = {
    "rand": lambda n, **where: torch.rand(n, **where),
    "randn": lambda n, **where: torch.randn(n, **where),
    "randn float64": lambda n, **where: torch.randn(n, dtype=torch.float64, **where),
    "randn complex": lambda n, **where: torch.randn(n, dtype=torch.complex64, **where),
    "rand float16": lambda n, **where: torch.rand(n, dtype=torch.float16, **where),
    "randint": lambda n, **where: torch.randint(-5, 100, (n,), **where),
    "randperm": lambda n, **where: torch.randperm(n, **where),
    "normal": lambda n, **where: torch.normal(2.0, 3.0, (n,), **where),
}
IN_PLACE = {
    "uniform_": lambda x, **g: x.uniform_(-2, 3, **g),
    "normal_": lambda x, **g: x.normal_(1, 2, **g),
    "exponential_": lambda x, **g: x.exponential_(2.0, **g),
    "cauchy_": lambda x, **g: x.cauchy_(1, 2, **g),
    "geometric_": lambda x, **g: x.geometric_(0.3, **g),
    "log_normal_": lambda x, **g: x.log_normal_(0.5, 0.25, **g),
    "bernoulli_": lambda x, **g: x.bernoulli_(0.3, **g),
    "random_": lambda x, **g: x.random_(-3, 8, **g),
}
EVERY_DRAW = DRAWS | {
    name: (lambda n, device="cpu", generator=None, f=f: f(torch.zeros(n, device=device),
                                                           generator=generator))
    for name, f in IN_PLACE.items()
}  # fmt: skip


def same(a, b):
    return np.array_equal(a.cpu().numpy(), b.cpu().numpy())


# ---- PyTorch's numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "dtype"),
    [pytest.param(draw, kind, id=f"{draw.name}-{kind}") for draw in EVERY for kind in draw.dtypes],
)  # fmt: skip
def test_a_seed_gives_pytorchs_numbers(draw, dtype):
    torch.manual_seed(5)
    numbers = digest(torch, draw(torch, COUNT, dtype))
    assert [numbers, digest(torch, torch.get_rng_state())] == RECORDED["draws"][draw.name][dtype]


def test_what_draws_on_its_way_gives_pytorchs_numbers():
    """Samplers, loaders, modules, distributions, one after another: so each must leave the
    generator where PyTorch's is."""
    torch.manual_seed(6)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in SEQUENCES.items():
            found[name] = [digest(torch, call(torch)), digest(torch, torch.get_rng_state())]
    assert found == RECORDED["sequences"]


def recorded_state():
    return torch.tensor(
        list(zlib.decompress(base64.b85decode(RECORDED["state"]))), dtype=torch.uint8
    )


def test_states_travel_between_the_libraries():
    generator = torch.Generator().set_state(recorded_state())
    assert generator.initial_seed() == 2**63 + 7
    after = [
        torch.randn(3, generator=generator).tolist(),
        torch.rand(3, generator=generator).tolist(),
    ]
    assert after == RECORDED["after"]
    torch.manual_seed(2**63 + 7)
    torch.rand(1000), torch.randn(3)  # the state has the second number of a pair
    assert torch.get_rng_state().numel() == 5056 and same(torch.get_rng_state(), recorded_state())


def test_threads_do_not_change_the_numbers():
    drawn = {}
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            torch.manual_seed(5)
            x = torch.zeros(40_001, dtype=torch.float64)
            drawn[count] = [
                draw(x).clone() for draw in (torch.randn_like, torch.Tensor.exponential_)
            ] + [torch.zeros(40_001).log_normal_(), torch.rand(3)]
    finally:
        torch.set_num_threads(threads)
    assert all(same(a, b) for a, b in zip(drawn[1], drawn[3]))


def test_drawing_in_threads_takes_every_number_once():
    generator = torch.Generator().manual_seed(5)
    whole = torch.rand(8 * 20_000, generator=generator)
    generator.manual_seed(5)
    parts = []
    draw = lambda: parts.extend(torch.rand(20_000, generator=generator) for _ in range(2))
    workers = [threading.Thread(target=draw) for _ in range(4)]
    [worker.start() for worker in workers], [worker.join() for worker in workers]
    rows = {part.numpy().tobytes() for part in parts}
    assert rows == {row.numpy().tobytes() for row in whole.reshape(8, -1)}


def test_a_forked_child_draws_while_its_parent_did():
    generator = torch.Generator()
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            torch.empty(50_000, dtype=torch.float64).exponential_(generator=generator)

    worker = threading.Thread(target=draw)
    worker.start()
    try:
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0 if torch.rand(3, generator=generator).shape == (3,) else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        worker.join()


# ---- seeds and states ----------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("name", EVERY_DRAW)
def test_a_seed_repeats_and_another_one_does_not(name, device):
    draw = EVERY_DRAW[name]
    torch.manual_seed(5)
    first, second = draw(101, device=device), draw(101, device=device)
    torch.manual_seed(5)
    assert same(draw(101, device=device), first) and same(draw(101, device=device), second)
    torch.manual_seed(6)
    assert not same(draw(101, device=device), first) and not same(first, second)


@pytest.mark.parametrize("name", EVERY_DRAW)
def test_own_generators_are_apart_from_the_default_one(name):
    draw = EVERY_DRAW[name]
    generator = torch.Generator().manual_seed(5)
    before = torch.get_rng_state()
    first = draw(50, generator=generator)
    assert same(torch.get_rng_state(), before)
    torch.manual_seed(5)
    assert same(draw(50), first)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(sorted(EVERY_DRAW)), st.integers(0, 9)), max_size=4))
def test_a_state_restores_any_place_in_the_sequence(history):
    for name, n in history:
        EVERY_DRAW[name](n)
    state = torch.get_rng_state()
    first = [draw(7) for draw in EVERY_DRAW.values()]
    torch.set_rng_state(state)
    assert all(same(draw(7), a) for draw, a in zip(EVERY_DRAW.values(), first))


@pytest.mark.device
def test_states_of_a_gpu():
    torch.rand(3, device="cuda")
    state = torch.cuda.get_rng_state()
    first = torch.rand(5, device="cuda"), torch.randn(5, device="cuda")
    torch.cuda.set_rng_state(state)
    assert same(torch.rand(5, device="cuda"), first[0])
    assert same(torch.randn(5, device="cuda"), first[1])
    torch.cuda.manual_seed(9)
    a = torch.rand(5, device="cuda")
    generator = torch.Generator("cuda").manual_seed(9)
    assert same(torch.rand(5, device="cuda", generator=generator), a)
    assert not same(torch.rand(5, device="cuda"), a)


def test_generators_as_objects():
    generator = torch.Generator()
    assert generator.manual_seed(7) is generator and generator.initial_seed() == 7
    torch.rand(3, generator=generator)
    twins = [generator.clone_state(), pickle.loads(pickle.dumps(generator))]
    want = torch.rand(4, generator=generator)
    assert all(same(torch.rand(4, generator=twin), want) for twin in twins)
    state = generator.get_state()
    assert state.dtype is torch.uint8 and state.ndim == 1
    kept = copy.copy(state)
    torch.rand(1, generator=generator)
    assert same(state, kept)  # a snapshot
    assert isinstance(generator.seed(), int) and generator.initial_seed() != 7
    assert torch.initial_seed() == 1 and torch.manual_seed(3) is torch.default_generator
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        generator.set_state(torch.zeros(3))
    with pytest.raises(TypeError, match="expected a torch.ByteTensor, but got list"):
        generator.set_state([3])
    with pytest.raises(
        RuntimeError, match="of size 5056 but found the input RNG state size to be 8"
    ):
        generator.set_state(torch.zeros(8, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        generator.set_state(torch.zeros(5056, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        generator.get_offset()
    with pytest.raises(RuntimeError, match="manual_seed expected a long, but got float"):
        generator.manual_seed(1.5)
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="Overflow"):
            torch.manual_seed(seed)


def test_negative_seeds_count_from_the_end():
    torch.manual_seed(-1)
    a = torch.rand(3)
    torch.manual_seed(2**64 - 1)
    assert same(torch.rand(3), a)


@pytest.mark.device
def test_a_generator_is_for_one_device():
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        torch.rand(2, device="cuda", generator=torch.Generator())


@everywhere
def test_fork_rng(device):
    torch.rand(3, device=device)
    with torch.random.fork_rng():
        inside = torch.rand(4, device=device)
        torch.manual_seed(99)
        torch.rand(10, device=device)
    assert same(torch.rand(4, device=device), inside)
    torch.manual_seed(1)
    a = torch.rand(2)
    torch.manual_seed(1)
    with torch.random.fork_rng(enabled=False):
        torch.rand(2)
    assert not same(torch.rand(2), a)
    with pytest.raises(ValueError), torch.random.fork_rng():
        after = torch.get_rng_state()
        torch.rand(5)
        raise ValueError
    assert same(torch.get_rng_state(), after)


# ---- the sequence of a GPU -----------------------------------------------------------------------


@pytest.mark.device
@pytest.mark.parametrize("name", ["rand", "randn", "randn float64", "rand float16", "randint"])
def test_numbers_do_not_depend_on_the_launch(name):
    draw = DRAWS[name]
    torch.manual_seed(4)
    whole = draw(3000, device="cuda")
    torch.manual_seed(4)
    parts = [draw(n, device="cuda") for n in (4, 1024, 8, 1964)]  # other grids, other blocks
    assert same(torch.cat(parts), whole)


@pytest.mark.device
def test_the_sequence_does_not_start_again_after_2_to_the_34():
    generator = torch.Generator("cuda").manual_seed(4)
    first = torch.rand(8, device="cuda", generator=generator)
    generator.set_offset(2**34)
    assert not same(torch.rand(8, device="cuda", generator=generator), first)
    generator.set_offset(4)
    assert same(torch.rand(4, device="cuda", generator=generator), first[4:])


@pytest.mark.device
@pytest.mark.simulated
@pytest.mark.parametrize("name", ["rand", "randperm", "exponential_"])
def test_numbers_do_not_depend_on_streams(name):
    draw = EVERY_DRAW[name]
    torch.manual_seed(4)
    want = draw(500, device="cuda")
    torch.cuda.synchronize()
    torch.manual_seed(4)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        got = draw(500, device="cuda")
    stream.synchronize()
    assert same(got, want)


@pytest.mark.device
def test_shapes_and_strides_do_not_change_the_numbers():
    torch.manual_seed(4)
    flat = torch.rand(600, device="cuda")
    torch.manual_seed(4)
    assert same(torch.rand(20, 30, device="cuda").reshape(-1), flat)
    torch.manual_seed(4)
    strided = torch.zeros(30, 20, device="cuda").T
    assert same(strided.uniform_().reshape(-1), flat)


# ---- distributions -------------------------------------------------------------------------------


def normal_cdf(x, mean=0.0, std=1.0):
    return 0.5 * (1 + np.array([math.erf(v) for v in (x - mean) / (std * math.sqrt(2))]))


CONTINUOUS = {
    "rand": (DRAWS["rand"], lambda x: np.clip(x, 0, 1)),
    "randn": (DRAWS["randn"], normal_cdf),
    "randn float64": (DRAWS["randn float64"], normal_cdf),
    "normal": (DRAWS["normal"], lambda x: normal_cdf(x, 2, 3)),
    "uniform_": (EVERY_DRAW["uniform_"], lambda x: np.clip((x + 2) / 5, 0, 1)),
    "normal_": (EVERY_DRAW["normal_"], lambda x: normal_cdf(x, 1, 2)),
    "exponential_": (EVERY_DRAW["exponential_"], lambda x: 1 - np.exp(-2 * x)),
    "cauchy_": (EVERY_DRAW["cauchy_"], lambda x: 0.5 + np.arctan((x - 1) / 2) / np.pi),
    "log_normal_": (EVERY_DRAW["log_normal_"], lambda x: normal_cdf(np.log(x), 0.5, 0.25)),
}


@everywhere
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name, device):
    """Kolmogorov and Smirnov's distance; beyond 1.95 / sqrt(N) once in 1000 seeds."""
    draw, cdf = CONTINUOUS[name]
    n = SOME[device]
    x = np.sort(draw(n, device=device).cpu().numpy().astype(np.float64))
    steps = np.arange(n + 1) / n
    f = cdf(x)
    assert max(np.abs(f - steps[1:]).max(), np.abs(f - steps[:-1]).max()) < 1.95 / math.sqrt(n)
    # ...and neighbours are not correlated
    ranks = f - 0.5
    unsorted = cdf(draw(n, device=device).cpu().numpy().astype(np.float64)) - 0.5
    assert abs((unsorted[1:] * unsorted[:-1]).mean()) < 4 / 12 / math.sqrt(n)
    assert abs((ranks**2).mean() - 1 / 12) < 0.7 / math.sqrt(n)


# name: (draw, mean, variance, the smallest and the largest value)
DISCRETE = {
    "randint": (DRAWS["randint"], 47.0, (105**2 - 1) / 12, -5, 99),
    "random_": (EVERY_DRAW["random_"], 2.0, (11**2 - 1) / 12, -3, 7),
    "geometric_": (EVERY_DRAW["geometric_"], 1 / 0.3, 0.7 / 0.09, 1, math.inf),
    "bernoulli_": (EVERY_DRAW["bernoulli_"], 0.3, 0.21, 0, 1),
    "bernoulli": (
        lambda n, device: torch.bernoulli(torch.full((n,), 0.8, device=device)), 0.8, 0.16, 0, 1,
    ),
    "poisson": (
        lambda n, device: torch.poisson(torch.full((n,), 3.5, device=device)),
        3.5, 3.5, 0, math.inf,
    ),
    "binomial": (
        lambda n, device: torch.binomial(torch.full((n,), 10.0, device=device),
                                         torch.full((n,), 0.4, device=device)), 4.0, 2.4, 0, 10,
    ),
    "multinomial": (
        lambda n, device: torch.multinomial(torch.tensor([1.0, 0, 2, 1], device=device), n, True),
        1.75, 1.1875, 0, 3,
    ),
}  # fmt: skip


@everywhere
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name, device):
    draw, mean, variance, least, most = DISCRETE[name]
    n = N if device == "cpu" else 1_000 if name in ("poisson", "binomial") else SOME[device]
    x = draw(n, device=device).cpu().numpy().astype(np.float64)
    assert np.array_equal(x, np.round(x)) and x.min() == least and x.max() <= most
    assert math.isinf(most) or x.max() == most or name == "binomial"
    assert abs(x.mean() - mean) < 4 * math.sqrt(variance / n)
    assert abs(x.var() / variance - 1) < 12 / math.sqrt(n)


@everywhere
def test_tensors_of_means_and_deviations(device):
    n = N if device == "cpu" else 1_000
    mean = torch.tensor([-3.0, 5.0], device=device).expand(n, 2)
    std = torch.tensor([0.5, 2.0], device=device)
    for out in (torch.normal(mean, std.expand(n, 2)), torch.normal(mean, std)):
        x = out.cpu().numpy()
        np.testing.assert_allclose(x.mean(0), [-3, 5], atol=8 / math.sqrt(n))
        np.testing.assert_allclose(x.std(0), [0.5, 2], rtol=4 / math.sqrt(n))
    x = torch.normal(mean, 0.0)
    assert torch.equal(x, mean)


@everywhere
def test_complex_normals_have_variance_1(device):
    n = SOME[device]
    x = torch.randn(n, dtype=torch.complex64, device=device).cpu().numpy()
    near = 4 / math.sqrt(n)
    assert abs(x.mean()) < near and abs((abs(x) ** 2).mean() - 1) < near
    assert abs(x.real.var() - 0.5) < near and abs((x.real * x.imag).mean()) < near


@everywhere
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_uniform_numbers_never_reach_1(kind, device):
    n = SOME[device]
    x = torch.rand(n, dtype=kind, device=device)
    assert x.dtype is kind and x.min().item() >= 0 and x.max().item() < 1
    assert abs(x.double().mean().item() - 0.5) < 1.4 / math.sqrt(n)
    assert torch.empty(n, dtype=kind, device=device).exponential_().min().item() > 0


@everywhere
def test_factories(device):
    x = torch.zeros(3, 4, dtype=torch.float64, device=device)
    for like in (torch.rand_like, torch.randn_like):
        y = like(x)
        assert (y.dtype, y.shape, y.device) == (x.dtype, x.shape, x.device)
        assert like(x, dtype=torch.float32).dtype is torch.float32
    assert torch.randint_like(x, 2, 5).dtype is torch.float64
    assert torch.randint(3, (2, 2), device=device).dtype is torch.int64
    assert torch.randint(1, 2, (50,), device=device).unique().tolist() == [1]
    assert (
        torch.rand(2, 0, device=device).shape == (2, 0) and torch.randn((), device=device).ndim == 0
    )
    assert torch.rand(2, requires_grad=True, device=device).requires_grad


def test_random_fills_what_a_dtype_holds():
    for kind, top in ((torch.uint8, 255), (torch.int8, 127), (torch.bool, 1)):
        x = torch.zeros(5000, dtype=kind).random_()
        assert int(x.min()) == 0 and int(x.max()) == top
    x = torch.zeros(5000).random_()
    assert x.max() <= 2**24 and x.max() > 2**23 and torch.equal(x, x.floor())


@pytest.mark.parametrize("call", [
    lambda: torch.rand(2, dtype=torch.int64), lambda: torch.rand(-1),
    lambda: torch.randint(3, 3, (2,)), lambda: torch.poisson(torch.tensor([-1.0])),
    lambda: torch.zeros(2).uniform_(2, 1), lambda: torch.zeros(2).normal_(0, -1),
    lambda: torch.zeros(2).exponential_(0), lambda: torch.zeros(2).geometric_(1.0),
    lambda: torch.zeros(2).cauchy_(0, 0), lambda: torch.zeros(2).log_normal_(0, 0),
    lambda: torch.zeros(2).bernoulli_(1.5), lambda: torch.bernoulli(torch.tensor([-0.1])),
    lambda: torch.randperm(-1), lambda: torch.normal(torch.zeros(2), torch.tensor([1.0, -1.0])),
    lambda: torch.zeros(2, dtype=torch.int64).normal_(),
    lambda: torch.ones(2, requires_grad=True).uniform_(),
])  # fmt: skip
def test_what_samplers_refuse(call):
    with pytest.raises(RuntimeError):
        call()


# ---- permutations and draws by weight ------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("n", [0, 1, 2, 17, 1000])
def test_randperm_is_a_permutation(n, device):
    x = torch.randperm(n, device=device)
    assert x.dtype is torch.int64 and x.sort().values.tolist() == [*range(n)]
    assert n < 17 or x.tolist() != [*range(n)]
    assert torch.randperm(n, dtype=torch.int32, device=device).dtype is torch.int32


@everywhere
def test_every_permutation_is_as_likely(device):
    count, rounds = {}, 600 if device == "cpu" else 120
    for _ in range(rounds):
        key = tuple(torch.randperm(3, device=device).tolist())
        count[key] = count.get(key, 0) + 1
    assert len(count) == 6
    expected = rounds / 6
    assert sum((n - expected) ** 2 / expected for n in count.values()) < 20.5  # chi2(5): 1 in 1000


@everywhere
def test_multinomial_without_replacement(device):
    weights = torch.tensor([[1.0, 2.0, 0.0, 5.0], [4.0, 0.0, 1.0, 1.0]], device=device)
    draws = weights.repeat(400, 1)
    out = torch.multinomial(draws, 3)
    assert out.shape == (800, 3) and out.dtype is torch.int64
    rows = out.cpu().numpy().reshape(400, 2, 3)
    for i, allowed in enumerate(([0, 1, 3], [0, 2, 3])):
        assert all(sorted(row) == allowed for row in rows[:, i].tolist())
    # The first of each row is drawn by weight.
    np.testing.assert_allclose((rows[:, 0, 0] == 3).mean(), 5 / 8, atol=0.08)
    np.testing.assert_allclose((rows[:, 1, 0] == 0).mean(), 4 / 6, atol=0.08)


@everywhere
def test_multinomial_with_replacement(device):
    weights = torch.tensor([[1.0, 3.0], [0.0, 2.0]], device=device)
    out = torch.multinomial(weights, 2000, replacement=True).cpu()
    assert out.shape == (2, 2000) and out[1].tolist() == [1] * 2000
    assert abs(out[0].float().mean().item() - 0.75) < 0.04


@pytest.mark.parametrize(("weights", "n", "message"), [
    ([1.0, 1.0], 3, "cannot sample n_sample > prob_dist.size"),
    ([1.0, 1.0], 0, "cannot sample n_sample <= 0 samples"),
    ([1.0, -1.0], 1, "contains either `inf`, `nan` or element < 0"),
    ([1.0, float("nan")], 1, "contains either `inf`, `nan` or element < 0"),
    ([0.0, 0.0], 1, "invalid multinomial distribution"),
    ([[[1.0]]], 1, "prob_dist must be 1 or 2 dim"),
    ([1, 2], 1, "multinomial only supports floating-point dtypes"),
])  # fmt: skip
def test_what_multinomial_refuses(weights, n, message):
    with pytest.raises(RuntimeError, match=message):
        torch.multinomial(torch.tensor(weights), n)


# ---- dropout -------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(p, device):
    n = SOME[device]
    x = torch.full((n,), 3.0, device=device, requires_grad=True)
    y = F.dropout(x, p)
    values = y.detach().cpu().numpy()
    kept = values != 0
    np.testing.assert_allclose(values[kept], 3 / (1 - p), rtol=1e-6)
    assert abs(kept.mean() - (1 - p)) < 4 * math.sqrt(p * (1 - p) / n)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), values / 3, rtol=1e-6)


@everywhere
def test_dropout_at_its_limits(device):
    x = torch.tensor([1.0, 2.0], device=device)
    assert F.dropout(x, 0.0) is x and F.dropout(x, 0.5, training=False) is x
    assert F.dropout(x, 1.0).tolist() == [0, 0]
    assert F.dropout(torch.zeros(0, device=device)).shape == (0,)
    y = x.clone()
    assert F.dropout(y, 0.5, inplace=True) is y and set(y.tolist()) <= {0, 2, 4}
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
            F.dropout(x, p)


@everywhere
def test_channels_drop_whole(device):
    x = torch.ones(50, 20, 2, 3, device=device)
    y = F.dropout2d(x, 0.4).cpu().numpy()
    for channel in y.reshape(1000, 6):
        assert len(set(channel.tolist())) == 1 and channel[0] in (0, np.float32(1 / 0.6))
    assert abs((y == 0).mean() - 0.4) < 0.07


@everywhere
def test_alpha_dropout_keeps_mean_and_variance(device):
    n = SOME[device]
    x = torch.randn(n, device=device)
    y = F.alpha_dropout(x, 0.3, training=True).cpu().numpy()
    assert abs(y.mean()) < 7 / math.sqrt(n) and abs(y.var() - 1) < 8 / math.sqrt(n)
    assert len(np.unique(y)) < 0.75 * n  # the dropped ones are all one value
    # a * (low + p * -low), with low what SELU tends to
    low, a = -1.7580993408473766, 1 / math.sqrt((1.7580993408473766**2 * 0.3 + 1) * 0.7)
    values, counts = np.unique(y, return_counts=True)
    np.testing.assert_allclose(values[counts.argmax()], a * (low - 0.3 * low), rtol=1e-5)
    z = F.feature_alpha_dropout(x.reshape(-1, 10, 5), 0.3, training=True).cpu().numpy()
    dropped = z == z.dtype.type(values[counts.argmax()])
    assert (dropped.all(-1) == dropped.any(-1)).all() and 0.2 < dropped.mean() < 0.4
