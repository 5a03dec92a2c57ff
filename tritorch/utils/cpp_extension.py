"""Extensions in C++, compiled when a program runs or by setuptools, as torch.utils.cpp_extension.

There is no libtorch: an extension has Python's C interface, pybind11 (if it is installed), nanobind
or plain functions for ctypes.  What includes <torch/extension.h>, and sources in CUDA, HIP or SYCL,
are refused with a sentence that says what to write instead.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tritorch.torch_version import TorchVersion
from tritorch.utils import _cpp_build
from tritorch.utils._cpp_extension_versioner import ExtensionVersioner
from tritorch.utils.file_baton import FileBaton

IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
IS_LINUX = sys.platform.startswith("linux")
LIB_EXT = ".pyd" if IS_WINDOWS else ".so"
EXEC_EXT = ".exe" if IS_WINDOWS else ""
CLIB_PREFIX = "" if IS_WINDOWS else "lib"
CLIB_EXT = ".dll" if IS_WINDOWS else ".so"
SHARED_FLAG = "/DLL" if IS_WINDOWS else "-shared"
MINIMUM_GCC_VERSION = (11, 0, 0)  # that has C++20
IS_HIP_EXTENSION = False
ROCM_HOME = HIP_HOME = ROCM_VERSION = SYCL_HOME = None
CUDNN_HOME = os.environ.get("CUDNN_HOME") or os.environ.get("CUDNN_PATH")
JIT_EXTENSION_VERSIONER = ExtensionVersioner()
_DEVICE_SOURCES = {".cu": "CUDA", ".cuh": "CUDA", ".hip": "HIP", ".sycl": "SYCL"}
_LIBTORCH = re.compile(r"\b(torch|at|c10)::\w+")


def _find_cuda_home() -> str | None:
    """Where CUDA's compiler is installed; tritorch itself needs none."""
    said = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if said:
        return said
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        return os.path.dirname(os.path.dirname(nvcc))
    return "/usr/local/cuda" if os.path.exists("/usr/local/cuda") else None


CUDA_HOME = _find_cuda_home()


def _join_cuda_home(*paths: str) -> str:
    if CUDA_HOME is None:
        raise OSError(
            "CUDA_HOME environment variable is not set. Please set it to your CUDA install root."
        )
    return os.path.join(CUDA_HOME, *paths)


# ---- the compiler --------------------------------------------------------------------------------


def get_cxx_compiler() -> str:
    """The C++ compiler: $CXX, or c++."""
    return os.environ.get("CXX", "cl" if IS_WINDOWS else "c++")


