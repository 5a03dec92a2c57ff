"""Imports run downward: a file imports what is below it, inside of functions and by name too."""

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tritorch
from tritorch.compat import names
from tritorch.compat.moved import home_of
from tritorch.triton import sources

PACKAGE = Path(tritorch.__file__).parent
# The ranks, bottom first.  A line is a rank: a folder or a file (`__init__`: the package's own), or
# several that know each other.  Of the entries that a file is below, the longest counts.
ORDER = """
__future__ version torch_version compat.reraising
compat.moved
core.late_bound core.defaults core.deprecation core.device core.dims core.dtype core.generator \
core.locks core.memory_kinds core.naming core.precision core.profiling core.published \
core.scopes core.streams core.swap core.thread_state
arrays.strides arrays.symbolic arrays.sym_functions arrays.node_numbers
core.layout core.promotion
arrays
core
schema
trees
overrides
host
autograd
triton
gpu
ops.record
ops.interpret
ops.collectives
ops.control
ops.shape
ops.reduce
ops.index
ops.pointwise
ops.reduce.differences
ops.linalg
ops.random
ops.nn
ops.linalg.packed_linear
ops.loss
ops.fft
ops.lists
compat.legacy_operators
ops
return_types
fft
linalg
special
sparse
func.vmap
compat.torch_private._tensor_str
compat.torch_private._logging
compat.torch_private._awaits
compat.torch_private._ops
compat.names
compat.settings
profiling.itt profiling.nvtx
amp.policies amp.state
cuda
amp
cuda.amp
cpu
backends
random
futures
testing
nn
func
serialization
hub
utils
compat.torch_private._dynamo.exc
compat.torch_private._dynamo.config
compat.torch_private._functorch.config
compat.torch_private._subclasses
compat.torch_private._decomp
multiprocessing
optim
compat.extension
compat.variables
cli.commands
compat
compat.torch_private._library
utils._debug_mode
utils.flop_counter
utils.cpp_extension
utils.model_zoo
jit
fx
compilation
distributed
utils.benchmark
autograd.profiler autograd.profiler_legacy autograd.profiler_util profiling
profiler
__config__
monitor
compat.native
library
utils._mode_utils
export
compilation.package
compat.torch_private._higher_order_ops
compat.torch_private._inductor
compat.torch_private._functorch
compat.torch_private._dynamo.backends
compat.torch_private._dynamo.eval_frame
compiler
compat.torch_private._utils
utils.data
compat.torch_private._inductor.runtime compat.torch_private._inductor.utils
compat.torch_private
compat.starting
compat.shims.__init__
compat.late_binding
masked
nested
package
quasirandom
signal
storage
types
mps
xpu
mtia
onnx
__init__
ao
quantization
accelerator
compat.shims
distributions
profiler._pattern_matcher
utils.collect_env
cli
bench
pytest_plugin
__main__
"""
RANK = {place: rank for rank, line in enumerate(ORDER.split("\n")) for place in line.split()}
# What looks up all the same, inside of functions, and why.  "*": a module by a name that is given.
UPWARD = {
    ("__init__", "*"): "modules load when a program asks for them",
    ("__init__", "cli"): "the doctor takes over where the extension does not load",
    ("autograd", "autograd.profiler"): "loads when a program asks for it",
    ("compat.late_binding", "ao"): ("torch.ops.quantized_decomposed, when a program asks for it"),
    ("compat.names", "*"): "PyTorch's names in our modules, when a program asks for them",
    ("compat.torch_private._ops", "compat.torch_private._higher_order_ops"): (
        "torch.ops.higher_order, when a program asks for it"
    ),
    ("compat.torch_private._utils", "*"): "the module of a device that a program names",
    ("jit.frontend.globals", "__init__"): "public functions, which stand for operators",
    ("nn.modules._functions", "distributed"): "statistics of all processes",
    ("nn.modules.norm", "distributed"): "one of the norms is of all processes",
    ("nn.parallel.distributed", "distributed"): "DistributedDataParallel is defined there",
    ("ops.record.overloads", "*"): "public functions by the module that a schema names",
    ("overrides", "nn"): "its functions, published when it is first asked for",
    ("serialization.names", "*"): "objects by the names that a file has",
}
MOST_UPWARD, MOST_IN_CIRCLE, MOST_FILES, MOST_OWN = 15, 8, 34, 15
# Files that are loaded with the package and know each other, so that one asks inside of a function.
CIRCLES = {
    ("autograd.gradcheck", "autograd"): "grad is defined there",
    ("ops.interpret.sparse.record", "ops.interpret.sparse.convert"): "layouts convert to others",
    (
        "ops.pointwise.pointwise",
        "ops.pointwise.special",
    ): "i0's gradient is i1, i0's neighbour there",
    ("ops.record.pointwise", "ops.record.apply"): "results without data are those of a call",
}


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), path


