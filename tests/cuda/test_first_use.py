"""Compiled kernels on disk: keys, damage, races, packs, launches without Triton, precompiling."""

import hashlib
import io
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import tritorch
from tritorch import _C, cuda
from tritorch.cli import precompile as _precompile
from tritorch.triton import cache, kernel, keys, names, sources
from tritorch.triton.cache import Entry
from tritorch.triton.sources import CONSTANT, SPECIALISED, UNSPECIALISED

HERE = "/"  # no checkout, whose package has no extension
PLACE = "sm_90-" + "a" * 20, "b" * 40
PLAN = {
    "signature": ["*fp32", ["i32", "constexpr"]], "num_warps": 4, "num_ctas": 1, "shared": 0,
    "cooperative": False, "dependent": False, "scratch": [0, 1], "profile": [0, 1], "meta": None,
    "has_rounding_flag": True, "pads_fp4_shape": False,
}  # fmt: skip
ENTRY = Entry("copy", PLAN, b"code" * 64)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITORCH_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("TRITORCH_KERNEL_PACK", raising=False)
    monkeypatch.setattr(cache, "_attached", [])  # of packages that other tests loaded
    return tmp_path / "kept"


def python(code, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], cwd=HERE, check=False,
        capture_output=True, text=True, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- the store -----------------------------------------------------------------------------------


def test_what_is_written_is_read(folder):
    assert cache.read(*PLACE) is None
    assert cache.write(*PLACE, ENTRY)
    assert cache.read(*PLACE) == ENTRY
    path = folder / PLACE[0] / PLACE[1]
    assert list(cache.entries()) == [("/".join(PLACE), path.stat().st_size)]
    assert cache.clear() == 1 and cache.read(*PLACE) is None and not list(cache.entries())


@pytest.mark.parametrize("length", [0, 10, 47, 48, 60, -1])
def test_what_is_cut_off_is_absent_and_written_again(folder, length):
    cache.write(*PLACE, ENTRY)
    path = folder / PLACE[0] / PLACE[1]
    path.write_bytes(path.read_bytes()[:length])
    assert cache.read(*PLACE) is None
    assert cache.write(*PLACE, ENTRY) and cache.read(*PLACE) == ENTRY


def test_every_damaged_byte_is_noticed():
    data = bytearray(ENTRY.to_bytes())
    for i in range(0, len(data), 7):
        data[i] ^= 1
        assert Entry.from_bytes(bytes(data)) is None
        data[i] ^= 1
    assert Entry.from_bytes(bytes(data)) == ENTRY


def test_a_file_with_another_head_counts_as_absent(folder):
    """Whole by its checksum: another version's, or another program's."""
    whole = {"name": "copy", "plan": PLAN}
    heads = [b"", b"{", b"[" * 100_000, b"\xff", b"3", b"null", b"[]", b"{}", b"9" * 5000]
    heads += [
        json.dumps(head).encode()
        for head in (
            {"name": "copy"}, {"plan": PLAN}, whole | {"more": 1}, whole | {"name": 3},
            whole | {"plan": None}, whole | {"plan": []}, whole | {"plan": PLAN | {"more": 1}},
            *(
                whole | {"plan": PLAN | {name: bad}}
                for name in PLAN for bad in ("x", -1, 2**40, [1], {}, 1.5)
                if not (name in ("signature", "meta") and bad == [1])
            ),
        )
    ]  # fmt: skip
    path = folder / PLACE[0] / PLACE[1]
    path.parent.mkdir(parents=True)
    for head in heads:
        body = len(head).to_bytes(4, "little") + head + b"code"
        path.write_bytes(cache._MAGIC + hashlib.sha256(body).digest() + body)
        assert cache.read(*PLACE) is None, head[:100]
    assert cache.write(*PLACE, ENTRY) and cache.read(*PLACE) == ENTRY


