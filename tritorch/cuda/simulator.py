"""Controls of the simulated device (TRITORCH_SIMULATE_CUDA=1), for tests.

The simulated device keeps each stream's work in a queue and runs it as late as the program's own
synchronisation allows, in an order among streams drawn from a seed.  What is wrong for some order,
a missing event wait say, gives a wrong answer for some seeds.
"""

from __future__ import annotations

from tritorch import _C


def active() -> bool:
    """Whether CUDA is simulated."""
    return _C.is_simulated()


def configure(settings: str) -> None:
    """Changes options: "seed=7,memory=2G,poison=0,discard_launches=1" and the like."""
    _C.simulator.configure(settings)


def seed(value: int) -> None:
    """The seed of the order in which streams run."""
    _C.simulator.set_seed(value)


def fail(call: str, nth: int = 1, code: int = 0) -> None:
    """Makes the nth next "alloc", "launch", "copy" or "graph" fail; nth=0 takes that back.

    "graph" is each call that builds, changes or launches a graph.  The default codes are out of
    memory (2), too many resources requested (701) and unknown (999).
    """
    default = {"alloc": 2, "launch": 701, "copy": 999}
    _C.simulator.fail(call, nth, code or default.get(call, 999))


def clear_error() -> None:
    """Forgets a sticky error, as no real device can, and what frees have met of it."""
    _C.simulator.clear_error()


def counters(device: int = 0) -> dict[str, int]:
    """How many launches, copies, allocations... the device saw, and what is alive."""
    return _C.simulator.counters(device)
