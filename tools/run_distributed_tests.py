#!/usr/bin/env python3
"""Run PyTorch's test bodies of torch.distributed, on gloo and CPUs, and count what passes.

    python tools/run_distributed_tests.py --torch site-packages/torch --peer --json peer.json
    python tools/run_distributed_tests.py --torch site-packages/torch --reference peer.json

The bodies are those of torch/testing/_internal/distributed/distributed_test.py in an installed
torch, which is read and not changed.  With --peer that torch runs them itself: the tests that pass
there, where there is neither a GPU nor NCCL, are the denominator.  Without it they run under the
alias, and all but torch.testing._internal is tritorch's.  Each test has its own processes.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any


def bodies(world: int) -> Any:
    """The class of the tests, each of which runs in `world` processes."""
    os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())
    from torch.testing._internal.distributed import distributed_test

    class TestDistBackendWithFork(
        distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase
    ):
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)

    TestDistBackendWithFork.__module__ = "__main__"
    return TestDistBackendWithFork


class Outcomes(unittest.TestResult):
    """How each test went."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.why: dict[str, str] = {}
        self._began = 0.0

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self._began = time.monotonic()

    def _note(self, test: Any, outcome: str, why: str = "") -> None:
        name = test._testMethodName
        self.found.setdefault(name, outcome)
        self.why.setdefault(name, why)
        print(f"{outcome:8} {time.monotonic() - self._began:5.1f} s  {name}", flush=True)

    def addSuccess(self, test: Any) -> None:
        self._note(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:
        self._note(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure

    def addSkip(self, test: Any, reason: str) -> None:
        self._note(test, "skipped", reason)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch", type=Path, required=True, help="the installed torch's folder")
    parser.add_argument("--peer", action="store_true", help="that torch runs the tests itself")
    parser.add_argument("--reference", type=Path, help="what --peer --json has written")
    parser.add_argument("--world", type=int, default=3, help="processes of a test")
    parser.add_argument("--limit", type=int, default=60, help="seconds that a test may take")
    parser.add_argument("--json", type=Path, help="where outcomes go")
    parser.add_argument("-k", default="*", help="names, as test_all_*")
    args = parser.parse_args()
    store = os.path.join(tempfile.mkdtemp(), "store")
    os.environ |= {
        "BACKEND": "gloo", "WORLD_SIZE": str(args.world), "INIT_METHOD": f"file://{store}",
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(args.limit), "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    if args.peer:
        sys.path.insert(0, str(args.torch.parent))
    else:
        sys.path.insert(0, str(Path(__file__).parent))
        import run_torch_tests

        run_torch_tests.require_expecttest()
        run_torch_tests.alias(args.torch)
        # Crashes of PyTorch's native code print where they were; ours do by faulthandler.
        sys.modules["tritorch"]._C._set_print_stack_traces_on_fatal_signal = lambda on: None
    case = bodies(args.world)
    names = unittest.TestLoader().getTestCaseNames(case)
    wanted = None
    if args.reference:
        wanted = {n for n, how in json.loads(args.reference.read_text()).items() if how == "passed"}
    chosen = [
        name for name in names
        if fnmatch.fnmatch(name, args.k) and (wanted is None or name in wanted)
    ]  # fmt: skip
    result = Outcomes()
    unittest.TestSuite(case(name) for name in chosen).run(result)
    for name, why in result.why.items():
        if result.found[name] == "failed":
            print(f"\n{name}\n{why}")
    passed = sum(how == "passed" for how in result.found.values())
    counted = sum(how != "skipped" for how in result.found.values()) if wanted is None else (
        len(chosen)
    )  # fmt: skip
    print(f"\n{passed} of {counted} pass; {len(names)} tests in all")
    if args.json:
        args.json.write_text(json.dumps(result.found, indent=1, sort_keys=True))
    return passed != counted


if __name__ == "__main__":
    sys.exit(main())