def test_a_small_pack_is_not_blown_up(folder, monkeypatch):
    large = ENTRY._replace(cubin=bytes(40 << 20)).to_bytes()  # forty thousand bytes when packed
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for letter in "abcd":
            archive.writestr(f"{PLACE[0]}/{letter * 40}", large)
        archive.writestr("/".join(PLACE[:1]) + "/" + "e" * 40, ENTRY.to_bytes())
    assert packed.tell() < 1 << 20
    good, bad = cache.unpack(packed)
    assert (len(good), bad) == (0, 5) and not list(cache.entries())
    monkeypatch.setattr(cache, "_LARGEST", 100)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("/".join(PLACE), ENTRY.to_bytes())
    assert cache.unpack(packed) == ([], 1)


def test_without_a_place_to_write_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.delenv("TRITORCH_KERNEL_PACK", raising=False)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRITORCH_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert not cache.write(*PLACE, ENTRY) and cache.read(*PLACE) is None and cache.clear() == 0
    monkeypatch.delenv("TRITORCH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.root() == tmp_path / "tritorch"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # no home
    assert cache.root() is None
    assert not cache.write(*PLACE, ENTRY) and cache.read(*PLACE) is None and cache.clear() == 0


def test_a_full_disk_leaves_nothing_behind(folder, monkeypatch):
    def full(self, data):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert not cache.write(*PLACE, ENTRY)
    assert not list((folder / PLACE[0]).iterdir())


def test_writers_beside_each_other(folder):
    code = """
        import json, sys
        from tritorch.triton import cache
        from tritorch.triton.cache import Entry
        entry = Entry("copy", json.loads(sys.argv[3]), bytes(100_000))
        seen = set()
        for _ in range(60):
            assert cache.write(*sys.argv[1:3], entry)
            seen.add(cache.read(*sys.argv[1:3]) == entry)
        assert seen == {True}
    """
    command = [sys.executable, "-c", textwrap.dedent(code), *PLACE, json.dumps(PLAN)]
    writers = [subprocess.Popen(command, cwd=HERE) for _ in range(4)]
    assert [each.wait() for each in writers] == [0] * 4
    assert [path.name for path in (folder / PLACE[0]).iterdir()] == [PLACE[1]]


# ---- packs ---------------------------------------------------------------------------------------


def test_packs(folder, monkeypatch, tmp_path):
    other = PLACE[0], "c" * 40
    cache.write(*PLACE, ENTRY)
    cache.write(*other, ENTRY)
    packed = io.BytesIO()
    assert cache.pack(packed) == 2
    assert cache.pack(tmp_path / "one.zip", ["/".join(PLACE), "not/there"]) == 1
    again = io.BytesIO()
    assert cache.pack(again) == 2 and again.getvalue() == packed.getvalue()
    cache.clear()
    monkeypatch.setenv("TRITORCH_KERNEL_PACK", str(tmp_path / "one.zip"))
    assert cache.read(*PLACE) == ENTRY and cache.read(*other) is None
    assert not list(cache.entries())
    monkeypatch.delenv("TRITORCH_KERNEL_PACK")
    assert cache.unpack(packed) == (["/".join(PLACE), "/".join(other)], 0)
    assert cache.read(*PLACE) == ENTRY == cache.read(*other)


def test_what_is_attached_is_asked_last_and_only_for_places(folder):
    asked = []
    cache.attach(lambda target, key: asked.append((target, key)) or ENTRY)
    for place in ("not", "there"), ("sm_90", PLACE[1]), (PLACE[0], "../" + PLACE[1]):
        assert cache.read(*place) is None and not asked
    assert cache.read(*PLACE) == ENTRY and asked == [(90, PLACE[1])]
    cache.write(*PLACE, ENTRY)
    assert cache.read(*PLACE) == ENTRY and len(asked) == 1


def test_artifacts_of_this_process(folder, monkeypatch):
    monkeypatch.setattr(cache, "used", set())
    assert tritorch.compiler.save_cache_artifacts() is None
    cache.write(*PLACE, ENTRY)
    saved, info = tritorch.compiler.save_cache_artifacts()
    assert info.precompile_artifacts == ["/".join(PLACE)] and not info.empty()
    cache.clear()
    assert tritorch.compiler.save_cache_artifacts() is None
    assert tritorch.compiler.load_cache_artifacts(saved) == info
    assert cache.read(*PLACE) == ENTRY
    assert tritorch.compiler.load_cache_artifacts(b"something else") is None


def test_damaged_packs_give_what_is_whole(folder):
    for letter in "abc":
        cache.write(PLACE[0], letter * 40, ENTRY)
    packed = io.BytesIO()
    cache.pack(packed)
    whole = packed.getvalue()
    for i in range(0, len(whole), 11):
        cache.clear()
        damaged = bytearray(whole)
        damaged[i] ^= 0xFF
        try:
            good, bad = cache.unpack(io.BytesIO(damaged))
        except ValueError:
            continue
        assert len(good) + bad <= 3
        assert all(cache.read(*each.split("/")) == ENTRY for each in good)


def test_packs_that_are_none(folder, monkeypatch, tmp_path):
    bad = io.BytesIO()
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("../" + PLACE[1], ENTRY.to_bytes())
        archive.writestr("/".join(PLACE), ENTRY.to_bytes()[:-1])
        archive.writestr(f"{PLACE[0]}/{'c' * 40}", ENTRY.to_bytes())
    assert cache.unpack(bad) == ([f"{PLACE[0]}/{'c' * 40}"], 2) and len(list(cache.entries())) == 1
    with pytest.raises(ValueError, match="not a pack of compiled kernels"):
        cache.unpack(io.BytesIO(b"something else"))
    monkeypatch.setenv("TRITORCH_KERNEL_PACK", str(tmp_path / "missing.zip"))
    with pytest.warns(RuntimeWarning, match=r"TRITORCH_KERNEL_PACK.*missing.zip"):
        assert cache.read(*PLACE) is None


# ---- keys ----------------------------------------------------------------------------------------


def test_parameters_are_read_from_the_source():
    triton = pytest.importorskip("triton")
    count = 0
    for path in sources.folder().rglob("*.py"):
        if path.stem == "__init__":
            continue
        module = __import__(sources.module(path.stem), fromlist=["*"])
        for name, value in vars(module).items():
            if isinstance(value, triton.JITFunction) and value.fn.__module__ == module.__name__:
                found = sources.parameters(path.stem, name)
                if sources.defines(path.stem, name):  # else made by a function
                    assert found == sources.parameters_of(value), name
                    count += 1
    assert count > 400
    assert sources.parameters("pointwise", "nothing") is None


def key(*args, kinds=None, **options):
    return keys.of_launch("copy.fill", kinds or (SPECIALISED,) * len(args), args, options)


@pytest.mark.device
def test_keys_tell_apart_what_triton_does():
    array = cuda.empty(64)
    aligned, shifted = array, array[1:]
    wide = cuda.empty(64, dtype=tritorch.float64)
    arguments = [aligned, shifted, wide, 1, 2, 16, 2**40, 2**40 + 1, 2**63, True, None, 1.5,
                 (1, 2), (1, 16), (2, 2)]  # fmt: skip
    assert len({key(each) for each in arguments}) == len(arguments)
    assert key(3) == key(5) == key(-3) and key(32) == key(0) and key(True) == key(False)
    assert key(aligned) == key(cuda.empty(128)) and key(0.5) == key(2.5)
    free = lambda value: key(value, kinds=(UNSPECIALISED,))
    assert free(1) == free(2) == free(16) != free(2**40) and free(aligned) == free(shifted)
    assert free((1,)) != free((2,))  # as Triton does
    assert key(2, num_warps=4) != key(2, num_warps=8) != key(2)
    assert key(2, num_warps=4, num_stages=2) == key(2, num_stages=2, num_warps=4)


def test_keys_of_constants():
    constant = lambda value: key(value, kinds=(CONSTANT,))
    values = [1, True, 1.0, "1", None, (1,), ((1,),), 0.0, -0.0, float("nan"), float("inf"),
              names.function("pointwise", "exp"), names.function("complex", "exp"),
              names.made("optim", "formula", "adamw"), names.element_type("float32")]  # fmt: skip
    assert len({constant(each) for each in values}) == len(values)
    with pytest.raises(keys.NoKeyError):
        constant(object())
    with pytest.raises(keys.NoKeyError):
        key(object())


def test_generations(monkeypatch):
    first = keys.generation(90)
    assert first.startswith("sm_90-") and keys.generation(86)[6:] == keys.generation(80)[6:]
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    assert keys.generation(90) == first
    monkeypatch.setenv("TRITON_F32_DEFAULT", "tf32x3")
    assert keys.generation(90) != first
    assert not keys.bypassed()
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    assert keys.bypassed()


def test_names_stand_for_what_they_name():
    tl = pytest.importorskip("triton.language")
    from tritorch.kernels import pointwise

    exp = names.function("pointwise", "exp")
    assert exp is names.function("pointwise", "exp")
    got = names.resolve((exp, names.element_type("bool"), 3, (names.element_type("float8_e5m2"),)))
    assert got == (pointwise.exp, tl.int1, 3, (tl.float8e5,))
    made = names.made("optim", "formula", "adam")
    assert names.resolve(made) is names.resolve(made)


@pytest.mark.simulated
def test_launch_keys_forget_what_triton_does_not_specialise_for():
    p = tritorch.nn.Parameter(tritorch.randn(5, device="cuda"))
    optimizer = tritorch.optim.AdamW([p], 1e-3)
    step = kernel.kernel("optim", "step")

    def run():
        p.grad = tritorch.ones_like(p)
        optimizer.step()

    run()
    known = step.cache_size
    for _ in range(4):
        run()
    assert step.cache_size == known


# ---- launches ------------------------------------------------------------------------------------

PROGRAM = """
import sys
import {library} as t
x = t.ones(int(sys.argv[1]), device="cuda")
y = x.exp() + x
t.cuda.synchronize()
"""
LAUNCH = """
    import sys, runpy
    import tritorch
    from tritorch import _C
    from tritorch.triton import trace

    trace.pretend(90)
    trace.take_stored()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0])
    last = _C.simulator.last_launch()
    print("triton" in sys.modules, last["grid"], last["block"])
"""


def precompile(*arguments, **environment):
    command = [sys.executable, "-m", "tritorch", "precompile", *map(str, arguments)]
    return subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, env=os.environ | environment, check=False
    )


