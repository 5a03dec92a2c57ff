"""Measured plans (gpu/tuning.py), what is timed for them, and tools/tune_kernels.py."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

import tritorch
from tritorch.bench.cases import attention as attention_cases, matmul as matmul_cases
from tritorch.bench.declare import Array, Benchmark, with_gradient
from tritorch.gpu import tuning
from tritorch.gpu.linalg import matmul_plan
from tritorch.gpu.nn import attention
from tritorch.gpu.reduce import softmax

pytestmark = pytest.mark.simulated
SHARED = 232_448  # bytes of a program on sm_90
KEYS = {
    "matmul": [
        (8192, 768, 3072, 1, 2, 132, False, 90), (256, 1000, 2048, 1, 2, 132, False, 90),
        (8192, 28672, 4096, 1, 1, 132, True, 90),
    ],
    "conv": [
        ((64, 56, 56), 64, 64, 9, 1, 2, 132, 0, False, False, 90),
        ((64, 7, 7), 512, 512, 9, 4, 2, 132, 512, False, True, 90),
    ],
    "conv_weight": [((64, 28, 28), 128, 128, 9, 1, 2, 132, 0, 90)],
    "attention": [
        (width, work, bounded, 1024, True, 132, capability)
        for width in (16, 64, 128, 256) for work in ("forward", "dq", "dkdv")
        for bounded in (False, True) for capability in (90, 100)
    ],
    "rows": [
        (rows, cols, 1, registers, 132, 90, "softmax_{}", 2)
        for rows in (2, 4096) for cols in (33, 1024, 16384, 32768, 65536) for registers in (1, 2)
    ],
    "row_gradients": [
        (4096, cols, itemsize, 132, rms, 90)
        for cols in (33, 1024, 8192, 16384) for itemsize in (2, 4) for rms in (False, True)
    ],
}  # fmt: skip
EVERY = [(family, key) for family, keys in KEYS.items() for key in keys]


def shared_memory(family, key, plan):
    """Bytes of what a plan's program holds there, about."""
    if family == "matmul":
        steps = plan.stages * (plan.block_m + plan.block_n) * plan.block_k * key[4]
        return steps + plan.block_m * plan.block_n * 2
    if family == "attention":
        width = max(key[0], 64)
        m, n = plan.block_m, plan.block_n
        outer, inner = (n, m) if key[1] == "dkdv" else (m, n)
        once = 1 if key[1] == "forward" else 2  # of q; of q and dout, or of k and v
        return width * 2 * (2 * inner * plan.stages + once * outer)
    if family == "row_gradients":
        return (plan.stages - 1) * 2 * plan.rows * plan.cols * key[2]
    return 0


@pytest.mark.parametrize(("family", "key"), EVERY, ids=lambda x: x if isinstance(x, str) else "")
def test_plans_near_the_models_fit(family, key):
    place = tuning.FAMILIES[family]
    model, near = place.model(*key), place.near(*key)
    assert model in near or (model is None and not near)
    assert len(set(near)) == len(near) and len(key) == len(place.names())
    for plan in near:
        assert isinstance(plan, place.plan) and plan.warps in (1, 2, 4, 8, 16, 32)
        assert shared_memory(family, key, plan) <= SHARED
    if family == "rows":
        for plan in near:
            held = plan.rows * plan.cols * key[3] // (32 * plan.warps)
            assert held <= (64 if plan.warps <= 8 else 32)
            assert plan.looped or plan.cols >= key[1]
            assert not plan.looped or (plan.parts - 1) * plan.per_part < key[1]
            assert not plan.looped or plan.parts * plan.per_part >= key[1]


def test_every_family_is_looked_at():
    assert set(KEYS) == set(tuning.FAMILIES)


def test_narrow_heads_have_small_tiles_among_their_candidates():
    for work in ("forward", "dq", "dkdv"):
        found = attention.near_blocks(64, work, True, 1024, True, 132, 90)
        small = [each for each in found if each[:3] == (64, 64, 4)]
        assert len(small) == 2 and len({each.stages for each in small}) == 2


