"""Kernels that were found for blocks are found again on disk: by equal ones, to the bit."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tritorch as torch
import tritorch.nn as nn
import tritorch.nn.functional as F
from tritorch.compilation.fuse import equal, fuser, kept
from tritorch.triton import cache, kernel, keys, written

from ..fusing.fused_patterns import PATTERNS, Arrays

pytestmark = [pytest.mark.device, pytest.mark.simulated]
RUNS = 4  # until programs are made
SIZES = 2, 6, 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where plans are kept, though the simulated device keeps no kernels."""
    monkeypatch.setenv("TRITORCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel, "is_kept", lambda: True)
    monkeypatch.setattr(kept, "sources", lambda: "a" * 20)
    monkeypatch.setattr(kept, "FEWEST", 2)
    equal.forget()
    yield tmp_path
    equal.forget()


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of calls of each block for which kernels are looked for."""
    found: list[int] = []
    look = fuser._by_kernels

    def seen(calls: Any, *rest: Any) -> Any:
        found.append(len(calls))
        return look(calls, *rest)

    monkeypatch.setattr(fuser, "_by_kernels", seen)
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("plans-*/*"))


def results(function: Callable[..., Any], *inputs: Any, **options: Any) -> list[Any]:
    """What a compiled function gives, and the gradients of that, once it has its programs."""
    equal.forget()
    fast = torch.compile(function, **options)
    wanted = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    for _ in range(RUNS):
        torch.manual_seed(1)
        given = fast(*inputs)
        given = [given] if isinstance(given, torch.Tensor) else list(given)
        if wanted and given[0].requires_grad:
            seed = torch.ones_like(given[0])
            given += torch.autograd.grad(given[0], wanted, seed, allow_unused=True)
    return given


def same(found: list[Any], others: list[Any]) -> bool:
    pairs = [*zip(found, others, strict=True)]
    return all(a is b is None or torch.equal(a.isnan(), b.isnan()) for a, b in pairs) and all(
        a is None or torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs
    )


# ---- the same bits -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, "exact"])
@pytest.mark.parametrize("name", PATTERNS)
def test_what_is_found_gives_the_same_bits(
    name: str, mode: str | None, folder: Path, looked: list[int]
) -> None:
    pattern = PATTERNS[name]
    inputs = pattern.inputs(Arrays(torch.float32), *SIZES)
    inputs = [
        x.detach().requires_grad_() if x.is_floating_point() and pattern.grads else x
        for x in inputs
    ]
    made = results(pattern.run, *inputs, mode=mode)
    count = len(looked)
    assert len(files(folder)) == count
    found = results(pattern.run, *inputs, mode=mode)
    assert len(looked) == count  # nothing was looked for again
    assert same(made, found)


def _optimizer(lists: int) -> Callable[..., Any]:
    """A step of lists, written in place: a kernel of a table from four on."""

    def run(x: Any) -> Any:
        weights = [x[: 4 * i + 4].clone() for i in range(lists)]
        for w in weights:
            w.mul_(0.9).add_(w.sin(), alpha=0.1)
        return weights

    return run


def _convolved(x: Any) -> Any:
    images = x.view(1, 4, 8, 8)
    weight = torch.ones(4, 4, 3, 3, device=x.device)
    return F.relu(F.conv2d(images, weight, None, padding=1) + images) * 2


def _dequantized(x: Any) -> Any:
    weight = (x.view(16, 16) * 8).to(torch.int8)
    return F.gelu(x.view(16, 16) @ (weight.to(x.dtype) * 0.1).t() + 1), x.sum() * 2, x.cumsum(0)


def _dropped(x: Any) -> Any:
    return F.dropout(x.view(16, 16) * 2, 0.3).softmax(-1) + 1


@pytest.mark.parametrize("run", [_optimizer(2), _optimizer(6), _convolved, _dequantized, _dropped])
def test_kernels_of_all_kinds(run: Any, folder: Path, looked: list[int]) -> None:
    x = torch.linspace(-1, 1, 256, device="cuda")
    made = results(run, x)
    count = len(looked)
    assert count and len(files(folder)) == count
    found = results(run, x)
    assert len(looked) == count and same(made, found)


def test_every_kind_of_kernel_is_kept(folder: Path) -> None:
    """Those that are tried above are all that there are."""
    x = torch.linspace(-1, 1, 256, device="cuda")
    results(_optimizer(6), x)
    results(_dequantized, x)
    block = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16)).to("cuda")
    inputs = x.view(16, 16).requires_grad_(), *block.parameters()
    results(lambda x, *rest: block(x * 2) + x, *inputs)
    texts = "".join(path.read_bytes()[32:].decode() for path in files(folder))
    assert all(f'["kernel","{name}"' in texts for name in kept._CLASSES)


# ---- who finds it --------------------------------------------------------------------------------


def _chain(x: Any, scale: float = 2.0) -> Any:
    y = x * scale + 1
    return (y.sin() + y.cos()).softmax(-1) * x


def _varied(monkeypatch: pytest.MonkeyPatch, what: str, x: Any) -> tuple[Any, tuple[Any, ...]]:
    """The chain in other circumstances: options of `compile`, and what it is called with."""
    match what:
        case "dtype":
            return {}, (x.to(torch.bfloat16),)
        case "shape":
            return {}, (x.view(16, 16),)
        case "strides":
            return {}, (x.t().contiguous().t(),)
        case "mode":
            return {"mode": "exact"}, (x,)
        case "constant":
            return {}, (x, 2.0000000000000004)
        case "default dtype":
            monkeypatch.setattr("tritorch.core.defaults._default_dtype", torch.float64)
        case "device":
            monkeypatch.setattr(keys, "capability", lambda device: 120)
        case "sources":
            monkeypatch.setattr(kept, "sources", lambda: "b" * 20)
        case "tables":
            return {"mode": "reduce-overhead"}, (x,)
    return {}, (x,)


@pytest.mark.parametrize(
    "what",
    ["dtype", "shape", "strides", "mode", "constant", "default dtype", "device", "sources",
     "tables"],
)  # fmt: skip
def test_others_never_find_it(
    what: str, folder: Path, looked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.linspace(-1, 1, 256, device="cuda").view(8, 32)
    made = results(_chain, x)
    assert len(looked) == 1
    assert same(results(_chain, x), made) and len(looked) == 1
    options, inputs = _varied(monkeypatch, what, x)
    found = results(_chain, *inputs, **options)
    assert len(looked) == 2 and len(files(folder)) == 2
    eager = _chain(*inputs)
    near = 1e-2 if eager.dtype is torch.bfloat16 else 1e-6
    assert torch.allclose(found[0], eager, near, near)


def test_lines_of_the_program_are_no_part_of_it(
    folder: Path, looked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are said of what is found as of what is made."""
    said: list[Any] = []
    monkeypatch.setattr(fuser.showing, "wrote", lambda kernel, source, places: said.append(places))
    text = "def run(x):\n    return (x * 2).softmax(-1) + 1\n"
    x = torch.randn(4, 8, device="cuda")
    for first in ("", "# a line\n\n"):
        space: dict[str, Any] = {}
        exec(compile(first + text, "program.py", "exec"), space)
        results(space["run"], x)
    assert len(looked) == 1 and len(said) == 2
    one, two = ({(name, place.line) for name, place in places} for places in said)
    assert {(name, line + 2) for name, line in one} == two


def test_replaced_kernels_are_called(folder: Path, looked: list[int]) -> None:
    x = torch.linspace(-1, 1, 256, device="cuda").view(8, 32)
    results(_chain, x)
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("sin", lambda x: torch.zeros_like(x), "CUDA")
        (found,) = results(_chain, x)
        assert len(looked) == 2
        y = x * 2 + 1
        assert torch.allclose(found, y.cos().softmax(-1) * x, 1e-5, 1e-6)
    finally:
        library._destroy()


def test_what_only_this_process_can_tell_is_not_kept(folder: Path) -> None:
    """A generator of the program's, a function of its: no name says to others which they are."""
    block = equal.Block([], [], ())
    for value in (torch.Generator("cuda"), lambda: 1, object()):
        told = block._exact((1, value))
        assert hash(told) == hash(block._exact((1, value)))  # this process can
        assert kept.file_of(told, 100) is None
    assert kept.file_of(block._exact((1, torch.float32, torch.device("cuda", 0))), 100)


# ---- files ---------------------------------------------------------------------------------------


def test_damage_counts_as_absent(folder: Path, looked: list[int]) -> None:
    x = torch.linspace(-1, 1, 256, device="cuda").view(8, 32)
    made = results(_chain, x)
    (path,) = files(folder)
    whole = path.read_bytes()
    damaged = [whole[:i] for i in (0, 10, 32, 33, len(whole) - 1)]
    for i in range(0, len(whole), max(1, len(whole) // 8)):
        damaged.append(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
    for count, data in enumerate(damaged, 2):
        path.write_bytes(data)
        assert same(results(_chain, x), made)
        assert len(looked) == count and path.read_bytes() == whole  # made, and kept, again


def test_another_blocks_file_counts_as_absent(folder: Path, looked: list[int]) -> None:
    x = torch.linspace(-1, 1, 256, device="cuda").view(8, 32)
    made = results(_chain, x)
    (first,) = files(folder)
    results(_chain, x, 3.0)
    (second,) = set(files(folder)) - {first}
    first.write_bytes(second.read_bytes())
    assert same(results(_chain, x), made) and len(looked) == 3


def _rows(data: Any) -> list[Any]:
    """Files that say something else, whole by their checksums."""
    calls = data["calls"]
    kernel = next(row for row in calls if row[0] == "kernel")
    with_row = lambda *row: data | {"calls": [list(row)]}
    state = kernel[3]
    return [
        None, [], {}, 3, "text", data | {"calls": None}, data | {"calls": [[]]},
        data | {"calls": [3]}, data | {"added": [["own", "float3", [1], [1]]]},
        data | {"lone": [10**9]}, data | {"lone": ["x"]}, with_row("call", 0),
        with_row("own", 10**6), with_row("own", -1), with_row("own", "x"), with_row("on", 0, 3, 3),
        with_row("on", 0, [{"value": 10**6}], [0]), with_row("note", []),
        with_row("kernel", "Path", None, state), with_row("kernel", "Fused", None, state[:-1]),
        with_row("kernel", "Fused", None, [state[0], "import os", *state[2:]]),
        with_row("kernel", "Fused", None, [*state[:2], [10**6], *state[3:]]),
        with_row("kernel", "Fused", 0, state), with_row("kernel", "Fused", None, {"float": "x"}),
        with_row("kernel", "Fused", None, json.loads("[" * 900 + "]" * 900)),
    ]  # fmt: skip


def test_what_cannot_be_read_counts_as_absent(folder: Path, looked: list[int]) -> None:
    x = torch.linspace(-1, 1, 256, device="cuda").view(8, 32)
    made = results(_chain, x)
    (path,) = files(folder)
    place = f"{path.parent.name}/{path.name}"
    data = json.loads(cache.kept(place) or b"")
    for count, other in enumerate(_rows(data), 2):
        cache.keep(place, json.dumps(other).encode())
        assert same(results(_chain, x), made), other
        assert len(looked) == count, other


@pytest.mark.parametrize(
    "line",
    ["import os", "from os import system", "from tritorch import core", "x = print()",
     "@triton.jit\ndef f(x=print()):\n    pass", "@print\ndef f(x):\n    pass",
     "@triton.jit(do_not_specialize=[print()])\ndef f(x):\n    pass",
     "@triton.jit\ndef f(x: print()):\n    pass", "@triton.jit\ndef f(x) -> print():\n    pass",
     "@triton.jit\ndef f(*x: print()):\n    pass", "@triton.jit\ndef f(*, x=print()):\n    pass",
     "@triton.jit\n@print\ndef f(x):\n    pass", "class f:\n    pass"],
)  # fmt: skip
def test_sources_that_do_more_than_define_a_kernel_are_not_run(line: str) -> None:
    source = f"import triton\nimport triton.language as tl\n{line}\n"
    if "def f" not in line:
        source += "@triton.jit\ndef f(x):\n    pass\n" * ("class" not in line)
    with pytest.raises(ValueError, match="more than a kernel"):
        written.function(source)


def test_sources_are_those_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changed or was added: other sources; changed under this process: none."""
    for name in kept.PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.py").write_text(f"x = '{name}'\n")
    monkeypatch.setattr(kept, "_PACKAGE", tmp_path)

    def now(later: float = 60) -> str | None:
        kept.sources.cache_clear()
        kept._first_stamps.cache_clear()
        monkeypatch.setattr(kept, "_imported", os.stat(tmp_path / "core").st_ctime + later)
        return kept.sources()

    try:
        found = [now()]
        for name in kept.PACKAGES:
            (tmp_path / name / "one.py").write_text(f"y = '{name}'\n")
            found.append(now())
        (tmp_path / "core" / "two.py").write_text("")
        found.append(now())
        assert None not in found and len(set(found)) == len(found)
        assert now(-60) is None
    finally:
        monkeypatch.undo()
        kept.sources.cache_clear()
        kept._first_stamps.cache_clear()


def test_clearing_removes_plans(folder: Path) -> None:
    cache.keep("plans-" + "a" * 20 + "/" + "b" * 40, b"data")
    assert files(folder) and not list(cache.entries())
    assert cache.clear() == 0 and not files(folder)


PROGRAM = """
    import os, sys
    import tritorch as t
    from tritorch.compilation.fuse import fuser
    from tritorch.triton import kernel

    kernel.is_kept = lambda: True
    looked = []
    look = fuser._by_kernels
    fuser._by_kernels = lambda *given: (looked.append(1), look(*given))[1]
    t.manual_seed(0)
    model = t.nn.Sequential(*(t.nn.Sequential(t.nn.LayerNorm(16), t.nn.Linear(16, 16), t.nn.GELU())
                              for _ in range(3))).to("cuda")
    x, y = t.randn(8, 16, device="cuda"), t.randn(8, 16, device="cuda")
    optimizer = t.optim.AdamW(model.parameters(), 1e-2)
    step = t.compile(lambda: t.nn.functional.mse_loss(model(x), y))
    for _ in range(6):
        optimizer.zero_grad()
        loss = step()
        loss.backward()
        optimizer.step()
    print(len(looked), *(float(x.double().sum()).hex() for x in (loss, *model.parameters())))
"""


def test_another_process_finds_it(tmp_path: Path) -> None:
    environment = os.environ | {"TRITORCH_CACHE_DIR": str(tmp_path), "TRITORCH_SIMULATE_CUDA": "1"}

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)], cwd=tmp_path, env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not done.returncode, done.stderr
        return done.stdout.split()

    (first, *made), (second, *found) = run(), run()
    assert int(first) == 2 and int(second) == 0
    assert made == found
    assert len(files(tmp_path)) == 2


def test_a_files_name_is_a_digest(folder: Path) -> None:
    file = kept.file_of(("a key",), 100)
    assert file is not None
    text = repr((("a key",), [keys.capability(0)])).encode()
    assert file.path == f"plans-{'a' * 20}/{hashlib.sha256(text).hexdigest()[:40]}"
