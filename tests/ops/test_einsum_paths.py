"""einsum of more than two operands asks opt_einsum where it is installed."""

import subprocess
import sys
import textwrap

import pytest

import tritorch as torch

# A package of the name with the one function that is asked, which takes the last pair first.
STAND_IN = """
    asked = []

    def get_symbol(i):
        return chr(97 + i)

    def contract_path(equation, *shapes, shapes_given=None, optimize="auto", **named):
        asked.append((equation, shapes, optimize))
        count = len(shapes)
        if optimize == "optimal":  # all at once
            return [tuple(range(count))], None
        return [(n - 2, n - 1) for n in range(count, 1, -1)], None
"""
PROGRAM = """
    import tritorch as torch
    import opt_einsum
    settings = torch.backends.opt_einsum
    assert settings.is_available() and settings.enabled and settings.strategy == "auto"
    assert settings.get_opt_einsum() is opt_einsum
    torch.manual_seed(0)
    a, b, c, d = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5, 6), torch.randn(6, 2)
    expected = a @ b @ c @ d
    for strategy in ("auto", "greedy", "optimal"):
        settings.strategy = strategy
        assert torch.allclose(torch.einsum("ij,jk,kl,lm->im", a, b, c, d), expected, atol=1e-5)
    assert [each[2] for each in opt_einsum.asked] == ["auto", "greedy", "optimal"]
    assert opt_einsum.asked[0][0] == "ab,bc,cd,de->ae"
    assert opt_einsum.asked[0][1] == ((3, 4), (4, 5), (5, 6), (6, 2))
    torch.einsum("ij,jk->ik", a, b)  # two operands leave no choice
    settings.enabled = False
    torch.einsum("ij,jk,kl->il", a, b, c)
    assert len(opt_einsum.asked) == 3
    try:
        settings.set_flags(_strategy="greedy")
    except ValueError as error:
        assert "opt_einsum is not enabled" in str(error)
    else:
        raise AssertionError("a strategy that has no effect was accepted")
    with settings.flags(enabled=True, strategy="greedy"):
        assert settings.strategy == "greedy"
"""


def test_the_package_is_asked(tmp_path):
    (tmp_path / "opt_einsum.py").write_text(textwrap.dedent(STAND_IN))
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + textwrap.dedent(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_without_the_package():
    settings = torch.backends.opt_einsum
    if settings.is_available():
        pytest.skip("opt_einsum is installed")
    with pytest.raises(ValueError, match="opt_einsum is not available, so setting `enabled`"):
        settings.enabled = True
    assert settings.get_opt_einsum() is None and settings.enabled is False
