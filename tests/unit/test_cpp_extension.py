"""utils.cpp_extension: C++ that is compiled when a program runs, or by setuptools."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

import tritorch
from tritorch.utils import _cpp_build, cpp_extension, model_zoo

needs_compiler = pytest.mark.skipif(
    shutil.which(cpp_extension.get_cxx_compiler()) is None, reason="there is no C++ compiler"
)

MODULE = """
#include <Python.h>
#include "value.h"
static PyObject* value(PyObject*, PyObject*) { return PyLong_FromLong(VALUE + ADDED); }
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, nullptr}, {nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "m", nullptr, -1, methods};
#define JOINED(a, b) a##b
#define INIT(name) JOINED(PyInit_, name)
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&definition); }
"""


@pytest.fixture
def commands(monkeypatch):
    """The commands that were run."""
    seen, call = [], _cpp_build._call

    def noting(build, command):
        seen.append(command)
        call(build, command)

    monkeypatch.setattr(_cpp_build, "_call", noting)
    monkeypatch.setattr(
        cpp_extension, "JIT_EXTENSION_VERSIONER", cpp_extension.ExtensionVersioner()
    )
    return seen


def anew(monkeypatch):
    """As a new process would build."""
    monkeypatch.setattr(
        cpp_extension, "JIT_EXTENSION_VERSIONER", cpp_extension.ExtensionVersioner()
    )


@needs_compiler
def test_files_are_compiled_when_something_has_changed(tmp_path, commands, monkeypatch, capsys):
    source, header = tmp_path / "a b" / "m.cpp", tmp_path / "a b" / "value.h"
    source.parent.mkdir()
    source.write_text(MODULE)
    header.write_text("#define VALUE 3\n")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "built"))
    load = lambda **options: cpp_extension.load("one", str(source), **options)
    first = load(extra_cflags=["-DADDED=1"], verbose=True)
    assert first.value() == 4
    assert first.__file__ == str(tmp_path / "built" / "one" / "one.so")
    shown = capsys.readouterr().out
    assert " -DADDED=1 " in shown and "Loading extension module one..." in shown
    assert len(commands) == 2 and "-std=c++20" in commands[0]
    assert load(extra_cflags=["-DADDED=1"]).value() == 4 and len(commands) == 2
    anew(monkeypatch)
    assert load(extra_cflags=["-DADDED=1"]).value() == 4 and len(commands) == 2
    header.write_text(
        "#define VALUE 10\n"
    )  # which the process does not look at, and a new one does
    anew(monkeypatch)
    path = load(extra_cflags=["-DADDED=1"]).__file__
    assert len(commands) == 4
    program = (
        f"import sys; sys.path.append({os.path.dirname(path)!r}); import one; print(one.value())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "11\n"
    again = load(extra_cflags=["-DADDED=2", "-std=c++17"])
    assert again.value() == 12 and again.__file__.endswith("/one/one_v1.so")
    assert not any("c++20" in part for part in commands[-2])
    assert load(extra_cflags=["-DADDED=2", "-std=c++17"]).value() == 12 and len(commands) == 6
    assert not (tmp_path / "built" / "one" / "lock").exists()


@needs_compiler
def test_libraries_and_programs(tmp_path, commands):
    parts = [tmp_path / "scale.cpp", tmp_path / "main.cpp"]
    parts[0].write_text('extern "C" void scale(float* x, long n) { while (n--) *x++ *= 2; }')
    parts[1].write_text('#include <cstdio>\nint main() { std::puts("ran"); }')
    path = cpp_extension.load(
        "scale", [str(parts[0])], build_directory=str(tmp_path), is_python_module=False
    )
    x = tritorch.ones(3)
    ctypes.CDLL(path).scale(ctypes.c_void_p(x.data_ptr()), ctypes.c_long(2))
    assert x.tolist() == [2, 2, 1] and path in tritorch._ops.ops.loaded_libraries
    program = cpp_extension.load(
        "program", list(map(str, parts)), build_directory=str(tmp_path), is_python_module=False,
        is_standalone=True,
    )  # fmt: skip
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "ran\n"
    with pytest.raises(ValueError, match="are mutually exclusive"):
        cpp_extension.load("x", [], build_directory=str(tmp_path), is_standalone=True)


@needs_compiler
def test_headers_that_are_not_here(tmp_path, commands):
    load = lambda text: cpp_extension.load_inline(
        "bad", text, build_directory=str(tmp_path), no_implicit_headers=True
    )
    said = "<torch/extension.h> is a header of libtorch.*torch.library.triton_op"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"(?s)^Error building extension 'bad': .*{said}"):
            load("#include <torch/extension.h>\n")
    with pytest.raises(RuntimeError, match="(?s)error: .*wrong") as caught:
        load("int wrong = nothing;")
    assert "libtorch" not in str(caught.value)
    assert not (tmp_path / "lock").exists()
    guarded = "#if __has_include(<ATen/ATen.h>)\n#include <ATen/ATen.h>\n#endif\n" + MODULE
    (tmp_path / "value.h").write_text("#define VALUE 1\n#define ADDED 0\n")
    assert load(guarded).value() == 1


def test_what_is_refused_before_a_compiler_runs(tmp_path, monkeypatch):
    place = {"build_directory": str(tmp_path)}
    for call, said in (
        (
            lambda: cpp_extension.load("x", ["a.cpp", "b.cu"], **place),
            "'x': tritorch does not comp",
        ),
        (
            lambda: cpp_extension.load("x", ["a.cpp"], with_cuda=True, **place),
            "compile CUDA. Write",
        ),
        (
            lambda: cpp_extension.load_inline("x", "", "__global__", **place),
            "not compile CUDA. Wri",
        ),
        (lambda: cpp_extension.load_inline("x", "", sycl_sources="s", **place), "not compile SYCL"),
        (lambda: cpp_extension.CUDAExtension("x", ["a.cu"]), "not compile CUDA"),
        (
            lambda: cpp_extension.load_inline("x", "at::Tensor f();", functions="f", **place),
            "'x': it uses at::Tensor, which is libtorch's: .* torch.library.triton_op",
        ),
    ):
        with pytest.raises(RuntimeError, match=said):
            call()
    with pytest.raises(ValueError, match="Expected 'functions' to be a list or dict, but was <cla"):
        cpp_extension.load_inline("x", "", functions=3, **place)
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(RuntimeError, match="there is no C.. compiler 'no-such-compiler' .* CXX.$"):
        cpp_extension.load_inline("x", "", no_implicit_headers=True, **place)
    lacks = "a.cpp:1:10: fatal error: {}\n"
    assert "pip install pybind11" in _cpp_build.advice(
        lacks.format("pybind11/stl.h: No such file or directory")
    )
    assert "<c10/x.h> is a header of libtorch" in _cpp_build.advice(
        lacks.format("'c10/x.h' file not found")
    )
    assert _cpp_build.advice(lacks.format("other.h: No such file or directory")) == ""


@needs_compiler
@pytest.mark.skipif(importlib.util.find_spec("pybind11") is None, reason="pybind11 is missing")
def test_functions_are_bound_by_pybind11(tmp_path, commands):
    module = cpp_extension.load_inline(
        "bound",
        """
        int total(std::vector<int> x) { int sum = 0; for (int each : x) sum += each; return sum; }
        py::array_t<float> copied(py::array_t<float> x) { return py::array_t<float>(x.request()); }
        """,
        functions={"total": "The sum.", "copied": "A copy."},
        extra_cflags=["-O0"],
        build_directory=str(tmp_path),
    )
    assert module.total([1, 2, 3]) == 6 and "The sum." in module.total.__doc__
    x = tritorch.ones(2, 2)
    assert tritorch.from_numpy(module.copied(x.numpy())).equal(x)


@needs_compiler
def test_setuptools_builds_extensions(tmp_path, monkeypatch):
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "value.h").write_text("#define VALUE 5\n")
    (tmp_path / "m.cpp").write_text(MODULE)
    (tmp_path / "t.cpp").write_text("#include <torch/extension.h>")

    def build(extension, command=cpp_extension.BuildExtension):
        made = setuptools.Distribution(
            {"name": "x", "ext_modules": [extension], "cmdclass": {"build_ext": command}}
        )
        made.script_args = ["-q", "build_ext", "--inplace"]
        made.parse_command_line()
        made.run_commands()

    build(
        cpp_extension.CppExtension(
            "inner_m", ["m.cpp"], include_dirs=["."], extra_compile_args={"cxx": ["-DADDED=2"]}
        ),
        cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True, use_ninja=False),
    )
    spec = importlib.util.spec_from_file_location("inner_m", tmp_path / "inner_m.so")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.value() == 7
    with pytest.raises(RuntimeError, match="'t':\n<torch/extension.h> is a header of libtorch"):
        build(cpp_extension.CppExtension("t", ["t.cpp"]))
    with pytest.raises(RuntimeError, match="'u': tritorch does not compile CUDA"):
        build(setuptools.Extension("u", ["u.cu"]))


def test_where_things_are(tmp_path, monkeypatch):
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", None)
    with pytest.raises(
        OSError, match="^CUDA_HOME environment variable is not set. Please set it t"
    ):
        cpp_extension.include_paths("cuda")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", cpp_extension._find_cuda_home())
    monkeypatch.setattr(cpp_extension, "CUDNN_HOME", "/dnn")
    assert cpp_extension.include_paths("cuda", False) == [str(tmp_path / "include"), "/dnn/include"]
    assert cpp_extension.library_paths("cuda") == [str(tmp_path / "lib64"), "/dnn/lib64"]
    assert cpp_extension.library_paths() == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cpp_extension.get_default_build_root() == str(tmp_path / "torch_extensions")
    assert cpp_extension.check_compiler_ok_for_platform("no-such-compiler") is False
    assert cpp_extension.get_compiler_abi_compatibility_and_version("no-such-compiler")[0] is False
    if shutil.which("g++"):
        known, version = cpp_extension.get_compiler_abi_compatibility_and_version("g++")
        assert known is (version >= (11, 0, 0)) and cpp_extension.check_compiler_is_gcc("g++")
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(RuntimeError, match="^Ninja is required to load C"):
        cpp_extension.verify_ninja_availability()


def test_model_zoo_is_hubs():
    assert model_zoo.load_url is tritorch.hub.load_state_dict_from_url
