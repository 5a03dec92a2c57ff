"""The way to a real driver, with a libcuda.so.1 that forwards to the simulated device.

tests/cpp/libcuda_stub.cpp is compiled against the cuda.h of Triton's wheel, whose prototypes it
repeats: a signature that differs does not compile.  Kernels are compiled for sm_90, loaded and
launched, but nothing computes.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.compile

triton = pytest.importorskip("triton")
INCLUDE = Path(triton.__file__).parent / "backends/nvidia/include"


@pytest.fixture(scope="session")
def stub(repository):
    """The library's path; compiled again when a source changed."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    source = repository / "tests/cpp/libcuda_stub.cpp"
    if compiler is None or not (INCLUDE / "cuda.h").exists() or not (repository / "src").exists():
        pytest.skip("needs a C++ compiler, cuda.h and the sources of tritorch's driver")
    driver, simulator = repository / "src/driver", repository / "src/simulator"
    sources = [source, driver / "error.cpp", driver / "fork.cpp"]
    sources += [p for p in simulator.glob("*.cpp") if p.stem not in ("bindings", "python")]
    headers = [*driver.glob("*.h"), *simulator.glob("*.h")]
    folder = repository / "build/stub"
    library = folder / f"libcuda-{triton.__version__}.so.1"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers want it too
        _make(compiler, library, sources, headers, repository)
    return library


def _make(compiler, library, sources, headers, repository):
    """All sources as one, so that the standard library's headers are read once."""
    newest = max(path.stat().st_mtime for path in (*sources, *headers, Path(__file__)))
    if not library.exists() or library.stat().st_mtime < newest:
        made = library.with_suffix(".new")
        command = [compiler, "-std=c++20", "-O0", "-fPIC", "-shared", "-fvisibility=hidden",
                   "-pthread", "-Wl,--no-undefined", f"-I{repository / 'src'}", "-isystem", INCLUDE,
                   "-x", "c++", "-", "-o", made]  # fmt: skip
        text = "".join(f'#include "{path}"\n' for path in sources)
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        os.replace(made, library)


@pytest.fixture
def run(stub, tmp_path):
    """Runs a program on the library: (what it printed, its launches)."""

    def run(program, **environment):
        log = tmp_path / "launches.txt"
        log.unlink(missing_ok=True)
        settings = {key: value for key, value in os.environ.items() if "SIMULATE" not in key}
        settings |= {"TRITORCH_LIBCUDA": str(stub), "TRITORCH_STUB_LOG": str(log),
                     "TRITORCH_CACHE_DIR": str(tmp_path / "kernels")}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path,
            env=settings | environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = log.read_text().splitlines() if log.exists() else []
        return done.stdout.splitlines(), [line.split(" ") for line in lines]

    return run


ADD = """
import sys
import tritorch as t
from tritorch import _C
assert not _C.is_simulated()
x = t.empty(1000, device="cuda")
y = x + x
t.cuda.synchronize()
print(x.data_ptr(), y.data_ptr(), "triton" in sys.modules)
"""


def test_a_kernel_is_compiled_loaded_and_launched_then_found_again(run):
    for compiles in (True, False):
        (line,), ((name, grid, block, shared, parameters),) = run(ADD)
        x, y, imported = line.split()
        assert imported == str(compiles)  # what is stored is launched without Triton
        assert (name, grid, block, shared) == ("map2_flat", "4,1,1", "128,1,1", "0")
        values = [bytes.fromhex(value) for value in parameters.split(",")]
        assert [len(value) for value in values] == [8, 8, 8, 4, 8, 8]  # the last two: scratch
        assert struct.unpack("<QQQi", b"".join(values[:4])) == (int(x), int(x), int(y), 1000)


def test_a_library_without_a_device_is_one_sentence(run):
    program = """
import tritorch as t
print(t.cuda.is_available())
try:
    t.empty(1, device="cuda")
except RuntimeError as error:
    print(error, *error.__notes__)
"""
    lines, launches = run(program, TRITORCH_STUB_DEVICES="0")
    assert lines[0] == "False" and "found no GPU" in lines[1] and not launches


def test_shared_memory_above_48_kib_is_asked_for(run):
    program = """
import tritorch as t
a = t.empty(512, 512, device="cuda", dtype=t.bfloat16)
a @ a
t.cuda.synchronize()
"""
    _, ((name, _, _, shared, parameters),) = run(program)
    assert name == "matmul_tma" and int(shared) > 48 << 10
    maps = [value for value in parameters.split(",") if len(value) == 256]
    assert len(maps) == 3 and all(set(value) != {"0"} for value in maps)


def test_a_kernel_may_be_loaded_inside_a_capture(run):
    program = """
import tritorch as t
x = t.empty(1000, device="cuda")
graph = t.cuda.CUDAGraph()
with t.cuda.graph(graph):
    y = (x.exp() + 1).sqrt()
for _ in range(2):
    graph.replay()
t.cuda.synchronize()
del graph, y
import gc; gc.collect()
"""
    for _ in range(2):  # compiled, then found again
        _, launches = run(program)
        assert len(launches) == 6 and launches[:3] == launches[3:]


def test_events_serve_threads_that_have_no_context(run):
    program = """
import threading
import tritorch as t
start, end = t.cuda.Event(enable_timing=True), t.cuda.Event(enable_timing=True)
start.record()
t.empty(1000, device="cuda").fill_(1.5)
end.record()
def use():
    global start, end
    end.synchronize()
    print(end.query(), start.elapsed_time(end) >= 0)
    del start, end
thread = threading.Thread(target=use)
thread.start()
thread.join()
"""
    lines, _ = run(program)
    assert lines == ["True True"]


def test_memory_and_copies(run):
    program = """
import tritorch as t
host = t.arange(1 << 20, dtype=t.int32)
for settings in ("expandable_segments:True", "expandable_segments:False"):
    t.cuda.memory._set_allocator_settings(settings)
    x = host.cuda()
    stream = t.cuda.Stream()
    with t.cuda.stream(stream):
        y = t.empty_like(x).copy_(x)
    stream.synchronize()
    print(y.cpu().equal(host), host.pin_memory().cuda(non_blocking=True).cpu().equal(host))
    del x, y
    t.cuda.empty_cache()
"""
    lines, _ = run(program)
    assert lines == ["True True"] * 2