def _says(compiler: str, *options: str) -> str:
    """What a compiler prints; "" if it cannot be run."""
    try:
        done = subprocess.run(
            [compiler, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError:
        return ""
    return done.stdout


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether a compiler is GCC or clang, under whatever name."""
    if IS_WINDOWS:
        return True
    said = _says(compiler, "-v")
    return "clang version" in said or (not IS_MACOS and "gcc version" in said)


def check_compiler_is_gcc(compiler: str) -> bool:
    """Whether a compiler is GCC, under whatever name."""
    said = _says(compiler, "-v")
    return IS_LINUX and "gcc version" in said and "COLLECT_GCC=" in said


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, TorchVersion]:
    """Whether a compiler can build extensions, and its version."""
    if not check_compiler_ok_for_platform(compiler):
        return False, TorchVersion("0.0.0")
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", _says(compiler, "-dumpfullversion", "-dumpversion"))
    numbers = tuple(map(int, found.groups())) if found else (0, 0, 0)
    version = TorchVersion(".".join(map(str, numbers)))
    return numbers >= MINIMUM_GCC_VERSION or not check_compiler_is_gcc(compiler), version


def is_ninja_available() -> bool:
    """Whether ninja is installed; nothing here needs it."""
    return bool(_says("ninja", "--version"))


def verify_ninja_availability() -> None:
    """RuntimeError unless ninja is installed, for programs that run it."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Folders of headers that an extension may include: pybind11's, if it is installed, and those
    of a device's toolkit."""
    found = []
    spec = importlib.util.find_spec("pybind11")
    if torch_include_dirs and spec is not None:
        import pybind11

        found.append(pybind11.get_include())
    if device_type == "cuda":
        found.append(_join_cuda_home("include"))
        if CUDNN_HOME is not None:
            found.append(os.path.join(CUDNN_HOME, "include"))
    return found


def library_paths(
    device_type: str = "cpu", torch_include_dirs: bool = True,
    cross_target_platform: str | None = None,
) -> list[str]:  # fmt: skip
    """Folders of libraries that an extension is linked with: a device's toolkit's alone."""
    if device_type != "cuda":
        return []
    folders = [_join_cuda_home(name) for name in ("lib64", "lib")]
    found = [next((each for each in folders if os.path.exists(each)), folders[0])]
    if CUDNN_HOME is not None:
        found.append(os.path.join(CUDNN_HOME, os.path.basename(found[0])))
    return found


# ---- when a program runs -------------------------------------------------------------------------


def get_default_build_root() -> str:
    """The folder of what programs build, one in it for each version of Python."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.realpath(os.path.join(cache, "torch_extensions"))


def _get_build_directory(name: str, verbose: bool) -> str:
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if root is None:
        python = f"py{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}"
        root = os.path.join(get_default_build_root(), f"{python}_cpu")
    folder = os.path.join(root, name)
    if verbose:
        print(f"Using {root} as PyTorch extensions root...")
    os.makedirs(folder, exist_ok=True)
    return folder


def load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Compiles files of C++ and loads the result: a module of Python; with is_python_module=False a
    library, loaded for ctypes, whose path is given; with is_standalone=True a program's path.

    A module's source names itself by the macro TORCH_EXTENSION_NAME.  Files are compiled again when
    they, a header or a flag have changed.  build_directory: where, if not below
    $TORCH_EXTENSIONS_DIR or the user's cache; verbose: prints the commands and what they say."""
    return _jit_compile(
        name,
        [sources] if isinstance(sources, str) else [*sources],
        extra_cflags,
        extra_ldflags,
        extra_include_paths,
        build_directory or _get_build_directory(name, verbose),
        verbose,
        with_cuda,
        with_sycl,
        is_python_module,
        is_standalone,
    )


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> Any:
    """The same of C++ in strings.

    functions: names, or names with docstrings, that become a module's functions by pybind11, whose
    headers are included unless no_implicit_headers is set."""
    parts = [cpp_sources] if isinstance(cpp_sources, str) else [*cpp_sources]
    if cuda_sources or sycl_sources:
        raise _refused(name, "CUDA" if cuda_sources else "SYCL")
    used = _LIBTORCH.search("\n".join(parts))
    if used is not None and not no_implicit_headers:
        raise RuntimeError(
            f"Error building extension '{name}': it uses {used[0]}, which is libtorch's: "
            f"tritorch does not have it. {_cpp_build.INSTEAD}"
        )
    if functions is not None:
        parts += _bindings(functions)
        if not no_implicit_headers:
            headers = ("pybind11", "numpy", "stl", "functional", "complex")
            included = [f"#include <pybind11/{each}.h>" for each in headers]
            parts = [*included, "namespace py = pybind11;", *parts]
    folder = build_directory or _get_build_directory(name, verbose)
    source = os.path.join(folder, "main.cpp")
    _maybe_write(source, "\n".join(parts) + "\n")
    return _jit_compile(
        name,
        [source],
        extra_cflags,
        extra_ldflags,
        extra_include_paths,
        folder,
        verbose,
        with_cuda,
        with_sycl,
        is_python_module,
        False,
    )


def _bindings(functions: Any) -> list[str]:
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, (list, tuple)):
        functions = {function: function for function in functions}
    if not isinstance(functions, Mapping):
        raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")
    lines = [
        f'm.def("{function}", &{function}, R"_doc_({doc})_doc_");'
        for function, doc in functions.items()
    ]
    return ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"]


def _maybe_write(filename: str, new_content: str) -> None:
    """Writes a file unless it reads so already: its time tells what is out of date."""
    path = Path(filename)
    if not path.exists() or path.read_text() != new_content:
        path.write_text(new_content)


def _refused(name: str, language: str) -> RuntimeError:
    return RuntimeError(
        f"Error building extension '{name}': tritorch does not compile {language}. "
        f"{_cpp_build.INSTEAD}"
    )


def _jit_compile(
    name: str,
    sources: Sequence[str],
    extra_cflags: Sequence[str] | None,
    extra_ldflags: Sequence[str] | None,
    extra_include_paths: Sequence[str] | None,
    build_directory: str,
    verbose: bool,
    with_cuda: bool | None,
    with_sycl: bool | None,
    is_python_module: bool,
    is_standalone: bool,
) -> Any:
    if is_python_module and is_standalone:
        raise ValueError("`is_python_module` and `is_standalone` are mutually exclusive.")
    languages = [_DEVICE_SOURCES.get(os.path.splitext(source)[1]) for source in sources]
    language = "CUDA" if with_cuda else "SYCL" if with_sycl else next(filter(None, languages), None)
    if language is not None:
        raise _refused(name, language)
    before = JIT_EXTENSION_VERSIONER.get_version(name)
    flags, links = [*(extra_cflags or ())], [*(extra_ldflags or ())]
    includes = [*(extra_include_paths or ())]
    version = JIT_EXTENSION_VERSIONER.bump_version_if_changed(
        name, sources, flags=flags, links=links, includes=includes, folder=build_directory,
        kind=(is_python_module, is_standalone),
    )  # fmt: skip
    shown = name if version == 0 else f"{name}_v{version}"
    output = shown + (EXEC_EXT if is_standalone else LIB_EXT)
    path = os.path.join(build_directory, output)
    if version != before:
        build = _cpp_build.Build(
            shown,
            [os.path.abspath(source) for source in sources],
            build_directory,
            _compile_flags(shown, flags, includes),
            [*([] if is_standalone else _SHARED), *links],
            output,
            verbose,
        )
        try:
            _build_once(build)
        except BaseException:
            JIT_EXTENSION_VERSIONER.entries.pop(name)
            raise
    if is_standalone:
        return path
    if verbose:
        print(f"Loading extension module {shown}...")
    return _import_module_from_library(shown, path, is_python_module)


# A module's references to Python are resolved when it is loaded.
_SHARED = ["-shared", *(["-undefined", "dynamic_lookup"] if IS_MACOS else [])]


def _compile_flags(name: str, extra: Sequence[str], includes: Sequence[str]) -> list[str]:
    standard = [] if any(flag.startswith("-std=") for flag in extra) else ["-std=c++20"]
    system = [*include_paths(), sysconfig.get_path("include")]
    return [
        f"-DTORCH_EXTENSION_NAME={name}",
        *(f"-I{os.path.abspath(path)}" for path in includes),
        *(item for path in system for item in ("-isystem", path)),
        "-fPIC",
        "-O2",
        *standard,
        *extra,
    ]


def _build_once(build: _cpp_build.Build) -> None:
    """Builds, unless another process does: then waits for it, and looks whether it did."""
    baton = FileBaton(os.path.join(build.folder, "lock"))
    while not baton.try_acquire():
        baton.wait()
    try:
        _cpp_build.run(build)
    finally:
        baton.release()


def _import_module_from_library(module_name: str, path: str, is_python_module: bool) -> Any:
    if not is_python_module:
        from tritorch.compat.torch_private._ops import ops

        ops.load_library(path)
        return path
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- setuptools ----------------------------------------------------------------------------------


def CppExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """A setuptools.Extension in C++; the arguments are that one's."""
    import setuptools

    kwargs["include_dirs"] = [*kwargs.get("include_dirs", ()), *include_paths()]
    kwargs["library_dirs"] = [*kwargs.get("library_dirs", ()), *library_paths()]
    kwargs["language"] = "c++"
    return setuptools.Extension(name, [*sources], *args, **kwargs)


def CUDAExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """Refused: CUDA is not compiled here."""
    raise _refused(name, "CUDA")


def SyclExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """Refused: SYCL is not compiled here."""
    raise _refused(name, "SYCL")


def _come_late(name: str) -> Any:
    if name == "BuildExtension":  # importing setuptools takes longer than most extensions' use
        return _build_extension()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if TYPE_CHECKING:
    BuildExtension: Any  # of setuptools' class, which is imported when it is asked for
else:  # to checkers every name would be one
    __getattr__ = _come_late


@functools.cache
def _build_extension() -> Any:
    from setuptools.command.build_ext import build_ext

    class BuildExtension(build_ext):
        """setuptools' build_ext for extensions whose flags are PyTorch's: C++20, the macro
        TORCH_EXTENSION_NAME, and `extra_compile_args` that may be {"cxx": [...]}.

        no_python_abi_suffix: a library's name has no version of Python.  use_ninja: taken, and
        without effect."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.no_python_abi_suffix = kwargs.pop("no_python_abi_suffix", False)
            self.use_ninja = kwargs.pop("use_ninja", True)
            super().__init__(*args, **kwargs)

        @classmethod
        def with_options(cls, **options: Any) -> Any:
            """This class with other defaults of its options."""

            class WithOptions(cls):  # type: ignore[valid-type, misc]
                """BuildExtension with options."""

                def __init__(self, *args: Any, **kwargs: Any) -> None:
                    super().__init__(*args, **(kwargs | options))

            return WithOptions

        def build_extension(self, ext: Any) -> None:
            """Builds one extension."""
            for source in ext.sources:
                language = _DEVICE_SOURCES.get(os.path.splitext(source)[1])
                if language is not None:
                    raise _refused(ext.name, language)
            given = ext.extra_compile_args or []
            flags = [*(given.get("cxx", ()) if isinstance(given, Mapping) else given)]
            if ext.language in (None, "c++") and not any(f.startswith("-std=") for f in flags):
                flags.append("-std=c++20")
            flags.append(f"-DTORCH_EXTENSION_NAME={ext.name.rpartition('.')[2]}")
            ext.extra_compile_args = flags
            try:
                super().build_extension(ext)
            except Exception as error:
                if header := _libtorch_header(ext.sources):
                    said = _cpp_build.advice(f"fatal error: {header}: No such file")
                    raise RuntimeError(f"Error building extension '{ext.name}':{said}") from error
                raise

        def get_ext_filename(self, fullname: str) -> str:
            """The file of an extension."""
            found: str = super().get_ext_filename(fullname)
            if not self.no_python_abi_suffix:
                return found
            stem, _, rest = found.partition(".")
            return f"{stem}.{rest.rpartition('.')[2]}"

    return BuildExtension


def _libtorch_header(sources: Sequence[str]) -> str | None:
    """A header of libtorch's, or pybind11's, that one of some sources includes."""
    pattern = re.compile(r'^\s*#\s*include\s*[<"]((?:torch|ATen|c10|caffe2)/[\w./-]+)', re.M)
    found = (pattern.search(Path(source).read_text(errors="replace")) for source in sources)
    return next((each[1] for each in found if each), None)
