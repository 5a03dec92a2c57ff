"""The benchmark suite: what is declared, run, compared, drawn and held against goals."""

import json
import math
import re
import sys
import xml.etree.ElementTree as xml
from types import SimpleNamespace

import numpy as np
import pytest

import tritorch
from tritorch.bench import (
    beside,
    cli,
    compare,
    contestants,
    declare,
    goals,
    kernels,
    models,
    report,
    roofline,
    run,
    supply,
    workbench,
)  # fmt: skip
from tritorch.bench.cases import all_benchmarks, attention, matmul, rows
from tritorch.bench.contestants import OURS
from tritorch.bench.declare import Array, Benchmark, Kit, Scale
from tritorch.bench.workbench import Workbench, summary

TINY = {each.key: each for each in all_benchmarks("tiny")}
LARGE = {each.key: each for each in all_benchmarks("gpu")}


# ---- declarations --------------------------------------------------------------------------------


def test_forty_shapes_of_named_models_in_bfloat16():
    found = declare.choose(LARGE.values(), families=["matmul"])
    assert sum("bf16" in each.tags for each in found) == len(matmul.SHAPES) == 40
    assert {"fp8", "fp16", "tf32", "fp32"} < {tag for each in found for tag in each.tags}
    assert all(each.about for each in found)


def test_a_run_fits_nine_minutes():
    assert set(declare.BUDGETS) == set(declare.FAMILIES)
    assert cli.WHOLE_RUN <= 530


def test_bytes_are_at_least_those_of_the_largest_input():
    for each in LARGE.values():
        if each.make is None:
            largest = max(spec.bytes for spec in each.inputs.values())
            assert each.bytes >= largest // 2, each.key  # a mask leaves out a half, at random


@pytest.mark.parametrize(
    "key", [k for k, b in TINY.items() if k.startswith(("matmul", "pointwise/", "reduction"))]
)
def test_bytes_are_those_of_inputs_and_results(key):
    each = TINY[key]
    inputs = supply.inputs(tritorch, each, 0, "cpu")
    out = each.prepared(Kit(tritorch, "cpu", inputs))()
    outputs = out if isinstance(out, tuple) else (out,)
    real = sum(x.numel() * x.element_size() for x in (*inputs.values(), *outputs))
    assert each.bytes == real or each.name.startswith("randn")
    if each.family == "matmul":
        inner = inputs["x"].numel() // (out.shape[0])
        assert each.flops == 2 * out.numel() * inner


@pytest.mark.parametrize("causal", [False, True])
def test_operations_of_attention(causal):
    length, width, heads = 7, 4, 3
    forward, backward = attention.one(2, heads, heads, length, width, causal, "float32")
    pairs = int(np.tri(length).sum()) if causal else length**2
    products = 2 * (2 * pairs * width)  # of the queries with the keys, of the weights with v
    assert forward.flops == 2 * heads * products
    assert backward.flops == forward.flops * 5 / 2
    assert forward.bytes == 4 * (2 * heads * length * width) * 4
    assert {k: s.grad for k, s in forward.specs.items()} == dict.fromkeys("qkv", False)
    assert all(s.grad for k, s in backward.specs.items() if k != "dy")


def test_resnets_convolutions():
    convolutions = list(models.resnet50_convolutions())
    assert len(convolutions) == 53 and len(set(convolutions)) == 23
    weights = sum(c.inputs * c.outputs * c.kernel**2 for c in convolutions)
    norms = 2 * sum(c.outputs for c in convolutions)
    assert weights + norms + 2048 * 1000 + 1000 == 25_557_032  # as the model's published size
    assert sum(math.prod(s) for s in models.resnet50_shapes()) == 25_557_032
    assert models.resnet50_operations(1) == pytest.approx(3 * 2 * 4.09e9, rel=0.01)


@pytest.mark.parametrize("key", [k for k in TINY if k.startswith("conv") and "gradient" not in k])
def test_operations_of_convolutions(key):
    each = TINY[key]
    inputs = supply.inputs(tritorch, each, 0, "cpu")
    out = each.prepared(Kit(tritorch, "cpu", inputs))()
    assert each.flops == 2 * out.numel() * inputs["w"][0].numel()
    assert inputs["x"].is_contiguous(memory_format=tritorch.channels_last)


