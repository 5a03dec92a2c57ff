"""Machine code does not get worse than what is recorded: registers, spills, programs a
multiprocessor holds, instructions of main loops, bytes in flight (tools/read_sass.py).

What was recorded of the very same source is not compiled again."""

import importlib.util
import json
import pathlib

import pytest

triton = pytest.importorskip("triton")

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("read_sass", ROOT / "tools/read_sass.py")
read_sass = importlib.util.module_from_spec(spec)
spec.loader.exec_module(read_sass)

RECORDED = json.loads(read_sass.RECORD.read_text()).get(triton.__version__, {})
MORE = 1.1  # times the instructions: what another order of the same work may take

pytestmark = [
    pytest.mark.skipif(not RECORDED, reason="nothing is recorded for this Triton"),
    pytest.mark.skipif(not read_sass.disassembler().exists(), reason="there is no disassembler"),
]


def worse(now, then):
    """What has got worse."""
    found = [
        name
        for name in ("spilled", "instructions", "loop", "waits")
        if now[name] > MORE * then[name] + 2 * (name in ("loop", "waits"))
    ]
    found += [name for name in ("programs", "in_flight") if now[name] < then[name]]
    if now["matrix"]:
        found += ["between"] * (now["between"] > MORE * then["between"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted({family for family, _ in read_sass.chosen()}))
def test_no_kernel_got_worse(family):
    bad = {}
    for key in read_sass.chosen():
        then = RECORDED[".".join(key)]
        if key[0] != family or read_sass.digest(*key) == then["of"]:
            continue
        now = read_sass.row(*key)._asdict()
        if names := worse(now, then):
            bad[".".join(key)] = {name: (then[name], now[name]) for name in names}
    assert not bad


def test_figures_are_those_of_the_source():
    """What is recorded of a source is what it compiles to; another variant is another source."""
    key = "norm", "norm_rows"
    then = dict(RECORDED[".".join(key)])
    if read_sass.digest(*key) == then.pop("of"):
        assert read_sass.row(*key)._asdict() == then
    every = read_sass.variants().VARIANTS[key]
    assert len({read_sass.digest(*key, variant) for variant in every}) == len(every)


def test_every_kernel_is_recorded():
    assert {".".join(key) for key in read_sass.chosen()} == RECORDED.keys()


def test_what_is_worse_is_seen():
    then = {"registers": 32, "spilled": 0, "shared": 0, "programs": 16, "instructions": 100,
            "loop": 20, "matrix": 2, "between": 9.0, "waits": 1, "in_flight": 4096}  # fmt: skip
    assert worse(then, then) == []
    for name, value in (("spilled", 8), ("loop", 40), ("programs", 12), ("in_flight", 2048),
                        ("between", 12.0), ("waits", 9)):  # fmt: skip
        assert worse({**then, name: value}, then) == [name]


def test_what_a_branch_may_skip():
    """Of a loop what stands between tiles does not count; what multiplies does."""
    text = ["HGMMA.64x128x16.F32 R4, gdesc[UR4]", "BRA `(.L_x_1)", "STG.E desc[UR4][R2.64], R4",
            "IADD3 R0, R0, 0x1, RZ", "BRA `(.L_x_0)"]  # fmt: skip
    code = read_sass.Code(text, {".L_x_0": 0, ".L_x_1": 3}, {1, 4})
    assert read_sass.always(code, range(5)) == [text[0], text[1], text[3], text[4]]
    assert read_sass.always(code._replace(conditional={4}), range(5)) == text
    text[2] = "HMMA.16816.F32 R4, R0, R2, R4"
    assert read_sass.always(code, range(5)) == text


def test_figures_of_code():
    """Loops, loads in flight and programs, of code by hand."""
    code = read_sass.Code(
        ["LDG.E.128 R4, desc[UR4][R2.64]", "LDG.E.128 R8, desc[UR4][R2.64+0x10]",
         "FADD R4, R4, R8", "LDG.E R12, desc[UR4][R2.64]", "BRA `(.L_x_0)", "EXIT",
         "BRA `(.L_x_1)"],
        {".L_x_0": 2, ".L_x_1": 6}, {4},
    )  # fmt: skip
    assert list(read_sass.loops(code)) == [range(2, 5)]
    assert read_sass.always(code, range(2, 5)) == code.instructions[2:5]
    assert read_sass.thread_in_flight(code.instructions) == 32
    assert read_sass.thread_in_flight(["LDG.E R0, desc[UR4][R2.64]"]) == 4
    assert read_sass.programs(registers=32, warps=4, shared=0) == 16
    assert read_sass.programs(registers=255, warps=8, shared=0) == 1
    assert read_sass.programs(registers=32, warps=4, shared=100_000) == 2
