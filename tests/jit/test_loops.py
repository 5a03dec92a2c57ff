"""Loops that branches leave: what was assigned before `break` and `continue` is carried on."""

import pytest

import tritorch as torch


def one_branch_leaves(n: int):
    low, high, k = 0.0, 10.0, 0
    while low < high:
        k += 1
        if k % 3 == 0:
            low = low + 1.0
        elif k % 3 == 1:
            high = high - 1.0
        else:
            if k > n:
                break
            high = high - 0.5
            continue
    return low, high, k


def both_branches_leave(n: int):
    x, k = 0, 0
    while k < 10:
        k += 1
        if k > n:
            x = x + 100
            break
        else:
            x = x + 1
            continue
    return x, k


def one_branch_returns(n: int):
    x = 1
    for i in range(6):
        if i > n:
            if i % 2 == 0:
                x = x * 3
                continue
            elif x > 20:
                return x
            else:
                x = x + 5
        else:
            x = -x
            break
        x = x + 1
    return x + 1000


@pytest.mark.parametrize("program", [one_branch_leaves, both_branches_leave, one_branch_returns])
@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_scripts_compute_what_python_does(program):
    scripted = torch.jit.script(program)
    for n in range(-1, 13):
        assert scripted(n) == program(n)