FILES = dict(modules())
PRIVATE = {
    ".".join(name.split(".")[:3]) for name in FILES if name.startswith("compat.torch_private.")
}
BESIDE = ("_C", "kernels")  # the extension, and a folder of its own
LOOKUPS = ("import_module", "__import__", "get")  # importlib's, Python's and that of sys.modules


def file_of(name):
    """The file behind a dotted name below the package: a module, or what has such an attribute."""
    if not name.startswith("compat.torch_private."):
        moved = home_of(f"tritorch.{name}")
        name = moved.removeprefix("tritorch.") if moved else name
        if f"compat.torch_private.{name.partition('.')[0]}" in PRIVATE:
            name = f"compat.torch_private.{name}"
    while name and name not in FILES:
        name = name.rpartition(".")[0]
    return name or "__init__"


def named(node):
    """What a lookup by name names: a file, "*" for one that the caller says, None for others'."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # f"...".rstrip(".")
        node = node.func.value
    text = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.JoinedStr):  # as far as it stands there
        first = node.values[0]
        text = first.value if isinstance(first, ast.Constant) else None
        if text == "tritorch.":
            return "*"
    if not isinstance(text, str) or not text.startswith("tritorch."):
        return None
    found = text.removeprefix("tritorch.").rstrip(".")
    return None if found.partition(".")[0] in BESIDE else file_of(found)


def imported(node):
    """What a statement or a call imports of the package."""
    top, whole = "tritorch", []
    if isinstance(node, ast.ImportFrom):
        assert not node.level, "a relative import"
        top, _, inner = node.module.partition(".")
        whole = [f"{inner}.{alias.name}".strip(".") for alias in node.names]
    elif isinstance(node, ast.Import):
        parts = [alias.name.partition(".") for alias in node.names]
        whole = [inner for first, _, inner in parts if first == top]
    elif isinstance(node, ast.Call) and node.args:
        called = getattr(node.func, "attr", getattr(node.func, "id", None))
        found = named(node.args[0]) if called in LOOKUPS else None
        return [found] if found else []
    return [
        file_of(name) for name in whole if top == "tritorch" and name.split(".")[0] not in BESIDE
    ]


def imports(tree):
    """(file, late) of what a file imports of the package; late: inside a function, or by name."""
    found, waiting = [], [(tree, False)]
    while waiting:
        node, late = waiting.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)):
            found += ((each, late or isinstance(node, ast.Call)) for each in imported(node))
        late = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        children = ast.iter_child_nodes(node)
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            children = node.orelse
        waiting += ((child, late) for child in children)
    return found


# A function that is read from a table by a name that is written down.
READ = re.compile(r"\b_?(PUBLIC|FUNCTIONAL|SPECIAL)\[[\"']")


def reads(tree):
    """The lines where functions read functions so."""
    inside = [f for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.Lambda))]
    nodes = {node for function in inside for node in ast.walk(function)}
    found = {
        node.lineno
        for node in nodes
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        if READ.match(ast.unparse(node))
    }
    return sorted(found)


EDGES, READS = [], {}
for _name, _path in FILES.items():
    _text = _path.read_text()
    _tree = ast.parse(_text)
    EDGES += sorted({(_name, target, late) for target, late in imports(_tree) if target != _name})
    if READ.search(_text) and (_lines := reads(_tree)):
        READS[_name] = _lines


def place_of(name):
    """The entry of the table that a file is below."""
    if f"{name}.__init__" in RANK:
        return f"{name}.__init__"
    while name and name not in RANK:
        name = name.rpartition(".")[0]
    return name


def is_upward(name, target):
    return target == "*" or RANK[place_of(target)] > RANK[place_of(name)]


def listed(name, target):
    """What stands in UPWARD for an import."""
    return name, target if target == "*" else place_of(target)


@functools.cache
def loaded(module="tritorch"):
    """The files that come with the package, or with a module of it."""
    code = f"import sys, {module}; print(*(m for m in sys.modules if m.startswith('tritorch.')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.removeprefix("tritorch.") for name in run.stdout.split()}


def comes_in_one_order(circle):
    """Says if all files of a circle come with the package, or with the folder that has them all."""
    tops = {name.partition(".")[0] for name in circle}
    within = loaded(f"tritorch.{min(tops)}") if len(tops) == 1 else loaded()
    return within.issuperset(circle)


def test_every_file_has_a_rank():
    assert [name for name in FILES if not place_of(name)] == []
    places = Counter(map(place_of, FILES))
    assert sorted(set(RANK) - set(places)) == []  # no entry is of nothing, or stands twice
    assert len(RANK) == len(ORDER.split())


def test_imports_run_downward():
    upward = [edge for edge in EDGES if is_upward(*edge[:2])]
    assert [edge[:2] for edge in upward if listed(*edge[:2]) not in UPWARD or not edge[2]] == []
    assert {listed(name, target) for name, target, _ in upward} == UPWARD.keys()
    assert len(UPWARD) <= MOST_UPWARD


def circles(below):
    """The sets of files that reach each other (Tarjan's algorithm, without recursion)."""
    number, least, open_, found = {}, {}, [], []
    for root in below:
        if root in number:
            continue
        number[root] = least[root] = len(number)
        open_.append(root)
        path = [(root, iter(below[root]))]
        while path:
            name, rest = path[-1]
            for target in rest:
                if target not in number:
                    number[target] = least[target] = len(number)
                    open_.append(target)
                    path.append((target, iter(below.get(target, ()))))
                    break
                if least[target] is not None:  # not in a circle that is done
                    least[name] = min(least[name], number[target])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    least[above] = min(least[above], least[name])
                if least[name] == number[name]:
                    circle = open_[open_.index(name) :]
                    del open_[-len(circle) :]
                    least.update(dict.fromkeys(circle))
                    found.append(circle)
    return found


def test_circles_of_files_are_small():
    """Files that import each other, late or not, are read and changed together."""
    below = {name: set() for name in FILES}
    for name, target, _ in EDGES:
        if not is_upward(name, target):
            below[name].add(target)
    large = [sorted(circle) for circle in circles(below) if len(circle) > MOST_IN_CIRCLE]
    assert large == []


def test_circles_are_found():
    below = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    found = sorted(sorted(circle) for circle in circles(below))
    assert found == [["a", "b", "c"], ["d", "e"], ["f"]]


def test_imports_are_found():
    """In functions, under former names, by attributes of modules and by name."""
    lines = """
from tritorch import Tensor, _C, kernels, nn
from tritorch.core import dtype
from tritorch.core.tensor import Tensor
import tritorch._dynamo.config
if TYPE_CHECKING:
    from tritorch import jit
def f():
    import tritorch.fx.graph
    importlib.import_module("tritorch._dynamo.exc")
    sys.modules.get("tritorch.optim")
    importlib.import_module(f"tritorch.backends.{name}")
    importlib.import_module(f"tritorch.{name}".rstrip("."))
"""
    assert sorted(imports(ast.parse(lines))) == sorted([
        ("__init__", False), ("nn", False), ("core.dtype", False), ("core.tensor", False),
        ("compat.torch_private._dynamo.config", False), ("fx.graph", True),
        ("compat.torch_private._dynamo.exc", True), ("optim", True), ("backends", True),
        ("*", True),
    ])  # fmt: skip


def test_any_module_may_be_the_first_that_is_imported():
    """Importing a file runs the `__init__` of its folder first: one that imports what the file
    needs closes a circle, which breaks where a program enters it at another place.  What comes with
    the package comes in one order."""
    below = {name: set() for name in FILES}
    for name, target, late in EDGES:
        if not late and target != "*":
            folders = target.split(".")[:-1]
            inits = {".".join(folders[:n]) for n in range(1, len(folders) + 1)}
            below[name] |= {target} | {
                init for init in inits & FILES.keys() if not f"{name}.".startswith(f"{init}.")
            }
    late = [sorted(circle) for circle in circles(below) if len(circle) > 1]
    assert [circle for circle in late if not comes_in_one_order(circle)] == []


def test_all_that_is_called_from_below_is_registered():
    """core/late_bound.py declares it; with the package comes what registers it."""
    from tritorch.core import late_bound

    assert [
        name for name in late_bound.__annotations__ if not callable(getattr(late_bound, name, None))
    ] == []


def test_late_imports_are_late_for_a_reason():
    """What is loaded with the package anyway is imported at the top, but in a circle of files."""
    floor = ("core", "arrays", "autograd", "host", "triton", "gpu", "ops")
    late = {
        (name, target)
        for name, target, late in EDGES
        if late and {name, target} <= loaded()
        if name.partition(".")[0] == target.partition(".")[0] in floor
    }
    assert late == CIRCLES.keys()


def test_kept_plans_hang_on_all_files_that_decide():
    """What the fuser imports, and what that does, is in the name of what is kept (Note [Kept])."""
    from tritorch.compilation.fuse import kept

    below = {}
    for name, target, late in EDGES:
        if not late:
            below.setdefault(name, set()).add(target)
    waiting = {name for name in FILES if name.startswith("compilation.fuse")}
    assert waiting
    found = set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= below.get(name, set()) - found
    said = {"compat"}  # compat.torch_private._logging: says what was done
    assert {name.partition(".")[0] for name in found} == {*kept.PACKAGES} | said


def test_no_function_is_read_by_a_name_that_is_written_down():
    """`PUBLIC["add"]` hides from type checkers what `published.public.add` shows."""
    assert READS == {}
    lines = 'a = PUBLIC["a"]\nb = lambda x: PUBLIC["b"](x)\ndef f(name): return PUBLIC[name]'
    assert reads(ast.parse(lines)) == [2]


# ---- what comes with the package ----------------------------------------------------------------

MOST_LOADED = 228  # files of the package: what is not used is not imported
# What programs ask for by name, or reach by using it, and then wait for themselves.
LATE = """
    amp compilation cuda distributed distributions fft func fx gpu.arrays jit nn optim overrides
    profiling schema.table serialization sparse special trees.nodes triton.kernel utils
""".split()  # noqa: SIM905
# Modules of Python's that NumPy does not load and that cost a millisecond or more.
HEAVY = """
    asyncio bz2 concurrent.futures dataclasses hashlib importlib.resources json logging lzma
    multiprocessing pathlib random shutil socket subprocess tempfile triton unittest urllib.parse
""".split()  # noqa: SIM905


def test_importing_the_package_loads_no_more_than_it_needs():
    files = loaded()
    assert len(files) <= MOST_LOADED
    assert [name for name in LATE if name in files] == []
    code = (
        "import sys, numpy; before = {*sys.modules}\n"
        "import tritorch; print(*{*sys.modules} - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted({*HEAVY} & {*run.stdout.split()}) == []


def test_the_garbage_collector_is_as_it_was():
    """Importing turns it off for a while; programs may have turned it off, or frozen objects."""
    code = (
        "import gc\n{before}\nstate = gc.isenabled(), gc.get_freeze_count() > 0\n"
        "import tritorch\nassert state == (gc.isenabled(), gc.get_freeze_count() > 0), state"
    )
    for before in ("pass", "gc.disable()", "gc.freeze()"):
        subprocess.run([sys.executable, "-c", code.format(before=before)], check=True)


def test_arrays_of_a_gpu_have_their_methods_before_and_after_these_are_loaded():
    from tritorch.compat.late_binding import ARRAY_METHODS
    from tritorch.gpu.arrays import METHODS

    assert sorted(ARRAY_METHODS) == sorted(METHODS)


# ---- folders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["host", "gpu", "kernels"])
def test_files_of_a_backend_have_names_of_their_own(backend):
    """A family is found by its file's name alone (ops/record/backends.py, triton/sources.py)."""
    root = PACKAGE / backend if backend != "kernels" else sources.folder()
    files = Counter(path.stem for path in root.rglob("*.py") if path.stem != "__init__")
    assert files
    assert [name for name, count in files.items() if count > 1] == []


def test_folders_are_small():
    """Beside PyTorch's public modules the package has few of its own, and no folder is a heap."""
    files = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in FILES.values())
    own = {name.partition(".")[0] for name in FILES} - {"__init__", "__main__", "__config__"}
    own = {name for name in own if not names.is_module(name)}
    assert len(own) <= MOST_OWN, sorted(own)
    del files["."]  # most are PyTorch's
    assert {name: count for name, count in files.items() if count > MOST_FILES} == {}