def test_a_measured_plan_decides_for_its_sizes_on_its_device():
    key = (512, 512, 512, 1, 2, 132, False, 90)
    plan = matmul_plan.Plan(64, 64, 64, 4, 3, 2)
    assert matmul_plan.choose(*key) != plan
    with tuning.trying({("matmul", key): plan}):
        assert matmul_plan.choose(*key) == plan
        for other in ((512, 512, 512, 1, 2, 114, False, 90), (512, 512, 512, 1, 2, 132, False, 100),
                      (512, 512, 512, 2, 2, 132, False, 90)):  # fmt: skip
            assert matmul_plan.choose(*other) != plan
    assert matmul_plan.choose(*key) != plan


def entry(**fields):
    known = {"key": [4096, 1024, 1, 1, 132, 90, "softmax_{}", 2], "plan": [False, 4, 1024, 8, 1, 0]}
    return json.dumps({"rows": [known | fields]})


def test_tables_are_read_and_written():
    key = (4096, 1024, 1, 1, 132, 90, "softmax_{}", 2)
    table = tuning.read(entry())
    assert table == {("rows", key): softmax.RowPlan(False, 4, 1024, 8)}
    new = {"key": key, "plan": softmax.RowPlan(False, 1, 1024, 4), "gpu": "x"}
    other = {"key": (*key[:4], 108, 80, *key[6:]), "plan": [False, 4, 1024, 8, 1, 0]}
    both = tuning.merged(tuning.merged(entry(), {"rows": [other]}, ()), {}, ())
    assert len(tuning.read(both)) == 2
    again = tuning.merged(both, {"rows": [new]}, {("rows", key)})
    assert tuning.read(again)["rows", key] == new["plan"] and len(tuning.read(again)) == 2
    assert tuning.read(tuning.merged(again, {}, {("rows", key)})).keys() == {("rows", other["key"])}
    assert tuning.read('{"of another version": [{"key": [1]}]}') == {}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "no JSON"), ("[]", "no object of lists"), ('{"rows": {}}', "no object of lists"),
        ('{"rows": [{"key": []}]}', "rows 0 lacks a key or a plan"),
        ('{"rows": [1]}', "rows 0 lacks a key or a plan"),
        (entry(key=[4096, 1024]), "the key is not .*n_rows.*itemsize.*4096"),
        (entry(plan=[1, 2]), "the plan is not .*looped.*per_part"),
        (entry(plan=None), "the plan is not"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused_and_not_used(text, error, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=error):
        tuning.read(text)
    path = tmp_path / "tuned.json"
    path.write_text(text)
    monkeypatch.setattr(tuning, "PATH", path)
    tuning.stored.cache_clear()
    try:
        with pytest.warns(UserWarning, match=f"measured plans are not used: .*{error}"):
            assert tuning.stored() == {}
    finally:
        tuning.stored.cache_clear()


def test_the_table_here_has_plans_that_are_compiled():
    if not tuning.PATH.exists():
        pytest.skip("nobody has measured yet")
    for (family, key), plan in tuning.read(tuning.PATH.read_text()).items():
        assert plan in tuning.FAMILIES[family].near(*key), (family, key, plan)


# ---- the tool ------------------------------------------------------------------------------------


@pytest.fixture
def tool(repository):
    spec = importlib.util.spec_from_file_location("tune", repository / "tools/tune_kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small_problems(family, only):
    """Some that the simulated device computes in no time."""
    if family == "matmul":
        return [matmul_cases.one("small", (64, 64, 128), "linear", "bf16")]
    if family == "attention":
        return list(attention_cases.one(1, 1, 1, 64, 16, True, "bfloat16"))
    if family == "conv":
        x = Array((1, 16, 8, 8), "bfloat16", channels_last=True)
        w = Array((32, 16, 3, 3), "bfloat16", channels_last=True, scale=0.1, grad=True)
        y = Array((1, 32, 8, 8), "bfloat16", channels_last=True)
        call = lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1)
        forward = Benchmark("conv", "3x3", call, {"x": x, "w": w}, tolerance=1e-2)
        return [forward, with_gradient(forward, y, 0)]
    x = Array((4, 64), "bfloat16", grad=True)
    w = Array((64,), "bfloat16", "positive", grad=True)
    call = lambda t, x, w: t.nn.functional.rms_norm(x, (64,), w, 1e-5)
    forward = Benchmark("rows", "rms_norm", call, {"x": x, "w": w}, tolerance=2e-2)
    return [forward, with_gradient(forward, x, 0)]


def is_model(place, plan):
    return plan == tuning.FAMILIES[place[0]].model(*place[1])


def test_what_is_faster_is_written_and_used(tool, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "problems", small_problems)
    slow = lambda: sum(is_model(*each) for each in tuning._trial.items())
    monkeypatch.setattr(tool, "timed", lambda run: 1.0 + slow())
    out = tmp_path / "tuned.json"
    tool.main(["--few", "1", "--out", str(out)])
    said = capsys.readouterr().out
    table = tuning.read(out.read_text())
    assert {family for family, _ in table} == set(KEYS), said
    assert {key[1] for family, key in table if family == "attention"} == {"forward", "dq", "dkdv"}
    assert not any(is_model(*each) for each in table.items())
    assert "WRONG" not in said and "failed" not in said
    assert f"{len(table)} of {len(table)} plans were faster" in said
    monkeypatch.setattr(tuning, "PATH", out)
    tuning.stored.cache_clear()
    tuning._forget()
    try:
        for (family, key), plan in table.items():
            choose = {"matmul": matmul_plan.choose, "rows": softmax.row_plan}.get(family)
            if choose:
                assert choose(*key) == plan
        (x, w) = (tritorch.randn(*shape, device="cuda") for shape in ((4, 64), (64,)))
        tritorch.nn.functional.rms_norm(x, (64,), w)
    finally:
        tuning.stored.cache_clear()
        tuning._forget()


def test_gains_too_small_and_wrong_results_are_not_kept(tool, monkeypatch, capsys):
    problem = small_problems("rows", None)[0]
    monkeypatch.setattr(tool, "timed", lambda run: 1.0)
    assert not list(tool.tune(problem, 0.03, 1, set()))
    monkeypatch.setattr(tool, "timed", lambda run: 1 / len(repr(tuning._trial)))
    monkeypatch.setattr(tool, "agree", lambda *given: False)
    assert not list(tool.tune(problem, 0.03, 1, set()))
    assert "WRONG" in capsys.readouterr().out


def test_agreement(tool):
    x = [tritorch.tensor([3.0, 4.0])]
    assert tool.agree(x, x, 0) and tool.agree([x[0] * 1.01], x, 0.02)
    assert not tool.agree([x[0] * 1.01], x, 0.005)
    assert not tool.agree([x[0] * float("nan")], x, 1.0)


def test_a_family_without_time_is_told(tool, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "problems", small_problems)
    out = tmp_path / "tuned.json"
    tool.main(["rows", "--seconds", "0", "--out", str(out)])
    assert "rows: no time was left for 2 problems" in capsys.readouterr().out
    assert tuning.read(out.read_text()) == {}
    with pytest.raises(SystemExit):
        tool.main(["columns"])


# Launches a problem with its plans where kernels are only loaded, and says how many are missing.
LOADS = """
import importlib.util, sys
from tritorch.triton import cache, trace
from tritorch.gpu import tuning

trace.pretend(90)
trace.take_stored()
read, missing, found = cache.read, [], []

def watched(*place):
    entry = read(*place)
    (missing if entry is None else found).append(place)
    return entry

cache.read = watched
spec = importlib.util.spec_from_file_location("tune", sys.argv[1])
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)
(problem,) = tool.problems("rows", sys.argv[2])
run = tool.called(problem, empty=True)
with tuning.trying({}) as asked:
    run()
for plan in tool.plans(asked[0], 1):
    with tuning.trying({asked[0]: plan}):
        run()
print(len(found), len(missing))
"""


def test_plans_are_compiled_before_they_are_timed(repository, tmp_path):
    """The process that does it, for a problem and one plan beside the model's."""
    pytest.importorskip("triton")
    from tritorch.triton.trace import DISCARDING

    environment = os.environ | {"TRITORCH_SIMULATE_CUDA": DISCARDING}
    environment["TRITORCH_CACHE_DIR"] = str(tmp_path)
    tool, problem = str(repository / "tools/tune_kernels.py"), "rows/softmax 65536x1024$"

    def said(*arguments):
        command = [sys.executable, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    report = json.loads(said(tool, "rows", "--compile", "--few", "1", "--only", problem))
    assert (report["family"], report["kernels"], report["failed"]) == ("rows", 2, [])
    assert said("-c", LOADS, tool, problem).split() == ["2", "0"]
