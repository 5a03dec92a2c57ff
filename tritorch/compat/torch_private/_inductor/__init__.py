"""torch._inductor: the settings of PyTorch's compiler of kernels, which programs read and set."""

from __future__ import annotations

import os
import tempfile
import typing
from typing import Any

from tritorch.compat.torch_private._inductor import config

_LITE_OFF = (
    "reorder_for_peak_memory reorder_for_compute_comm_overlap "
    "triton.reorder_for_reducing_graph_partitions use_pre_grad_passes use_joint_graph_passes "
    "use_post_grad_passes use_dce allow_buffer_reuse"
)
lite_mode_options: dict[str, bool] = {
    "fallback_by_default": True,
    "selective_decompose": True,
    **dict.fromkeys(_LITE_OFF.split(), False),
}
_TUNED = {"max_autotune": True, "coordinate_descent_tuning": True}
_MODES: dict[str, dict[str, bool]] = {
    "default": {},
    "lite": lite_mode_options,
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": _TUNED,
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, **_TUNED},
}


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The settings that a mode of `compile` stands for, or those of all modes."""
    if mode == "exact":  # PyTorch has none: eager's bits
        return {}
    if mode and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return dict(_MODES[mode] if mode else _MODES)


def wants_graphs(mode: str | None, options: dict[str, Any]) -> bool:
    """Whether what is compiled is to be launched as CUDA graphs."""
    chosen = {**list_mode_options(mode), **options} if mode else options
    name = "triton.cudagraphs"
    dashed = {key.replace("-", "_"): value for key, value in chosen.items()}
    return bool(dashed.get(name, config.triton.cudagraphs))


def fusing(mode: str | None, options: dict[str, Any]) -> str:
    """How kernels are written for several calls: `Making.fusing` of `compilation/plan/plans.py`.

    None are if settings allow kernels of one call alone."""
    chosen = {key.replace("-", "_"): value for key, value in options.items()}
    if chosen.get("max_fusion_size", config.max_fusion_size) < 2:
        return ""
    rounds = chosen.get("emulate_precision_casts", config.emulate_precision_casts)
    return "exact" if mode == "exact" or rounds else "default"


# Names that passes had, which programs may still say.
_FORMER_PASSES = {
    "once": "cse", "joining": "concat", "chains": "fused_loops", "beside": "inter_op",
    "fusing": "fusion",
}  # fmt: skip


def passes_off(options: dict[str, Any]) -> frozenset[str]:
    """The passes that are switched off, by their names with commas between them, former ones too.

    Those of PyTorch's that there are not are off anyway."""
    chosen = {key.replace("-", "_"): value for key, value in options.items()}
    said = chosen.get("disabled_passes", config.disabled_passes)
    names = filter(None, (name.strip() for name in said.split(",")))
    return frozenset(_FORMER_PASSES.get(name, name) for name in names)


def settles_checks(options: dict[str, Any]) -> bool:
    """True if calls that check values are computed at once, so that errors leave them."""
    chosen = {key.replace("-", "_"): value for key, value in options.items()}
    return bool(chosen.get("settle_checks", config.settle_checks))


def list_options() -> list[str]:
    """The names of all settings."""
    return list(config.get_config_copy())


def check_options(options: dict[str, Any]) -> None:
    """Raises what PyTorch does about an option of `compile` that is no setting, or of another
    type."""
    known = config.shallow_copy_dict()
    for name, value in options.items():
        key = name.replace("-", "_")
        if key not in known:
            raise RuntimeError(
                f"Unexpected optimization option {name}, known options are {list(known)}"
            )
        kind = config.get_type(key)
        if typing.get_origin(kind) is None and not isinstance(value, kind):
            got, wanted = type(value).__name__, type(known[key]).__name__
            raise RuntimeError(f"Unexpected type of attr {name}, got {got} should be {wanted}")


def compile(gm: Any, example_inputs: Any = None, options: dict[str, Any] | None = None) -> Any:
    """A graph, compiled with the package's own compiler."""
    check_options(options or {})
    return compile_graph(gm, None, options or {})


def compile_graph(gm: Any, mode: str | None, options: dict[str, Any]) -> Any:
    """A graph as a region of its own; mode and options as those of `compile`."""
    from tritorch.compilation.follow.compiled import follower_of
    from tritorch.compilation.follow.regions import Options
    from tritorch.compilation.plan.plans import Making

    making = Making(wants_graphs(mode, options), fusing(mode, options), passes_off(options))
    return follower_of(gm.forward, Options(mode=mode, options=options, making=making))


def aoti_compile_and_package(
    exported_program: Any,
    _deprecated_unused_args: Any = None,
    _deprecated_unused_kwargs: Any = None,
    *,
    package_path: Any = None,
    inductor_configs: dict[str, Any] | None = None,
) -> Any:
    """Writes a package of an exported program, which `aoti_load_package` reads, in tritorch's own
    format; its path."""
    from tritorch.compilation.package.packaging import save_package

    if not hasattr(exported_program, "graph_signature"):
        raise ValueError("Only ExportedProgram is supported")
    if exported_program.example_inputs is None:
        raise RuntimeError(
            "exported_program.example_inputs is required to be set in order for AOTInductor "
            "compilation."
        )
    is_path = isinstance(package_path, (str, os.PathLike))
    if is_path and not os.fspath(package_path).endswith(".pt2"):
        raise AssertionError(
            f"Expect package path to be a file ending in .pt2, is None, or is a buffer. Instead "
            f"got {package_path}"
        )
    check_options(inductor_configs or {})
    if package_path is None:
        handle, package_path = tempfile.mkstemp(".pt2")
        os.close(handle)
    save_package(exported_program, package_path)
    return package_path


def aoti_load_package(path: Any, run_single_threaded: bool = False, device_index: int = -1) -> Any:
    """The model of a package; device_index: of a GPU, where that is not the current one."""
    from tritorch.compat.torch_private._inductor.package import load_package

    return load_package(path, "model", run_single_threaded, device_index=device_index)


def cudagraph_mark_step_begin() -> None:
    """Does nothing: results of earlier steps are never overwritten."""
