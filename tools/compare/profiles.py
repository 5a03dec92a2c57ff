"""Tables and texts of random events, printed by one library, to be compared with another's.

    python tools/compare/profiles.py tritorch > ours      # in an environment that has it
    python tools/compare/profiles.py torch > theirs       # PyTorch 2.13
    cmp ours theirs

Stacks and operations stand in one table in PyTorch's with their columns exchanged, so no list here
has both.
"""

from __future__ import annotations

import argparse
import importlib
import random
from typing import Any

NAMES = ("aten::a", "aten::bb", "ProfilerStep#1")
TABLES: tuple[dict[str, Any], ...] = (
    {}, {"sort_by": "self_cpu_time_total", "row_limit": 5, "header": "H"},
    {"top_level_events_only": True, "time_unit": "ms"},
    {"max_name_column_width": 30, "max_src_column_width": 20},
)  # fmt: skip
GROUPS: tuple[dict[str, Any], ...] = (
    {}, {"group_by_input_shapes": True}, {"group_by_stack_n": 2},
)  # fmt: skip


class Events:
    """A random tree of events."""

    def __init__(self, library: str, seed: int) -> None:
        self.util = importlib.import_module(f"{library}.autograd.profiler_util")
        self.kinds = importlib.import_module(f"{library}.profiler").DeviceType
        self.random = r = random.Random(seed)
        self.device, self.memory, self.flops = (r.random() < 0.5 for _ in range(3))
        self.stacks = r.random() < 0.4 and not self.flops
        self.found: list[Any] = []
        for thread in (1, 2):
            self.add(0.0, 10.0 ** r.randint(3, 7), 3, thread)
        if self.device:
            self.event("kernel", 7, 0.0, 5000.0, device_type=self.kinds.CUDA)

    def event(self, name: str, thread: int, begin: float, end: float, **fields: Any) -> Any:
        """One more."""
        fields = {"input_shapes": [], "stack": [], "flops": 0, **fields}
        use_device = "cuda" if self.device else None
        made = self.util.FunctionEvent(
            len(self.found), name, thread, begin, end, overload_name="", use_device=use_device,
            **fields,
        )  # fmt: skip
        self.found.append(made)
        return made

    def add(self, low: float, high: float, depth: int, thread: int) -> None:
        """Some between two times, with others inside of them."""
        r = self.random
        for _ in range(r.randint(1, 3)):
            if high - low < 5:
                return
            begin = low + r.random() * (high - low) / 4
            end = begin + r.random() * (high - begin)
            stack = [f"f{i}.py(3): g{'y' * r.randint(0, 90)}" for i in range(r.randint(0, 3))]
            event = self.event(
                r.choice([*NAMES, "x" * r.randint(1, 70)]), thread, begin, end,
                input_shapes=r.choice([[], [[1, 2], [3]], [[r.randint(1, 9)] * 20]]),
                stack=stack if self.stacks else [],
                cpu_memory_usage=r.randint(-(10 ** r.randint(1, 10)), 10 ** r.randint(1, 10)),
                device_memory_usage=r.randint(0, 10**9), sequence_nr=r.randint(-1, 5),
                flops=r.choice([0, 0, 10 ** r.randint(1, 14)]),
                is_user_annotation=r.random() < 0.2, is_async=r.random() < 0.1,
            )  # fmt: skip
            if self.device and r.random() < 0.5:
                event.append_kernel("k", 0, r.random() * 1e4)
            if depth:
                self.add(begin, end, depth - 1, thread)
            low = end

    def show(self) -> None:
        """Prints all that is known of them."""
        listed = self.util.EventList(
            self.found, use_device="cuda" if self.device else None, profile_memory=self.memory,
            with_flops=self.flops,
        )  # fmt: skip
        listed._build_tree()
        groups = [listed, *(listed.key_averages(**each) for each in GROUPS)]
        for group in groups:
            for options in TABLES:
                try:
                    print(group.table(**options))
                except (AssertionError, RuntimeError) as error:
                    print(repr(error))
            print(*group, sep="\n")
        print(listed.total_average())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--seeds", type=int, default=60)
    given = parser.parse_args()
    for seed in range(given.seeds):
        Events(given.library, seed).show()


if __name__ == "__main__":
    main()
