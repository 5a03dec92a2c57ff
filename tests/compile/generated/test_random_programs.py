"""Compiled programs do what eager ones do, to the bit, in all that a program can see.

`tools/random_programs.py` runs many more of them.
"""

from __future__ import annotations

import functools
import re
from collections import Counter

import pytest

import tritorch as torch
from tests.tiers import first_quick
from tritorch import _C

from .blocks import BLOCKS
from .comparing import compare, failing, minimise, report
from .patterns import PATTERNS
from .random_programs import Program, generate
from .worlds import Seen, observe
from .wrong_compilers import COMPILERS

SEEDS = range(300)
GROWING = range(2000, 2120)
MORE = range(2000)  # until a wrong compiler is found
ON_THE_GPU = range(1000, 1020)
AS_GRAPHS = range(1200, 1225)
FUSED = range(1000, 1020)
NEAR = 1e-5  # of values, and of float32
EXACT = functools.partial(torch.compile, mode="exact")
PORTION = 20


@functools.cache
def known(seed: int) -> tuple[Program, list[Seen]]:
    """A program, and what is seen when it runs eagerly."""
    program = generate(seed)
    return program, observe(program)


@pytest.mark.parametrize("first", first_quick(SEEDS[::PORTION], 3))
def test_compiled_is_eager(first: int) -> None:
    for seed in range(first, first + PORTION):
        program, eager = known(seed)
        if compare(program, eager=eager):
            pytest.fail(report(program))


@pytest.mark.parametrize("first", first_quick(GROWING[::PORTION]))
def test_compiled_is_eager_when_sizes_and_numbers_grow(first: int) -> None:
    for seed in range(first, first + PORTION):
        program = generate(seed, growing=True)
        if compare(program):
            pytest.fail(report(program))


@pytest.mark.device
@pytest.mark.parametrize("first", first_quick(ON_THE_GPU[::PORTION]))
def test_compiled_is_eager_on_the_gpu(first: int) -> None:
    for seed in range(first, first + PORTION):
        program = generate(seed)
        if compare(program, EXACT, device="cuda"):
            pytest.fail(report(program, EXACT, device="cuda"))


@pytest.mark.device
@pytest.mark.parametrize("first", FUSED[::PORTION])
def test_compiled_is_near_eager_on_the_gpu(first: int) -> None:
    """With kernels that add up in another order, and round less."""
    for seed in range(first, first + PORTION):
        program = generate(seed)
        if compare(program, device="cuda", near=NEAR):
            pytest.fail(report(program, device="cuda", near=NEAR))


@pytest.mark.slow
@pytest.mark.device
def test_compiled_as_graphs_is_eager() -> None:
    """With more calls: programs are noted, drafted and recorded before they are replayed."""
    options = {"triton.cudagraphs": True, "emulate_precision_casts": True}
    compiler = functools.partial(torch.compile, options=options)
    before = _C.replay_counts()["replayed"]
    for seed in AS_GRAPHS:
        program = generate(seed)
        program = program.but(calls=program.calls * 3)
        if compare(program, compiler, device="cuda"):
            pytest.fail(report(program, compiler, device="cuda"))
    assert _C.replay_counts()["replayed"] - before > 10 * len(AS_GRAPHS)


@pytest.mark.parametrize("name", first_quick(COMPILERS, 4))
def test_a_wrong_compiler_is_found(name: str) -> None:
    """Each in what it does wrong, not in something else that it changes by the way."""
    compiler, seen, text = COMPILERS[name]
    for seed in MORE:
        if text not in str(generate(seed)):
            continue
        program, eager = known(seed)
        for line in compare(program, compiler, eager=eager):
            where, both, _ = line.partition(": eager ")
            if both and re.search(seen, where):
                return
    pytest.fail(f"{name} passes {len(MORE)} programs")


def test_programs_are_valid_and_varied() -> None:
    failing, backward, features = 0, 0, Counter[str]()
    for seed in SEEDS:
        program, eager = known(seed)
        errors = [call["error"] for call in eager[:-1]]
        failing += not program.deliberate and any(e and e[0] != " " for e in errors)
        backward += any(" backward: " in e for e in errors)
        features.update(program.features)
    assert failing < 0.1 * len(SEEDS) and backward < 0.1 * len(SEEDS)
    assert not {*PATTERNS, *BLOCKS} - {*features}


def test_a_seed_is_a_program() -> None:
    assert all(generate(seed) == generate(seed) for seed in SEEDS)
    assert len({generate(seed).source for seed in SEEDS}) == len(SEEDS)


def test_two_eager_worlds_are_equal_on_programs_that_fail() -> None:
    """What is seen of an error is no accident of the run: addresses are left out."""
    for seed in SEEDS:
        program, eager = known(seed)
        if program.deliberate:
            assert compare(program, lambda function: function, eager=eager) == []


@pytest.mark.parametrize("name", ["drops_writes_to_inputs", "draws_the_same_numbers_again"])
def test_failures_are_made_small(name: str) -> None:
    compiler = COMPILERS[name][0]
    program = next(p for p, eager in map(known, SEEDS) if compare(p, compiler, eager=eager))
    small = minimise(program, lambda p: failing(p, compiler))
    assert compare(small, compiler) and len(small.source.splitlines()) <= 4
    assert len(small.calls) <= 2 and small.backward == "none"
    assert f"# seed {program.seed}" in report(small, compiler, shrink=False)
