"""Whether a GPU does what tritorch asks of it, in a minute: `tools/gpu_pass.sh smoke`.

Each stage is a process of its own with 15 seconds, so that what hangs or loses its context ends
there, and prints one line of JSON: stage, whether it passed, seconds, and what was seen.  On the
simulated device (TRITORCH_SIMULATE_CUDA=1) sizes are small, and what only machine code can show is
skipped.  With --pack, kernels of a pack (`python -m tritorch precompile`) are launched as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

STAGES: dict[str, Callable[[], dict[str, Any]]] = {}


class Skipped(Exception):
    """A stage cannot be here, and why."""


def stage(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    STAGES[function.__name__] = function
    return function


def simulated() -> bool:
    from tritorch import _C

    return _C.is_simulated()


def close(got: Any, want: Any, tolerance: float) -> float:
    """The largest difference, relative to the largest number; it must be below the tolerance."""
    import numpy as np

    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape and np.isfinite(got).all(), "not finite"
    difference = float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))
    assert difference <= tolerance, f"differs by {difference:.3g}, {tolerance} is allowed"
    return difference


# ---- the device, memory, copies ------------------------------------------------------------------


@stage
def driver() -> dict[str, Any]:
    import importlib.metadata
    import platform

    import tritorch as t
    from tritorch import _C

    p = t.cuda.get_device_properties(0)
    return {
        "device": p.name, "capability": f"{p.major}.{p.minor}", "memory": p.total_memory,
        "driver": _C.driver_version(), "python": platform.python_version(),
        "triton": importlib.metadata.version("triton"), "tritorch": t.__version__,
    }  # fmt: skip


def _allocation(expandable: bool) -> dict[str, Any]:
    import tritorch as t

    t.cuda.memory._set_allocator_settings(f"expandable_segments:{expandable}")
    sizes = [1, 511, 1 << 20, 3 << 20, (64 if simulated() else 2048) << 20]
    blocks = [t.full((size,), i + 1, dtype=t.uint8, device="cuda") for i, size in enumerate(sizes)]
    for i, block in enumerate(blocks):
        assert block[0] == i + 1 and block[-1] == i + 1
    held = t.cuda.memory_allocated()
    del block, blocks[1::2]
    t.cuda.empty_cache()
    again = t.zeros(1000 if simulated() else 2 << 20, dtype=t.uint8, device="cuda")
    assert int(again.sum()) == 0
    blocks.clear()
    del again
    t.cuda.empty_cache()
    assert t.cuda.memory_reserved() == 0
    return {"held": held}


@stage
def expandable_segments() -> dict[str, Any]:
    return _allocation(True)


@stage
def plain_segments() -> dict[str, Any]:
    return _allocation(False)


@stage
def copies() -> dict[str, Any]:
    import tritorch as t

    n = 1000 if simulated() else 1 << 22
    host = t.arange(3 * n, dtype=t.int32).reshape(3, n)
    assert host.cuda().cpu().equal(host)
    pinned = host.pin_memory()
    assert pinned.cuda(non_blocking=True).to("cpu").equal(host)
    assert host.cuda().t().contiguous().cpu().equal(host.t())
    assert host.cuda()[:, ::7].double().cpu().equal(host[:, ::7].double())
    assert t.tensor([-1.0, 300.0], device="cuda").to(t.uint8).tolist() == [255, 44]
    return {"bytes": host.nbytes}


# ---- kernels -------------------------------------------------------------------------------------


@stage
def stored_add() -> dict[str, Any]:
    """Of a pack, without Triton: what fails here is loading or launching, not compiling."""
    import tritorch as t

    if "TRITORCH_KERNEL_PACK" not in os.environ:
        raise Skipped("no pack of kernels was given")
    if simulated():
        raise Skipped("the simulated device has no machine code")
    x = t.tensor([float(i) for i in range(1000)]).cuda()
    assert (x + x).cpu().tolist() == [2.0 * i for i in range(1000)]
    assert "triton" not in sys.modules, "the pack lacks it: Triton compiled"
    return {}


@stage
def compiled_add() -> dict[str, Any]:
    import tritorch as t

    started = time.perf_counter()
    os.environ.pop("TRITORCH_KERNEL_PACK", None)
    x = t.tensor([float(i) for i in range(1000)]).cuda()
    assert (x + x).cpu().tolist() == [2.0 * i for i in range(1000)]
    assert "triton" in sys.modules
    return {"first": round(time.perf_counter() - started, 2)}


def _product(m: int, n: int, k: int, kind: str, tolerance: float) -> float:
    """A product against 64 of its elements in float64."""
    import numpy as np

    import tritorch as t

    t.manual_seed(0)
    a, b = (t.randn(*s, device="cuda").to(getattr(t, kind)) for s in ((m, k), (k, n)))
    rng = np.random.default_rng(0)
    rows, cols = (t.from_numpy(rng.integers(0, size, 64)).cuda() for size in (m, n))
    got = (a @ b)[rows, cols].double().cpu()
    want = (a[rows].double().cpu() * b[:, cols].t().double().cpu()).sum(1)
    return close(got.numpy(), want.numpy(), tolerance)


@stage
def shared_memory() -> dict[str, Any]:
    """More than 48 KiB of shared memory, which a kernel has to ask for."""
    from tritorch import _C

    n = 64 if simulated() else 512
    return {"difference": _product(n, n, n, "bfloat16", 1e-2), "simulated": _C.is_simulated()}


@stage
def copy_engine() -> dict[str, Any]:
    """Tensor maps over 64 KiB and over 1 GiB."""
    small = (32, 48, 64) if simulated() else (128, 256, 256)
    large = (64, 48, 64) if simulated() else (16384, 128, 32768)
    return {
        "small": _product(*small, "bfloat16", 1e-2), "large": _product(*large, "bfloat16", 1e-2)
    }  # fmt: skip


@stage
def matmul() -> dict[str, Any]:
    sizes = (33, 64) if simulated() else (256, 4096)
    tolerances = {"float32": 1e-5, "bfloat16": 1e-2, "float64": 1e-12}
    return {
        f"{kind} {n}": _product(n, n, n, kind, tolerance)
        for kind, tolerance in tolerances.items()
        for n in sizes
    }


@stage
def attention() -> dict[str, Any]:
    import tritorch as t

    t.manual_seed(0)
    length, width = (20, 16) if simulated() else (333, 64)
    seen = {}
    for kind, tolerance in (("float32", 1e-4), ("bfloat16", 3e-2)):
        parts = [t.randn(1, 2, length, width).to(getattr(t, kind)) for _ in range(4)]
        results = []
        for device, wide in (("cuda", kind), ("cpu", "float64")):
            q, k, v, g = (x.to(device, getattr(t, wide)).detach() for x in parts)
            leaves = [x.clone().requires_grad_() for x in (q, k, v)]
            out = t.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
            out.backward(g)
            results.append([out.detach(), *(leaf.grad for leaf in leaves)])
        seen[kind] = max(
            close(got.double().cpu().numpy(), want.numpy(), tolerance)
            for got, want in zip(*results)
        )
    return seen


# ---- streams, graphs, errors ---------------------------------------------------------------------


@stage
def events() -> dict[str, Any]:
    import tritorch as t

    start, end = (t.cuda.Event(enable_timing=True) for _ in range(2))
    side = t.cuda.Stream()
    x = t.zeros(1000 if simulated() else 1 << 24, device="cuda")
    side.wait_stream(t.cuda.current_stream())
    with t.cuda.stream(side):
        start.record()
        for _ in range(20):
            x += 1
        end.record()
    end.synchronize()
    t.cuda.current_stream().wait_stream(side)
    assert end.query() and bool((x == 20).all())
    return {"milliseconds": start.elapsed_time(end)}


@stage
def graphs() -> dict[str, Any]:
    """A capture of kernels that are loaded, then of one that is compiled and loaded inside it."""
    import tritorch as t

    x = t.ones(1000, device="cuda")
    x * 3
    for function, want in ((lambda: x * 3, 6.0), (lambda: (x.exp2() + 1).rsqrt(), 5**-0.5)):
        x.fill_(1)
        graph = t.cuda.CUDAGraph()
        with t.cuda.graph(graph):
            y = function()
        x.fill_(2)
        for _ in range(3):
            graph.replay()
        close(y.cpu().numpy(), [want] * 1000, 1e-6)
    return {}


@stage
def built_graphs() -> dict[str, Any]:
    """Compiled training and a product by the copy engine, as graphs that are built of launches:
    what eager computes, as inputs move, results are kept and numbers are drawn."""
    import tritorch as t
    from tritorch import _C

    def trained(compile: Callable[..., Any]) -> list[float]:
        t.manual_seed(0)
        model = t.nn.Sequential(
            t.nn.Linear(64, 128), t.nn.LayerNorm(128), t.nn.GELU(), t.nn.Dropout(0.1),
            t.nn.Linear(128, 64),
        ).cuda()  # fmt: skip
        step = compile(lambda x, y: t.nn.functional.mse_loss(model(x), y))
        optimizer = t.optim.AdamW(model.parameters(), 1e-3)
        losses = []
        for _ in range(12):
            x, y = t.randn(2, 32, 64, device="cuda")
            optimizer.zero_grad()
            losses.append(step(x, y))
            losses[-1].backward()
            optimizer.step()
        return [loss.item() for loss in losses]

    before = _C.replay_counts()
    exact = {"triton.cudagraphs": True, "emulate_precision_casts": True}  # eager's bits
    graphed = trained(lambda f: t.compile(f, options=exact))
    assert graphed == trained(lambda f: f), "losses differ from eager's"
    product = t.compile(lambda a, b: t.relu(a @ b) @ b, mode="reduce-overhead")
    n = 64 if simulated() else 1024
    b = t.randn(n, n, device="cuda", dtype=t.bfloat16) / n**0.5
    kept = [(a, product(a, b)) for a in (t.randn(8, n, n, device="cuda").to(t.bfloat16))]
    assert all(y.equal(t.relu(a @ b) @ b) for a, y in kept), "products differ from eager's"
    found = {name: n - before[name] for name, n in _C.replay_counts().items()}
    assert found["built"] >= 3 and found["replayed"] > found["one_by_one"], found
    return found


@stage
def bad_index() -> dict[str, Any]:
    """Is told at the next synchronisation, and the process goes on."""
    import tritorch as t

    x = t.arange(5, device="cuda")
    try:
        x.index_select(0, t.tensor([7], device="cuda"))
        t.cuda.synchronize()
    except IndexError as error:
        message = str(error)
    else:
        raise AssertionError("nothing was raised")
    assert (x + 1).tolist() == [1, 2, 3, 4, 5]
    return {"message": message}


@stage
def illegal_address() -> dict[str, Any]:
    """In a child, which it costs its context; this process goes on."""
    import tritorch as t

    x = t.ones(3, device="cuda")
    child = subprocess.run(
        [sys.executable, __file__, "--illegal-address"], capture_output=True, text=True
    )
    last = (child.stderr.strip().splitlines() or ["nothing"])[-1]
    assert child.returncode != 0 and "ILLEGAL_ADDRESS" in child.stderr, last
    assert (x + 1).tolist() == [2, 2, 2]
    return {"message": last[:200]}


def write_to_an_illegal_address() -> None:
    """By a launch that was told of far more elements than there are."""
    import tritorch as t
    from tritorch.triton.kernel import kernel

    array = t.empty(1000, dtype=t.int64, device="cuda")._a
    kernel("copy", "fill")((1 << 22,), array, 1 << 32, 7, WIDE=True, BLOCK=1024, num_warps=4)
    t.cuda.synchronize()


# ---- rates ---------------------------------------------------------------------------------------


@stage
def rates() -> dict[str, Any]:
    """Of a copy in GB/s, read and written, and of a product in TFLOP/s."""
    import tritorch as t

    def seconds(call: Callable[[], Any], times: int) -> float:
        call()
        start, end = (t.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            call()
        end.record()
        end.synchronize()
        return max(start.elapsed_time(end), 1e-6) / 1e3 / times

    n, size, times = (4096, 64, 1) if simulated() else (1 << 28, 8192, 10)
    x, y = (t.empty(n, device="cuda") for _ in range(2))
    a = t.randn(size, size, device="cuda").bfloat16()
    return {
        "copy": round(2 * x.nbytes / seconds(lambda: y.copy_(x), times) / 1e9, 3),
        "matmul": round(2 * size**3 / seconds(lambda: a @ a, times) / 1e12, 6),
    }


# ---- the way around them -------------------------------------------------------------------------


def run_here(name: str) -> int:
    """One stage, in this process: what it saw, as JSON, is the last line."""
    try:
        seen = STAGES[name]()
    except Skipped as reason:
        seen = {"skipped": str(reason)}
    print(json.dumps(seen))
    return 0


def run_apart(name: str, limit: float) -> dict[str, Any]:
    """One stage, in a process of its own."""
    started = time.perf_counter()
    result: dict[str, Any] = {"stage": name, "passed": False}
    process = subprocess.Popen(
        [sys.executable, __file__, "--stage", name], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        out, errors = process.communicate(timeout=limit)
        if process.returncode == 0:
            result |= {"passed": True} | json.loads(out.strip().splitlines()[-1])
        else:
            lines = errors.strip().splitlines() or [f"ended with {process.returncode}"]
            result["error"] = lines[-1][:500]
            result["where"] = [line.strip() for line in lines if line.startswith("  File")][-1:]
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
        result["error"] = f"did not end within {limit:g} s"
        result["where"] = errors.strip().splitlines()[-1:]
    result["seconds"] = round(time.perf_counter() - started, 2)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", choices=STAGES, help="run this one, in this process")
    parser.add_argument("--only", nargs="*", choices=STAGES, default=list(STAGES), metavar="STAGE")
    parser.add_argument("--pack", help="kernels that were compiled before")
    parser.add_argument("--json", help="the lines go into this file too")
    parser.add_argument("--limit", type=float, default=15, help="seconds of a stage")
    parser.add_argument("--total", type=float, default=60, help="seconds of all of them")
    parser.add_argument("--launch", action="store_true", help="only launch what a pack is to have")
    parser.add_argument("--illegal-address", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        import tritorch as t

        x = t.tensor([float(i) for i in range(1000)]).cuda()
        x + x
        return 0
    if options.illegal_address:
        write_to_an_illegal_address()
        return 0
    if options.stage:
        return run_here(options.stage)
    if options.pack:
        os.environ["TRITORCH_KERNEL_PACK"] = os.path.abspath(options.pack)
    failed, ends = 0, time.monotonic() + options.total
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITORCH_CACHE_DIR"] = folder  # what is compiled is compiled here and now
        for name in options.only:
            left = ends - time.monotonic()
            if left > 1:
                result = run_apart(name, min(options.limit, left))
            else:
                result = {"stage": name, "passed": False, "error": "no time was left for it"}
            failed += not result["passed"]
            line = json.dumps(result)
            print(line, flush=True)
            if options.json:
                with open(options.json, "a") as file:
                    file.write(line + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
