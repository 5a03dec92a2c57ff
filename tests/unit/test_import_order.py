"""Imports run downward: each package imports only what stands before it, inside functions too."""

import ast
import subprocess
import sys
from pathlib import Path

import tritorch

PACKAGE = Path(tritorch.__file__).parent
# Bottom first.  Packages of one line do not import each other.
ORDER = (
    "_C kernels _common_kernels _assemblers",
    "core",
    "_trees autograd host overrides schema __future__",
    "_triton",
    "gpu",
    "ops",
    "amp fft func linalg masked signal special",
    "cpu cuda",
    "nn return_types",
    "optim distributions multiprocessing",
    "serialization sparse",
    "testing",
)
RANK = {name: i for i, line in enumerate(ORDER) for name in line.split()}
TOP = len(ORDER)  # the rest: programs, PyTorch's other modules; their imports form no circle
# What looks up all the same, inside of functions, and why.
UPWARD = {
    (
        "core.tensor",
        "serialization",
    ): "who pickles a tensor needs the file format, nobody else does",
    ("autograd.profiler", "overrides"): "marks for other profilers are made in a function mode",
    ("autograd.mutation", "utils"): "it watches every operator that writes, in a dispatch mode",
    ("autograd", "func"): "is_grads_batched is vmap of the backward pass",
    ("autograd.gradcheck", "func"): "it tries vmap of the backward pass",
    ("autograd.gradcheck", "sparse"): "it perturbs what a sparse tensor has",
    ("autograd.gradcheck", "testing"): "it compares as assert_close does",
    ("_triton.driver", "cuda"): "Triton asks it for what torch.cuda has",
    ("_triton.driver", "utils"): "Triton's benchmarks ask for a timer",
    ("amp.autocast_mode", "cuda"): "the device that a dtype is asked of",
    ("amp.grad_scaler", "cuda"): "it warns where there is no GPU",
    ("cuda.graphed", "nn"): "modules are captured with their parameters",
    ("func.transforms", "nn"): "functional_call and batch norms of a module",
    ("nn.parallel.distributed", "distributed"): "data parallelism stands on groups of processes",
    ("nn.modules.norm", "distributed"): "one of its norms is of all processes",
    ("nn.modules._functions", "distributed"): "statistics of all processes",
    ("nn.modules.module", "compiler"): "who compiles a module in place needs it, nobody else does",
    ("nn.modules.transformer", "backends"): "whether the padding is left out is set there",
    ("nn.parameter", "serialization"): "who pickles a parameter needs the file format",
}
# Files that know each other, so that one of them asks inside of a function.
CIRCLES = {
    ("autograd.functional", "autograd"): "grad is defined there",
    ("autograd.gradcheck", "autograd"): "grad is defined there",
    ("core.device", "core.defaults"): "a device is a scope of defaults",
    ("core.tensor", "core.storage"): "a tensor's storage makes tensors",
    ("core.tensor", "core.legacy"): "typed classes are of tensors",
    ("core.tensor", "core.typed_storage"): "storages are of tensors' memory",
    ("core.storage", "core.legacy"): "type() names a class of typed storages",
    ("core.dtype", "core.promotion"): "to_complex refuses what does not promote to complex",
    ("core.tensor", "core.printing"): "the repr reads tensors",
    ("ops.embedding", "ops.interpret.sparse.record"): "gradients of sparse layout",
    ("ops.gather", "ops.interpret.sparse.record"): "gradients of sparse layout",
    ("ops.factory", "ops.interpret.sparse.build"): "layout=sparse_coo",
    ("ops.pointwise", "ops.interpret.sparse.pointwise"): "threshold of sparse values",
    ("ops.pointwise", "ops.special"): "i0's gradient is i1, which is i0's neighbour there",
    ("ops.interpret.sparse.record", "ops.interpret.sparse.convert"): "layouts convert to others",
    ("ops.record.pointwise", "ops.record.apply"): "results without data are those of a call",
    ("ops.interpret.vmap", "ops.record.writing"): "an in-place call runs on the batch",
    ("ops.interpret.vmap", "ops.copying"): "copy_ into a batch is one of the whole",
}


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), path


NAMES = {name for name, _ in modules()}


def imports(tree):
    """(module, late) of what a file imports of the package; late: inside a function."""

    def walk(node, late):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and not child.level:
                module = child.module
                if module == "tritorch":
                    yield from ((alias.name, late) for alias in child.names)
                elif module.startswith("tritorch."):
                    inner = module.removeprefix("tritorch.")
                    for alias in child.names:
                        whole = f"{inner}.{alias.name}"
                        yield (whole if whole in NAMES else inner), late
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    if alias.name.startswith("tritorch."):
                        yield alias.name.removeprefix("tritorch."), late
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from walk(child, late or inside)

    return walk(tree, False)


def package(module):
    return module.partition(".")[0]


EDGES = [
    (name, target, late)
    for name, path in modules()
    for target, late in imports(ast.parse(path.read_text()))
    if name != "__init__"
]


def test_packages_import_what_stands_before_them():
    upward, used = [], set()
    for name, target, late in EDGES:
        source, aim = package(name), package(target)
        if source == aim or RANK.get(aim, TOP) < RANK.get(source, TOP):
            continue
        if RANK.get(source, TOP) == TOP == RANK.get(aim, TOP):
            continue
        if late and (name, aim) in UPWARD:
            used.add((name, aim))
        else:
            upward.append(f"{name} imports {target}")
    assert not upward
    assert used == set(UPWARD)  # what is listed is there


def test_packages_form_no_circle():
    below = {}
    for name, target, late in EDGES:
        if (
            not late
            and package(name) != package(target)
            and package(target) in {package(n) for n in NAMES}
        ):
            below.setdefault(package(name), set()).add(package(target))
    while below:
        free = [p for p, needs in below.items() if not needs & below.keys()]
        assert free, f"a circle among {sorted(below)}"
        for name in free:
            del below[name]


def test_late_imports_are_late_for_a_reason():
    """What is loaded with the package anyway is imported at the top, but in a circle of files."""
    code = "import sys, tritorch; print(*(m for m in sys.modules if m.startswith('tritorch.')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("tritorch.") for name in run.stdout.split()}
    floor = ("core", "autograd", "host", "_triton", "gpu", "ops")
    late = {
        (name, target)
        for name, target, late in EDGES
        if late and {name, target} <= loaded and package(name) == package(target) in floor
    }
    assert late == CIRCLES.keys()


def test_kept_plans_hang_on_all_files_that_decide():
    """What the fuser imports, and what that does, is in the name of what is kept (Note [Kept])."""
    from tritorch.compilation.fuse import kept

    below = {}
    for name, target, late in EDGES:
        if not late:
            below.setdefault(name, set()).add(target)
    waiting = {name for name in NAMES if name.startswith("_following.fusing")}
    found = set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= below.get(name, set()) - found
    said = {"_C", "_logging", "_assemblers"}  # no file; says what was done; is in keys
    assert {package(name) for name in found} == {*kept.PACKAGES} | said
