"""What keeps programs running: compile and jit give back what they are given."""

import tritorch as torch


def test_compile_and_jit():
    @torch.compile
    def double(x):
        return x * 2

    @torch.compile(mode="max-autotune", fullgraph=True)
    def triple(x):
        return x * 3

    @torch.jit.script
    def both(x):
        return double(x) + triple(x)

    @torch.jit.ignore(drop=True)
    def ignored(x):
        return x

    net = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    assert both(ignored(torch.ones(1))).item() == 5 and isinstance(net, torch.nn.Linear)
    assert torch.compile(net) is net and not torch.jit.is_scripting()