@pytest.mark.compile
@pytest.mark.simulated
def test_a_precompiled_program_needs_no_triton(folder, tmp_path):
    pytest.importorskip("triton")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(library="torch"))
    pack = tmp_path / "pack.zip"
    done = precompile("--target", "sm_90", "--pack", pack, program, "4096")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "packed into" in done.stdout
    program.write_text(PROGRAM.format(library="tritorch"))
    seen = python(LAUNCH, str(program), "8192", TRITORCH_SIMULATE_CUDA="1")  # divisible as well
    without, grid = seen.split(" ", 1)
    assert without == "False" and grid.startswith("(")
    stored = [cache.read(*place.split("/")) for place, _ in cache.entries()]
    assert stored and all(entry.cubin[:4] == b"\x7fELF" for entry in stored)
    assert all(entry.plan["num_warps"] in (1, 2, 4, 8) for entry in stored)
    # From the pack alone, and what it lacks goes to Triton.
    cache.clear()
    seen = python(LAUNCH, str(program), "8192", TRITORCH_SIMULATE_CUDA="1",
                  TRITORCH_KERNEL_PACK=str(pack))  # fmt: skip
    assert seen.startswith("False")
    assert precompile("--unpack", pack).returncode == 0
    assert len(list(cache.entries())) == len(stored)
    seen = python(LAUNCH, str(program), "8191", TRITORCH_SIMULATE_CUDA="1")
    assert seen.startswith("True")


