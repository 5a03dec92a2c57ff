"""What a Ctrl-C leaves of a profile's records."""

from __future__ import annotations

import tritorch as torch
from tritorch.autograd.profiler import profile, record_function


def test_a_record_that_was_dropped_without_an_end_has_ended() -> None:
    """As where a Ctrl-C came before its `__exit__` had called anything."""
    x = torch.ones(3)
    with profile() as prof:
        lost = record_function("lost")
        lost.__enter__()
        x.sin()
        del lost
        x.cos()
    found = {each.name: each for each in prof.function_events}
    assert [child.name for child in found["lost"].cpu_children] == ["aten::sin"]
    assert found["lost"].time_range.end <= found["aten::cos"].time_range.start
