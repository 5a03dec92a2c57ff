"""Marks for Intel's profilers, told by a collector that writes down what it is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tritorch as torch
from tritorch.autograd.profiler import emit_itt

COLLECTOR = """
#include <stdio.h>
#include <string.h>
typedef struct { unsigned long long d1, d2, d3; } id;
void *__itt_domain_create(const char *name) { printf("domain %s\\n", name); return strdup(name); }
void *__itt_string_handle_create(const char *name) {
  printf("name %s\\n", name);
  return strdup(name);
}
void __itt_task_begin(const char *domain, id task, id parent, const char *name) {
  printf("begin %s %s %llu\\n", domain, name, task.d1 + task.d3 + parent.d1 + parent.d3);
}
void __itt_task_end(const char *domain) { printf("end %s\\n", domain); fflush(stdout); }
"""
PROGRAM = """
import tritorch as torch
from tritorch.autograd.profiler import emit_itt
from tritorch.profiler import itt
with itt.range("step {}", 3):
    itt.mark("here")
x = torch.ones(2)
with emit_itt(record_shapes=True):
    torch.add(x, x)
itt.mark("here")
"""


def test_without_a_profiler_they_go_nowhere() -> None:
    assert torch.profiler.itt.is_available()
    x = torch.ones(2, requires_grad=True)
    with emit_itt(record_shapes=True), torch.profiler.itt.range("a"):
        (x + x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_collector_is_told(tmp_path: Path) -> None:
    source, library = tmp_path / "collector.c", tmp_path / "collector.so"
    source.write_text(COLLECTOR)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)

    def told(path: Path) -> list[str]:
        wanted = {**os.environ, "INTEL_LIBITTNOTIFY64": str(path)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=wanted, check=True, capture_output=True, text=True
        )
        return done.stdout.splitlines()

    assert told(library) == [
        "domain PyTorch", "name step 3", "begin PyTorch step 3 0", "name here",
        "begin PyTorch here 0", "end PyTorch", "end PyTorch", "name add", "begin PyTorch add 0",
        "end PyTorch", "begin PyTorch here 0", "end PyTorch",
    ]  # fmt: skip
    assert told(tmp_path / "nothing.so") == [] == told(source)