def test_what_does_not_fit_a_device_is_left_to_triton(monkeypatch):
    loaded, unloaded = [], []

    def load_binary(name, image, shared, device):
        loaded.append((name, image, shared, device))
        if image == b"bad":
            raise _C.CudaError("no binary for this GPU")
        return 7, 8, 32, 0, 256

    monkeypatch.setattr(_C, "load_binary", load_binary)
    monkeypatch.setattr(_C, "unload_module", lambda module, device: unloaded.append(module))
    monkeypatch.setattr(_C, "device_properties", lambda i: {"shared_memory_per_block_optin": 1000})
    steps = {
        "signature": ["*fp32", ["i32", "constexpr"], "i64"], "num_warps": 8, "num_ctas": 1,
        "shared": 1000, "cooperative": False, "dependent": False, "scratch": [0, 1],
        "profile": [0, 1], "meta": None, "has_rounding_flag": True, "pads_fp4_shape": False,
    }  # fmt: skip
    launcher, function, keep = kernel._load(Entry("copy", steps, b"cubin"), 0)
    assert loaded == [("copy", b"cubin", 1000, 0)] and function == 8
    assert [kind for kind, _ in launcher.parameters] == ["pointer", "i32", "i64", *["pointer"] * 2]
    assert not unloaded
    del keep
    assert unloaded == [7]
    assert kernel._load(Entry("copy", steps | {"shared": 1001}, b""), 0) is None  # too much
    assert len(loaded) == 1
    assert kernel._load(Entry("copy", steps | {"num_warps": 9}, b""), 0) is None
    assert unloaded == [7, 7]
    assert kernel._load(Entry("copy", steps, b"bad"), 0) is None


