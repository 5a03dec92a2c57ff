"""The names that logs can be asked for by: components, and artifacts of PyTorch's compiler.

A component is a name for loggers, which have levels.  An artifact is a kind of message, which is
on or off.  Programs set both for PyTorch, so every name is known; what is not part of tritorch has
loggers too, which say nothing.
"""

from __future__ import annotations

_DYNAMIC = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.fx.experimental.sym_node",
    "torch.fx.experimental.recording",
)
COMPONENTS: dict[str, tuple[str, ...]] = {
    "async_compile": (
        "torch._inductor.async_compile",
        "torch._inductor.compile_worker.tracked_process_pool",
    ),
    "cache": ("torch._inductor.remote_cache", "torch._inductor.fb.remote_cache"),
    "dynamo": ("torch._dynamo", *_DYNAMIC),
    "fake_tensor": ("torch._subclasses.fake_tensor",),
    "aot": ("torch._functorch.aot_autograd", "torch._functorch._aot_autograd"),
    "autograd": ("torch.autograd",),
    "inductor": ("torch._inductor", "torch._inductor.cudagraph_trees"),
    "dynamic": _DYNAMIC,
    "torch": ("torch",),
    "distributed": (
        "torch.distributed",
        "torch._dynamo.backends.distributed",
        "torch.nn.parallel.distributed",
    ),
    "c10d": ("torch.distributed.distributed_c10d", "torch.distributed.rendezvous"),
    "ddp": ("torch.nn.parallel.distributed", "torch._dynamo.backends.distributed"),
    "pp": ("torch.distributed.pipelining",),
    "fsdp": ("torch.distributed.fsdp", "torch.distributed._composable.fsdp"),
    "dtensor": ("torch.distributed._tensor", "torch.distributed.tensor"),
    "onnx": ("torch.onnx",),
    "native_dsl": ("torch._native",),
    "export": (
        "torch._dynamo",
        "torch.export",
        "torch.export.dynamic_shapes",
        *_DYNAMIC,
        "torch._export.converter",
        "torch._export.non_strict_utils",
        "torch._export.serde.serialize",
        "torch.fx.experimental.proxy_tensor",
    ),
}

# name, flags, description.  v: visible, the help text has it.  o: off by default, a level of
# DEBUG of its component does not turn it on.  k: a keyword of set_logs.
_ARTIFACTS = """
cudagraphs                k   how compiled code is captured in CUDA graphs
guards                    vk  the guards of every compiled frame
verbose_guards            o
bytecode                  ok  the bytecode before and after it is changed
graph                     k   the traced graph, as a table
graph_code                k   the traced graph, as Python
graph_code_verbose        k   the graph after passes that insert checks
graph_sizes               k   the sizes of a traced graph's values
trace_source              k   the source lines that are traced
trace_call                k   the expressions that are traced
trace_bytecode            k   the instructions that are traced, with the stack
aot_graphs                vk  the graphs of the forward and of the backward pass
aot_joint_graph           k   the graph of both passes, before they are parted
aot_graphs_effects        v   the graphs of both passes, with their effects
pre_grad_graphs           k   the graph before the passes that precede gradients
post_grad_graphs          k   the graph after the passes that follow gradients
ir_pre_fusion             ok  the intermediate code before fusion
ir_post_fusion            ok  the intermediate code after fusion
compiled_autograd         vk  what compiled backward passes do
compiled_autograd_verbose ok  the same, with the nodes of the engine
ddp_graphs                k   the parts of a graph whose gradients are sent early
recompiles                vk  why a graph was compiled again
recompiles_verbose        vok every guard that fails when a graph is compiled again
graph_breaks              vk  where tracing stops
side_effects              vk  what a traced function changes outside
not_implemented           -   operators that answer NotImplemented
output_code               vok the code that is generated
kernel_code               vok the code that is generated, by kernel
plan                      vok how each graph is computed: what runs together, and in which memory
schedule                  ok  the order of the generated code
perf_hints                ok
onnx_diagnostics          ok
compute_dependencies      ok
fusion                    ok  what is fused, and why
loop_ordering             o   the order of loops
loop_tiling               o   the tiles of loops
auto_chunker              o   what is computed in parts
overlap                   ok  what is computed while data is sent
overlap_scheduling        o   the order of what overlaps
sym_node                  ok  operations on symbolic sizes
trace_shape_events        o   the events of a shape environment
cudagraph_static_inputs   ok  the inputs that keep their addresses
benchmarking              ok  the measurements of generated code
incremental               ok  tuning in steps
node_runtime_estimation   o   the estimated times of nodes
autotuning                ok  the choices of tuning
graph_region_expansion    ok  the regions of a graph that repeat
inductor_metrics          ok  the sizes and times of generated code
hierarchical_compile      ok  what is compiled once for several regions
annotation                o   notes on nodes
custom_format_test_artifact - for tests
caching                   ok  what is kept of earlier compilations
"""

ARTIFACTS: dict[str, tuple[str, str]] = {}  # name -> (flags, description)
for _line in _ARTIFACTS.strip().splitlines():
    _name, _flags, *_text = _line.split(maxsplit=2)
    ARTIFACTS[_name] = _flags, _text[0] if _text else ""
FORMATS = {"custom_format_test_artifact": ""}
_WITHOUT_KEYWORD = ("async_compile", "cache", "fake_tensor", "torch", "pp", "native_dsl")
KEYWORDS: dict[str, bool | None] = {
    **{name: None for name in COMPONENTS if name not in _WITHOUT_KEYWORD},
    **{name: False for name, (flags, _) in ARTIFACTS.items() if "k" in flags},
}
