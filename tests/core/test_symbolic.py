"""Numbers that are left open: what is said of them holds for every number they may stand for."""

import pickle
import random

import pytest

import tritorch as torch
from tritorch.arrays import symbolic
from tritorch.arrays.sym_functions import sym_max, sym_min
from tritorch.arrays.symbolic import GuardOnDataDependentSymNode, ShapeEnv, SymBool, SymInt


def expression(rng, leaves, depth):
    """A random expression as a function of its leaves."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.3:
            number = rng.randrange(-3, 7)
            return lambda *xs: number
        i = rng.randrange(leaves)
        return lambda *xs: xs[i]
    a, b = expression(rng, leaves, depth - 1), expression(rng, leaves, depth - 1)
    kind = rng.choice(["+", "-", "*", "*", "//", "%", "max", "min"])
    if kind in ("//", "%"):  # by what is not 0
        divisor = rng.choice([lambda *xs: xs[0], lambda *xs: xs[1] * 2, lambda *xs: 3])
        if kind == "//":
            return lambda *xs: a(*xs) // divisor(*xs)
        return lambda *xs: a(*xs) % divisor(*xs)
    return {
        "+": lambda *xs: a(*xs) + b(*xs),
        "-": lambda *xs: a(*xs) - b(*xs),
        "*": lambda *xs: a(*xs) * b(*xs),
        "max": lambda *xs: sym_max(a(*xs), b(*xs)),
        "min": lambda *xs: sym_min(a(*xs), b(*xs)),
    }[kind]


def test_arithmetic_is_that_of_the_numbers():
    rng = random.Random(3)
    for _ in range(400):
        function = expression(rng, 3, rng.randrange(1, 5))
        other = expression(rng, 3, rng.randrange(1, 4))
        values = [rng.randrange(2, 40) for _ in range(3)]
        env = ShapeEnv()
        symbols = [env.symbol("nmk"[i], value) for i, value in enumerate(values)]
        found, second = function(*symbols), other(*symbols)
        assert symbolic.as_size(found) is found and int(found) == function(*values)
        # What is decided holds for all numbers; what is not has this run's answer.
        for sign in ("==", "!=", "<", "<=", ">", ">="):
            compare = eval(f"lambda a, b: a {sign} b")
            said = compare(found, second)
            if isinstance(said, SymBool):
                assert bool(said) == compare(function(*values), other(*values))
                continue
            for _ in range(5):
                numbers = [rng.randrange(2, 60) for _ in range(3)]
                assert said == compare(function(*numbers), other(*numbers)), (found, sign, second)


def test_ranges_and_guards():
    env = ShapeEnv()
    n, m = env.symbol("n", 5), env.symbol("m", 7)
    assert (2 * n + 2) // 2 == n + 1 and n * m // m == n and n * m % n == 0
    assert n > 1 and n * m >= 2 * n and sym_max(n, 1) is n and n != 0
    assert hash(n * m) == hash(m * n) and str(n * m + 2 * n - 1) == "n*m + 2*n - 1"
    assert not env.guards
    assert n < m and env.guards == ["n < m"]
    assert int(n) == 5 and env.guards == ["n < m", "n == 5"]
    assert [1, 2, 3, 4, 5, 6][n] == 6  # an index is a number
    assert float(n / m) == 5 / 7 and float(torch.sym_sqrt(torch.sym_float(n))) == 5**0.5
    with pytest.raises(TypeError):
        pickle.dumps(n)
    with pytest.raises(ZeroDivisionError):
        n // 0


def test_what_nobody_knows():
    env = ShapeEnv()
    u = env.symbol("u", None, 0)
    assert u >= 0 and u + 1 > 0 and u * 2 // 2 == u
    for ask in (lambda: bool(u > 3), lambda: int(u), lambda: float(u / 2)):
        with pytest.raises(GuardOnDataDependentSymNode, match="u"):
            ask()


def test_the_types_are_torch_s():
    n = ShapeEnv().symbol("n", 3)
    assert isinstance(n, torch.SymInt) and isinstance(n / 2, torch.SymFloat)
    assert isinstance(n > 2, torch.SymBool) and torch.SymInt is SymInt
    assert torch.Size([n, 4]).numel() == 4 * n