@pytest.mark.simulated
def test_programs_that_fail(folder, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("raise RuntimeError('no good')")
    done = precompile("--target", "90", program)
    assert done.returncode == 1 and "no good" in done.stderr
    program.write_text("import sys; sys.exit(3)")
    done = precompile("--target", "90", program)
    assert done.returncode == 1 and "failed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [([], "name a program"), (["--target", "hopper", "x.py"], "one is sm_90")],
)
def test_commands_that_make_no_sense(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as end:
        _precompile.main(arguments)
    assert end.value.code == 2 and complaint in capsys.readouterr().err


def test_unpacking_what_is_none(folder, tmp_path, capsys):
    (tmp_path / "pack").write_text("something else")
    assert _precompile.main(["--unpack", str(tmp_path / "pack")]) == 1
    assert "not a pack" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        _precompile.main(["--unpack", str(tmp_path / "none")])
    assert "no such file" in capsys.readouterr().err
    cache.write(*PLACE, ENTRY)
    assert _precompile.main(["--clear"]) == 0 and "1 kernels removed" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_is_told_of_compilations(monkeypatch):
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setattr(_C, "is_simulated", lambda: False)
    monkeypatch.setattr(kernel, "_announcements", 0)
    monkeypatch.setenv("TRITORCH_COMPILE_MESSAGES", "1")
    for name in ("norm.layer_norm", "matmul.matmul"):
        with kernel._announced(name, 90):
            pass
    first, second = told.getvalue().split("\r\x1b[K")[1::2]
    assert first == "compiling kernels for sm_90 (once): norm.layer_norm ..."
    assert second == "compiling kernels for sm_90 (once): matmul.matmul, 2 so far ..."
    assert told.getvalue().endswith("\r\x1b[K")
    monkeypatch.setenv("TRITORCH_COMPILE_MESSAGES", "0")
    length = len(told.getvalue())
    with kernel._announced("norm.layer_norm", 90):
        pass
    monkeypatch.setenv("TRITORCH_COMPILE_MESSAGES", "1")
    monkeypatch.setattr(told, "isatty", lambda: False)
    with kernel._announced("norm.layer_norm", 90):
        pass
    assert len(told.getvalue()) == length


def test_the_doctor_says_what_is_kept(folder):
    from tritorch.cli import doctor

    cache.write(*PLACE, ENTRY)
    (found,) = doctor.check_kept()
    assert found.detail.startswith("1 kernels, ") and str(folder) in found.detail
    json.dumps(found.detail)


@pytest.mark.simulated
def test_a_first_launch_leaves_no_cycle_behind(folder):
    """What kept the frames of an import would keep the tensors of the launch that began it."""
    python(
        """
        import gc
        gc.disable()
        import tritorch

        def first():
            x = tritorch.ones(511, device="cuda")
            assert bool((x[3:] == x[:-3]).all())

        first()
        assert tritorch.cuda.memory_allocated() == 0
        tritorch.cuda.empty_cache()
        assert tritorch.cuda.memory_reserved() == 0
        """
    )