def test_gpt2_is_as_large_as_published():
    published = models.gpt2_shapes(words=50257)
    assert sum(map(math.prod, published)) == 124_439_808
    sizes = {"layers": 2, "width": 8, "words": 11}
    model, _, _ = models.gpt(
        tritorch, np.random.default_rng(0), length=16, batch=1, heads=2, tied=True, **sizes
    )
    shapes = sorted(tuple(p.shape) for p in model.parameters())
    mine = [s if s[0] != 1024 else (16, *s[1:]) for s in models.gpt2_shapes(**sizes)]
    assert shapes == sorted(mine)
    matrices = sum(p.numel() for n, p in model.named_parameters() if p.dim() > 1) - 16 * 8
    pairs = 16 * 16 / 2
    attention_operations = 3 * 2 * 2 * 2 * pairs * 8  # three passes, two layers, two products
    assert models.gpt_operations(length=16, batch=1, **sizes) == pytest.approx(
        6 * 16 * matrices + attention_operations
    )


def test_the_readme_declares_a_benchmark(repository):
    text = (repository / "bench" / "README.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    names = {}
    exec(code.replace("\nBenchmark(", "\nmade = Benchmark("), names)
    x = tritorch.randn(3)
    assert names["made"].call(tritorch, x).equal(tritorch.nn.functional.silu(x))
    assert all(f"`{family}`" in text for family in declare.FAMILIES)


def test_two_of_one_name_are_refused(monkeypatch):
    twice = Benchmark("x", "same", lambda t: None)
    monkeypatch.setitem(declare.FAMILIES, "x", lambda scale: [twice, twice])
    with pytest.raises(ValueError, match="x/same"):
        all_benchmarks("tiny")


# ---- choosing ------------------------------------------------------------------------------------


def keys(*patterns, families=()):
    return [each.key for each in declare.choose(TINY.values(), patterns, families)]


def test_choosing():
    assert keys() == list(TINY)
    assert all(key.startswith("rows/") for key in keys("rows"))
    assert keys("softmax 4x33")[0] == "rows/softmax 4x33"
    assert keys("^rows/soft", "host/view$") == [
        "host/view", "rows/softmax 4x33", "rows/softmax 4x33 backward",
    ]  # fmt: skip
    assert all(key.startswith("rows/") for key in keys("backward", families=["rows"]))
    assert keys("nothing like that") == []


def test_the_command_line_lists(capsys):
    assert cli.main(["matmul", "--list", "--scale", "gpu", "--device", "cpu"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("matmul\n") and "square 8192x8192x8192 bf16" in text
    assert "1.1TFLOP" in text and "403MB" in text and "jax" in text
    assert cli.main(["nothing like that", "--device", "cpu"]) == 2


def test_who_takes_part():
    named = lambda key, peers, device="cuda": contestants.contestants(LARGE[key], peers, device)
    softmax = "rows/softmax 16384x4096"
    everyone = ["torch", "torch.compile", "jax", "cupy"]
    assert named(softmax, everyone) == [OURS, "torch", "torch.compile", "jax"]
    assert named(softmax, []) == [OURS]
    assert named("rows/softmax 65536x1024", everyone) == [OURS, "torch", "jax"]
    key = "attention/causal 4x16x4096x128"
    assert named(key, ["torch"]) == [OURS, "torch", *attention.BACKENDS]
    assert named(key, ["torch"], "cpu") == [OURS, "torch"]
    assert named("reduction/sum 8192x8192", everyone) == [OURS, "torch", "jax", "cupy"]


# ---- inputs --------------------------------------------------------------------------------------


def test_inputs_are_random_and_always_the_same():
    each = TINY["rows/cross_entropy 4x33"]
    first, again = (supply.inputs(tritorch, each, 0, "cpu") for _ in range(2))
    other = supply.inputs(tritorch, each, 1, "cpu")
    assert first["x"].equal(again["x"]) and not first["x"].equal(other["x"])
    assert first["y"].min() >= 0 and first["y"].max() < 33


@pytest.mark.parametrize("kind", ["normal", "positive", "labels", "permutation", "mask"])
def test_kinds_of_inputs(kind):
    spec = Array((50, 40), "float32", kind, high=7)
    x = supply.numbers(spec, 3)
    assert x.shape == spec.shape and (x != 0).any()
    if kind == "permutation":
        assert sorted(x.reshape(-1)) == list(range(2000))
    elif kind == "labels":
        assert set(np.unique(x)) == set(range(7))
    elif kind == "mask":
        assert x.dtype == bool and 0.4 < x.mean() < 0.6
    elif kind == "positive":
        assert x.min() >= 0.5 and x.max() < 1.5
    else:
        assert abs(x.mean()) < 0.1 and 0.9 < x.std() < 1.1
    with pytest.raises(ValueError, match="unknown kind"):
        supply.numbers(Array((2,), kind="zeros"), 0)


def test_inputs_longer_than_the_pool_repeat(monkeypatch):
    monkeypatch.setattr(supply, "POOL", 100)
    supply._pool.cache_clear()
    try:
        x = supply.numbers(Array((250,)), 1)
    finally:
        supply._pool.cache_clear()
    assert len(x) == 250 and (x[:100] == x[100:200]).all() and len(np.unique(x[:100])) == 100


def test_sets_of_inputs_are_larger_than_the_cache():
    x = Array((1 << 20,))
    each = Benchmark("x", "x", None, {"x": x}, bytes=2 * x.bytes)
    assert supply.sets_needed(each, 50 << 20) == supply.SETS
    assert supply.sets_needed(each, 5 << 20) == 3
    assert supply.sets_needed(each, 0) == 1
    huge = Array((1 << 30,))
    assert supply.sets_needed(Benchmark("x", "x", None, {"x": huge}, bytes=1 << 33), 1 << 33) == 1


# ---- every benchmark, once -----------------------------------------------------------------------


@pytest.mark.parametrize("key", [k for k, b in TINY.items() if b.clock != "self"])
def test_gives_the_right_result(key, monkeypatch):
    monkeypatch.setattr(workbench.gc, "collect", lambda: 0)  # of all that this process holds
    each = TINY[key]
    bench = Workbench(OURS, "cpu")
    got = bench.prepare(each)
    assert all(np.isfinite(x).all() for x in got)
    if each.reference is not None:
        assert contestants.difference(got, bench.reference()) <= each.tolerance
    times = bench.times(1e-3)
    assert times and all(t > 0 for t in times)
    bench.release()
    assert bench.prepared is None


SAMPLE = [
    "host/a + b", "matmul/gpt2 mlp up, weight gradient 5x11x10 fp32", "rows/layer_norm 4x33",
    "rows/softmax 4x33 backward", "indexing/masked_select 7x7", "pointwise/exp 8x8",
    "reduction/sort of rows 5x12", "optim/AdamW tiny, 4 tensors, 0.000152M",
]  # fmt: skip


@pytest.mark.simulated
@pytest.mark.parametrize("key", SAMPLE)
def test_gives_the_right_result_on_a_gpu(key):
    options = run.Options(device="cuda", scale="tiny", seconds=1e-3, rounds=1, isolated=False)
    runner = run.Runner(options)
    result = runner.run(TINY[key])
    ours = result["contestants"][OURS]
    assert "error" not in ours and ours["median_us"] > 0
    if TINY[key].clock == "device":
        assert ours["checked_against"] == ("NumPy" if TINY[key].reference else "the CPU")
    runner.close()


@pytest.mark.simulated
@pytest.mark.parametrize("kind", ["normal", "positive", "labels", "permutation", "mask"])
def test_inputs_are_the_same_on_a_gpu(monkeypatch, kind):
    monkeypatch.setattr(supply, "POOL", 100)
    for cache in (supply._pool, supply._pool_there):
        cache.cache_clear()
    dtype = {"labels": "int64", "permutation": "int64", "mask": "bool"}.get(kind, "float32")
    try:
        for size in (30, 250):
            spec = Array((size // 10, 10), dtype, kind, high=7, scale=0.5)
            host, there = (supply.tensor(tritorch, spec, 5, d) for d in ("cpu", "cuda"))
            assert there.device.type == "cuda" and there.cpu().equal(host)
    finally:
        for cache in (supply._pool, supply._pool_there):
            cache.cache_clear()


@pytest.mark.simulated
def test_small_kernels_are_replayed_from_a_graph():
    bench = Workbench(OURS, "cuda")
    bench.prepare(TINY["pointwise/exp 8x8"])
    times = bench.times(1e-3, graph=True)
    _, number, kept = bench.prepared.replay
    assert times and not bench.note and number >= 32 and len(kept) == number
    assert kept[0].allclose(bench.ours[0]["x"].exp())
    bench.release()


@pytest.mark.simulated
def test_torch_compile_gets_tritons_own_driver(monkeypatch):
    from triton.runtime import driver

    ours, own = driver.active, object()
    monkeypatch.setattr(driver, "_default", own)
    with contestants.tritons_driver(True):
        assert driver.active is own
    assert driver.active is ours
    with contestants.tritons_driver(False):
        assert driver.active is ours


def test_a_cold_start_is_a_process_of_its_own():
    each = TINY["start/import"]
    call = each.prepared(Kit(SimpleNamespace(__name__="json"), "cpu", {}))
    assert 0 < call() < 30


# ---- running -------------------------------------------------------------------------------------


def wrong(t, x):
    raise ArithmeticError("no")


FAILING = [
    Benchmark("x", "raises", wrong, {"x": Array((3,))}),
    Benchmark("x", "lies", lambda t, x: x + 1, {"x": Array((3,))}, reference=lambda x: x),
    Benchmark("x", "works", lambda t, x: x * 2, {"x": Array((3,))}, reference=lambda x: 2 * x,
              bytes=24, amount=(3, "numbers")),
]  # fmt: skip


def measured(monkeypatch, benchmarks, **options):
    monkeypatch.setitem(declare.BUDGETS, "x", 10)
    shown = []
    how = run.Options(seconds=2e-3, rounds=2, scale="tiny", isolated=False, **options)
    whole = run.run_all(benchmarks, how, lambda each, result: shown.append(each.key))
    return whole, shown


def test_one_failure_is_no_others(monkeypatch):
    whole, shown = measured(monkeypatch, FAILING)
    results = whole["results"]
    assert shown == list(results) == ["x/raises", "x/lies", "x/works"]
    assert "ArithmeticError: no" in results["x/raises"]["error"]
    assert "differs from NumPy" in results["x/lies"]["error"]
    row = results["x/works"]["contestants"][OURS]
    assert row["low_us"] <= row["median_us"] <= row["high_us"]
    assert row["gb_s"] == pytest.approx(24e-3 / row["median_us"])
    assert row["rate"] == pytest.approx(3e6 / row["median_us"])
    assert "FAILED" in report.line("x/lies", results["x/lies"])
    assert "numbers/s" in report.line("x/works", results["x/works"])
    assert json.loads(json.dumps(whole)) == whole
    assert whole["ceilings"]["copy_gb_s"] > 0
    assert "2 failed" in report.closing(whole)


def test_time_that_is_up_is_said(monkeypatch):
    whole, _ = measured(monkeypatch, FAILING[2:], budget=1e-9)
    result = whole["results"]["x/works"]
    assert result["skipped"] and "skipped" in report.line("x/works", result)
    assert "1 skipped" in report.closing(whole)


def test_families_share_what_time_is_left():
    families = list(declare.BUDGETS)
    left = 500.0
    for name in families:
        part = run.allowance(name, families, left)
        assert 0 < part <= left
        left -= part
    assert left == pytest.approx(0)
    first, second = families[:2]
    both = run.allowance(first, [first, second], 100)
    assert both == pytest.approx(
        100 * declare.BUDGETS[first] / (declare.BUDGETS[first] + declare.BUDGETS[second])
    )


def test_ratios_are_of_rounds(monkeypatch):
    class Peer:
        note, prepared = "", None

        def __init__(self, seconds):
            self.seconds = seconds

        def prepare(self, benchmark):
            return [np.array([1.0])]

        def times(self, seconds, graph=False):
            return [self.seconds] * 3

        def release(self):
            pass

    options = run.Options(peers=["torch"], rounds=3, isolated=False)
    runner = run.Runner(options)
    runner._benches = {OURS: Peer(2.0), "torch": Peer(3.0)}
    runner.ceilings = {"copy_gb_s": 8e-9, "matmul_tflop_s": {"fp32": 10e-12}}
    each = Benchmark("x", "x", lambda t: None, bytes=8, flops=40, share="matmul", dtype="fp32")
    result = runner.run(each)
    assert result["ratios"] == {"torch": 1.5}
    assert result["share"] == pytest.approx(2.0)  # 20 a second, where 10 were measured at best
    assert result["share_of_roof"] == pytest.approx(2.0)
    assert result["contestants"]["torch"]["median_us"] == 3e6
    # A peer that computes something else is not timed.
    runner._benches["torch"].prepare = lambda benchmark: [np.array([2.0])]
    result = runner.run(each)
    assert "differs from torch" in result["error"]


@pytest.mark.slow
def test_libraries_run_in_processes_of_their_own():
    options = run.Options(seconds=0.01, rounds=2, scale="tiny", isolated=True)
    whole = run.run_all([TINY["rows/softmax 4x33"]], options, lambda *_: None)
    (result,) = whole["results"].values()
    row = result["contestants"][OURS]
    assert "error" not in result and row["median_us"] > 0 and row["checked_against"] == "NumPy"


@pytest.mark.compile
@pytest.mark.slow
def test_kernels_are_described_without_a_gpu():
    found = kernels.describe(["^rows/softmax 65536x1024$"], [], [80, 90], 120)
    assert not found.get("error") and not found["failed"]
    (row,) = found["kernels"]
    assert row["kernel"] == "softmax.softmax_rows" and row["types"] == "bf16"
    for taken in row["compiled"].values():
        assert 0 < taken["registers"] <= 255 and taken["spilled"] == 0
        assert "16-byte loads" in taken["instructions"]
    assert set(row["compiled"]) == {"80", "90"}
    assert "softmax.softmax_rows" in kernels.table(found)


@pytest.mark.compile
@pytest.mark.slow
def test_kernels_are_those_of_their_target():
    found = kernels.describe(["^matmul/vit-b16 patches .* bf16$"], [], [80, 90], 120)
    by_target = {target: taken for row in found["kernels"] for target, taken in
                 row["compiled"].items()}  # fmt: skip
    assert "mma" in by_target["80"]["instructions"]
    assert {"wgmma", "TMA"} <= set(by_target["90"]["instructions"])
    assert all(not taken["spilled"] for taken in by_target.values())


# ---- results -------------------------------------------------------------------------------------


def test_differences():
    x, y = np.array([3.0, 4.0]), np.array([3.0, 4.5])
    assert contestants.difference([x], [x]) == 0
    assert contestants.difference([y], [x]) == pytest.approx(0.1)
    assert contestants.difference([x], [x, y]) == math.inf
    assert contestants.difference([x * math.nan], [x]) == math.inf
    assert contestants.difference([x[:1]], [x]) == math.inf
    long = tritorch.arange(3 * contestants.COMPARED, dtype=tritorch.float64)
    (sampled,) = contestants.flatten(long)
    assert len(sampled) <= contestants.COMPARED
    assert (sampled == contestants.sampled(long.numpy())).all()
    assert contestants.flatten((tritorch.ones(2), [3.0], None))[1] == [3.0]


def test_summaries():
    row = summary([4e-6, 1e-6, 2e-6, 3e-6, 5e-6])
    assert row["median_us"] == pytest.approx(3) and row["count"] == 5
    assert (row["low_us"], row["high_us"]) == pytest.approx((2, 4))
    assert report.spread(row) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("us", "text"), [(0.5, "0.5 us"), (123.4, "123 us"), (4567, "4.57 ms"), (2.5e6, "2.5 s")]
)
def test_durations(us, text):
    assert report.duration(us) == text


def test_amounts():
    assert [report.amount(x) for x in (5, 1234, 5.6e9)] == ["5", "1.23k", "5.6G"]


# ---- comparing two runs --------------------------------------------------------------------------


def result(us, spread=0.02, **more):
    row = {"median_us": us, "low_us": us * (1 - spread / 2), "high_us": us * (1 + spread / 2)}
    return {"family": "rows", "contestants": {OURS: row}, **more}


def whole(results, gpu="H200", **more):
    machine = {"cpu": "c", "cores": 4, "gpu": gpu, "commit": "abc", "date": "2026-01-01"}
    return {"machine": machine | more, "device": "cuda", "scale": "gpu", "results": results,
            "ceilings": {}, "seconds": 1.0}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (result(100), result(102), "same"),  # less than 3 in a hundred
        (result(100), result(104), "slower"),
        (result(100), result(96), "faster"),
        (result(100, 0.2), result(120, 0.2), "same"),  # within both spreads
        (result(100, 0.2), result(140, 0.2), "slower"),
        (result(100), {"family": "rows", "error": "x", "contestants": {}}, "broken"),
        ({"family": "rows", "error": "x", "contestants": {}}, result(100), "repaired"),
        (None, result(100), "new"),
        (result(100), None, "gone"),
    ],
)
def test_what_counts_as_a_change(before, after, verdict):
    reports = [whole({"k": each} if each else {}) for each in (before, after)]
    (change,) = compare.changes(*reports)
    assert change.verdict == verdict


def test_other_machines_are_compared_by_ratios():
    def beside(us, ratio):
        found = result(us, ratios={"torch": ratio})
        found["contestants"]["torch"] = found["contestants"][OURS]
        return found

    before = whole({"a": beside(100, 1.2), "b": beside(100, 1.2), "c": result(5)}, gpu="A100")
    after = whole({"a": beside(50, 0.9), "b": beside(50, 1.21), "c": result(9)})
    verdicts = {change.key: change.verdict for change in compare.changes(before, after)}
    assert verdicts == {"a": "slower", "b": "same", "c": "same"}


def test_a_regression_is_the_exit_status(tmp_path, capsys):
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, us in zip(paths, (100, 150)):
        path.write_text(json.dumps(whole({"rows/softmax": result(us)})))
    command = ["--compare", *map(str, paths)]
    assert cli.main(command) == 1
    assert "1.50x the time" in capsys.readouterr().out
    assert cli.main(["--compare", str(paths[1]), str(paths[0])]) == 0


def test_kernels_that_spill_more_are_regressions(tmp_path, capsys):
    def report(spilled):
        row = {"kernel": "norm.norm_rows", "types": "bf16", "benchmark": "rows/x",
               "compiled": {"90": {"spilled": spilled}, "80": {"error": "x"}}}  # fmt: skip
        return whole({}) | {"kernels": {"kernels": [row]}}

    assert compare.spills(report(8), report(8)) == compare.spills(report(8), report(0)) == []
    assert compare.spills(report(0), report(8)) == [
        "norm.norm_rows bf16 rows/x sm_90: 0 -> 8 bytes"
    ]
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, spilled in zip(paths, (0, 8)):
        path.write_text(json.dumps(report(spilled)))
    assert compare.main(*paths) == 1 and compare.main(*reversed(paths)) == 0


# ---- the roofline --------------------------------------------------------------------------------


def run_of_a_gpu():
    def one(family, us, bytes, flops, share):
        return {
            **result(us), "family": family, "bytes": bytes, "flops": flops, "clock": "device",
            "share_of": share, "dtype": "bf16", "tags": [], "ratios": {"torch": 1.1},
        }  # fmt: skip

    report = whole(
        {
            "matmul/square": one("matmul", 1000, 4 * 10**8, 8 * 10**11, "matmul"),
            "rows/softmax <1>": one("rows", 100, 4 * 10**8, 0, "copy"),
            "rows/broken": {"family": "rows", "error": "it broke", "contestants": {}},
        },
        tritorch="0", simulated=False,
    )  # fmt: skip
    report["ceilings"] = {"copy_gb_s": 4000.0, "matmul_tflop_s": {"bf16": 800.0, "fp32": 60.0}}
    return report


def test_roofs():
    report = run_of_a_gpu()
    high, low = roofline.roofs(report)
    assert (high.name, low.name) == ("bf16", "fp32")
    assert high.corner == pytest.approx(200) and high.height(1) == pytest.approx(4)
    assert high.height(1e6) == 800
    report["ceilings"]["matmul_tflop_s"]["fp16"] = 780.0
    assert [roof.name for roof in roofline.roofs(report)] == ["bf16, fp16", "fp32"]
    points = roofline.points(report)
    assert [(p.intensity, p.rate) for p in points] == [
        (2000, 800), (0.15, pytest.approx(0.15 * 4)),  # all of the bandwidth
    ]  # fmt: skip
    assert points[1].rate == pytest.approx(high.height(points[1].intensity))
    plane = roofline.Plane(points, [high, low])
    corners = plane.outline(high)
    assert corners[1] == (pytest.approx(200), pytest.approx(800))
    slope = math.log(corners[1][1] / corners[0][1]) / math.log(corners[1][0] / corners[0][0])
    assert slope == pytest.approx(1)
    left, bottom = plane.at(10.0 ** plane.x[0], 10.0 ** plane.y[0])
    right, top = plane.at(10.0 ** plane.x[1], 10.0 ** plane.y[1])
    assert (left, bottom) == (roofline.LEFT, roofline.HEIGHT - roofline.BOTTOM)
    assert (right, top) == (roofline.WIDTH - roofline.RIGHT, roofline.TOP)
    for point in points:  # a share of one touches the roof
        assert plane.at(point.intensity, point.rate)[1] >= plane.at(
            point.intensity, high.height(point.intensity)
        )[1] - 1e-9  # fmt: skip


def test_the_page_needs_nothing_else(tmp_path):
    picture, page = roofline.draw(tmp_path, run_of_a_gpu())
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert "http" not in text and "<script" not in text and "src=" not in text
    drawing = text[text.index("<svg") : text.index("</svg>") + 6]
    root = xml.fromstring(drawing)
    circles = [each for each in root.iter("circle") if each.find("title") is not None]
    assert len(circles) == 2
    for circle in circles:
        assert roofline.LEFT <= float(circle.get("cx")) <= roofline.WIDTH - roofline.RIGHT
        assert roofline.TOP <= float(circle.get("cy")) <= roofline.HEIGHT - roofline.BOTTOM
    assert len(list(root.iter("polyline"))) == 2
    assert "rows/softmax &lt;1&gt;" in drawing and "it broke" in text


def test_a_page_of_nothing():
    text = roofline.page(whole({}))
    assert "<svg" in text


# ---- goals ---------------------------------------------------------------------------------------


def of(family, tags=(), ratio=1.0, **more):
    return {**result(100), "family": family, "tags": list(tags), "ratios": {"torch": ratio}, **more}


def test_goals_are_filled_from_a_gpu_alone(tmp_path):
    results = {
        "matmul/a": of("matmul", ["bf16"], 2.0),
        "matmul/b": of("matmul", ["bf16"], 0.5),
        "matmul/8192x8192x8192": of("matmul", ["fp8"], 1.05),
        "host/a + b": of("host", ["small operator"], 2.0),
        "rows/softmax": of("rows", ["softmax", "forward"], share=0.95),
        "attention/c": of("attention", ["forward"]) | {
            "ratios": {"torch": 1.2, "torch.sdpa flash": 1.1, "jax": 0.5}},
        "losses/l": of("losses") | {"ratios": {"torch": 1.0, "torch.compile": 1.6}},
    }  # fmt: skip
    results["losses/l"]["contestants"] = {
        OURS: {"peak_bytes": 10, "median_us": 1}, "torch.compile": {"peak_bytes": 40},
    }  # fmt: skip
    found = goals.measured(whole(results, tritorch="0", simulated=False))
    value = lambda name: (found[name]["value"], found[name]["met"])
    assert value("matmul bf16") == (1.0, True)
    assert value("matmul bf16, worst") == (0.5, False)
    assert found["matmul bf16"]["worst"] == {"matmul/b": 0.5}
    assert value("matmul fp8") == (1.05, True)
    assert value("small operators") == (0.5, True)
    assert value("softmax and norms forward") == (0.95, True)
    assert value("attention forward") == (1.1, True)
    assert value("linear + cross-entropy") == (1.6, True)
    assert value("linear + cross-entropy, memory") == (0.25, True)
    assert "optimizer step" not in found

    # A figure that is missing may be the one that spoils it.
    results["matmul/d"] = {"family": "matmul", "tags": ["bf16"], "error": "x", "contestants": {}}
    found = goals.measured(whole(results, tritorch="0", simulated=False))
    assert value("matmul bf16") == (1.0, False)
    assert found["matmul bf16"]["without"] == ["matmul/d"]

    for more in ({"simulated": True}, {}):
        assert goals.measured(whole(results, **more)) == {}
    on_cpu = whole(results, simulated=False) | {"device": "cpu"}
    assert goals.measured(on_cpu) == {}


def test_goals_keep_what_was_measured_before(tmp_path):
    assert "0 of" in goals.fill(tmp_path, whole({}))
    stored = json.loads((tmp_path / "goals.json").read_text())
    assert len(stored) == len(goals.GOALS)
    assert {row["value"] for row in stored.values()} == {goals.UNMEASURED}
    first = whole({"matmul/a": of("matmul", ["fp8"], 1.1)}, tritorch="0", simulated=False)
    goals.fill(tmp_path, first)
    second = whole({"optim/x": of("optim", ["gpt2", "plain"], share=0.91)}, tritorch="1",
                   simulated=False, commit="def")  # fmt: skip
    assert "2 of" in goals.fill(tmp_path, second)
    stored = json.loads((tmp_path / "goals.json").read_text())
    assert stored["matmul fp8"]["commit"] == "abc" and stored["optimizer step"]["commit"] == "def"
    page = (tmp_path / "GOALS.md").read_text()
    assert "| matmul fp8 | times cuBLAS's speed | >= 1.03 | 1.1 | yes |" in page
    assert page.count(goals.UNMEASURED) == len(goals.GOALS) - 2


def test_the_recorded_goals_are_those_that_are_declared(repository):
    stored = json.loads((repository / "bench" / "results" / "goals.json").read_text())
    assert list(stored) == [goal.name for goal in goals.GOALS]
    assert {name: row["target"] for name, row in stored.items()} == {
        goal.name: goal.target for goal in goals.GOALS
    }


def test_every_goal_has_benchmarks():
    results = {key: {"family": each.family, "tags": list(each.tags)} for key, each in LARGE.items()}
    for goal in goals.GOALS:
        assert any(goal.counts(key, result) for key, result in results.items()), goal.name
    counted = [k for k, r in results.items() if goals.GOALS[0].counts(k, r)]
    assert len(counted) == 40


def test_scales():
    assert [Scale(name).pick(1, 2, 3) for name in declare.SCALES] == [1, 2, 3]
    assert max(rows.COLUMNS) == 65536 and min(rows.COLUMNS) == 1024


# ---- libraries in processes of their own ---------------------------------------------------------


class Answering:
    """A library that takes so many milliseconds, and gets a number."""

    def __init__(self, name, ms, loss):
        self.name, self.ms, self.loss, self.asked = name, ms, loss, []

    def ask(self, **request):
        self.asked.append(request)
        return {"ms": self.ms, "loss": self.loss}


HOW = {"count": "steps", "time": "ms", "check": "loss", "scale": 1e-3, "tolerance": 1e-3}


def test_libraries_beside_each_other(tmp_path, capsys):
    ours, theirs = Answering("tritorch", 2.0, 1.0), Answering("torch", 4.0, 1.0005)
    row = beside.compare([ours, theirs], 3, 0.04, {"case": "x"}, **HOW)
    assert row == {"tritorch": 2.0, "torch": 4.0, "ratio": 0.5, "loss": [1.0, 1.0005]}
    assert [each["steps"] for each in ours.asked] == [3, 2, 10, 10, 10]  # 40 ms of the slower one
    assert "ratio 0.50" in beside.line("x", row, "ms")
    assert beside.compare([ours], 1, 0.04, {"case": "x"}, **HOW) == {"tritorch": 2.0}
    beside.finish(tmp_path / "found.json", {"x": row}, "cases", threads=2)
    stored = json.loads((tmp_path / "found.json").read_text())
    assert stored["geometric mean of ratios"] == 0.5 and stored["threads"] == 2
    assert stored["cases"]["x"] == row and stored["machine"]["cores"] >= 1
    theirs.loss = 2.0
    with pytest.raises(AssertionError, match="results differ"):
        beside.compare([ours, theirs], 1, 0.04, {"case": "x"}, **HOW)


def test_a_process_that_ends_is_named():
    code = "import sys; sys.stdin.readline(); print('{\"a\": 1}')"
    library = beside.Library("short", [sys.executable, "-c", code], threads=1)
    try:
        assert library.ask() == {"a": 1}
        with pytest.raises(RuntimeError, match="short ended"):
            library.ask()
    finally:
        library.close()
