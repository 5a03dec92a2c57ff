"""torchrun: starts a program in all processes of a job, on one host or on each of several.

`python -m tritorch launch [OPTIONS] SCRIPT [ARGUMENT ...]` on each host.  docs/launching.md has
examples.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from argparse import REMAINDER, ArgumentParser
from collections.abc import Callable
from typing import Any

from tritorch import cuda
from tritorch.cli import commands
from tritorch.distributed import schedulers
from tritorch.distributed.argparse_util import check_env as check_env, env as env
from tritorch.distributed.elastic.logs import DefaultLogsSpecs as DefaultLogsSpecs, Std as Std
from tritorch.distributed.elastic.multiprocessing import SignalException
from tritorch.distributed.elastic.multiprocessing.errors import ChildFailedError, record as record
from tritorch.distributed.launcher.api import (
    LaunchConfig as LaunchConfig,
    elastic_launch as elastic_launch,
)

__all__ = ["config_from_args", "get_args_parser", "main", "parse_args", "run"]

_PROGRAM = "tritorch.distributed.elastic.program"


def _words(text: str) -> list[str]:
    """A list with commas between, ",," for a comma."""
    return [each.replace("\0", ",") for each in text.replace(",,", "\0").split(",")]


def get_args_parser() -> ArgumentParser:
    """Torchrun's options."""
    parser = commands.Parser(
        prog="torchrun", description="Starts a program in all processes of a job."
    )
    add = parser.add_argument
    add("--nnodes", action=env, default="1:1", help="hosts, or MIN:MAX of them")
    add(
        "--nproc-per-node",
        "--nproc_per_node",
        action=env,
        default="1",
        help="workers on each host: a number, auto, gpu or cpu",
    )
    add("--rdzv-backend", "--rdzv_backend", action=env, default="static", help="c10d or static")
    add(
        "--rdzv-endpoint",
        "--rdzv_endpoint",
        action=env,
        default="",
        help="host:port of the store by which launchers meet",
    )
    add("--rdzv-id", "--rdzv_id", action=env, default="none", help="the job's name")
    add(
        "--rdzv-conf",
        "--rdzv_conf",
        action=env,
        default="",
        help="timeout=900,last_call_timeout=30,keep_alive_interval=5,is_host=1",
    )
    add("--standalone", action=check_env, help="one host, and a free port")
    add(
        "--max-restarts",
        "--max_restarts",
        action=env,
        type=int,
        default=0,
        help="how often workers start again after a failure",
    )
    add(
        "--monitor-interval",
        "--monitor_interval",
        action=env,
        type=float,
        default=0.1,
        help="seconds between two looks at the workers",
    )
    add(
        "--start-method",
        "--start_method",
        action=env,
        default="spawn",
        choices=["spawn", "fork", "forkserver"],
        help="how processes of functions start",
    )
    add(
        "--event-log-handler",
        "--event_log_handler",
        action=env,
        default="null",
        help="taken for PyTorch's sake: there are no events",
    )
    add("--role", action=env, default="default", help="what workers are called")
    add("-m", "--module", action=check_env, help="the program is a module, as in python -m")
    add(
        "--as-torch",
        "--as_torch",
        action=check_env,
        help="`import torch` gives tritorch in the program, beside an installed torch too; without "
        "one it does anyway",
    )
    add("--no-python", "--no_python", action=check_env, help="the program is none of Python's")
    add(
        "--run-path",
        "--run_path",
        action=check_env,
        help="taken for PyTorch's sake: programs run so that their errors are known anyway",
    )
    add("--log-dir", "--log_dir", action=env, default=None, help="where files of output go")
    add(
        "-r",
        "--redirects",
        action=env,
        default="0",
        help="output into files: 1 stdout, 2 stderr, 3 both; or by local rank, as in 0:1,1:3",
    )
    add("-t", "--tee", action=env, default="0", help="the same, and onto the console")
    add(
        "--local-ranks-filter",
        "--local_ranks_filter",
        action=env,
        default="",
        help="local ranks that the console has output of, as in 0,1",
    )
    add(
        "--duplicate-stdout-filters",
        "--duplicate_stdout_filters",
        action=env,
        type=_words,
        default=[],
        help="lines with one of these also go to filtered_stdout.log",
    )
    add(
        "--duplicate-stderr-filters",
        "--duplicate_stderr_filters",
        action=env,
        type=_words,
        default=[],
        help="lines with one of these also go to filtered_stderr.log",
    )
    add(
        "--node-rank",
        "--node_rank",
        action=env,
        type=int,
        default=0,
        help="this host's number, for static",
    )
    add(
        "--master-addr",
        "--master_addr",
        action=env,
        default="127.0.0.1",
        help="the address of host 0, for static",
    )
    add(
        "--master-port",
        "--master_port",
        action=env,
        type=int,
        default=None,
        help="the store's port there",
    )
    add("--local-addr", "--local_addr", action=env, default=None, help="this host's address")
    add("--logs-specs", "--logs_specs", default=None, help="taken for PyTorch's sake")
    add(
        "--signals-to-handle",
        "--signals_to_handle",
        action=env,
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        help="signals that end the job",
    )
    add(
        "--shutdown-timeout",
        "--shutdown_timeout",
        action=env,
        type=int,
        default=None,
        help="seconds that workers have to end, before SIGKILL (10)",
    )
    add(
        "--virtual-local-rank",
        "--virtual_local_rank",
        action=check_env,
        help="each worker sees one GPU, its LOCAL_RANK is 0",
    )
    add("training_script", help="the program")
    add("training_script_args", nargs=REMAINDER, help="its arguments")
    return parser  # fmt: skip


def parse_args(args: Any) -> Any:
    """Torchrun's options, from words."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """(least, most) of "2" or "1:4"."""
    parts = nnodes.split(":")
    if len(parts) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node: str) -> int:
    """The number of workers of this host."""
    if nproc_per_node.isdigit():
        return int(nproc_per_node)
    gpus = cuda.device_count() if cuda.is_available() else 0
    if nproc_per_node == "gpu" and not gpus:
        raise ValueError("Cuda is not available.")
    if nproc_per_node in ("gpu", "auto") and gpus:
        return gpus
    if nproc_per_node in ("cpu", "auto"):
        return os.cpu_count() or 1
    raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")


def _pairs(text: str) -> dict[str, str]:
    pairs = (each.split("=", 1) for each in text.split(",") if each.strip())
    return {key.strip(): value.strip() for key, value in pairs}


def _by_scheduler(args: Any) -> None:
    """What a scheduler knows and the options do not say."""
    untold = args.nnodes == "1:1" and not args.rdzv_endpoint and not args.standalone
    found = schedulers.as_launcher() if untold else None
    if found is not None and found.host:
        args.nnodes, args.node_rank = str(found.size), found.rank
        args.master_addr, args.master_port = found.host, found.port
        args.rdzv_backend = "static"


def config_from_args(args: Any) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """(configuration, command, its arguments)."""
    least, most = parse_min_max_nnodes(args.nnodes)
    if not 0 < least <= most:
        raise AssertionError(f"nnodes={args.nnodes}: MIN:MAX with 0 < MIN <= MAX")
    if args.max_restarts < 0:
        raise AssertionError("max_restarts must be >= 0")
    settings: dict[str, Any] = _pairs(args.rdzv_conf)
    endpoint = args.rdzv_endpoint
    if args.rdzv_backend == "static":
        settings["rank"] = args.node_rank
        endpoint = endpoint or f"{args.master_addr}:{args.master_port or 29500}"
    chosen = args.local_ranks_filter
    specs = DefaultLogsSpecs(
        args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee),
        set(map(int, chosen.split(","))) if chosen else None,
    )  # fmt: skip
    config = LaunchConfig(
        min_nodes=least,
        max_nodes=most,
        nproc_per_node=determine_local_world_size(str(args.nproc_per_node)),
        run_id=args.rdzv_id,
        role=args.role,
        rdzv_endpoint=endpoint,
        rdzv_backend=args.rdzv_backend,
        rdzv_configs=settings,
        max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval,
        start_method=args.start_method,
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        local_addr=args.local_addr,
        logs_specs=specs,
        signals_to_handle=args.signals_to_handle,
        duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters,
        virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )
    if args.no_python:
        if args.as_torch:
            raise ValueError("--no-python and --as-torch exclude each other")
        if args.module:
            raise ValueError("--no-python and --module exclude each other")
        return config, args.training_script, list(args.training_script_args)
    words = ["-u", "-m", _PROGRAM]
    # A launcher that stands for torchrun has workers that do.
    if args.as_torch or "torch" in sys.modules:
        words.append("--as-torch")
    if args.module:
        words.append("-m")
    words.append(args.training_script)
    return config, os.environ.get("PYTHON_EXEC", sys.executable), [
        *words, *args.training_script_args
    ]  # fmt: skip


def run(args: Any) -> None:
    """Runs a job; raises ChildFailedError if it fails."""
    _by_scheduler(args)
    alone = parse_min_max_nnodes(args.nnodes)[1] == 1
    untold = args.rdzv_backend == "static" and not args.rdzv_endpoint and args.master_port is None
    if args.standalone or (alone and untold):
        args.rdzv_backend, args.rdzv_endpoint = "c10d", "localhost:0"
        args.rdzv_id = str(uuid.uuid4())
    config, command, words = config_from_args(args)
    elastic_launch(config, command)(*words)


def main(args: Any = None) -> int:
    """Torchrun, as a command; gives the exit status."""
    options = parse_args(args)
    try:
        _look(options)
    except (commands.Refused, ValueError, RuntimeError, AssertionError) as error:
        print(f"torchrun: {error}", file=sys.stderr)
        return 2
    return run_command(run, options)


def _look(args: Any) -> None:
    """Refuses a program that is not there, and options that no job can have."""
    if args.no_python:
        if shutil.which(args.training_script) is None:
            raise commands.Refused(f"no such program: {args.training_script}")
    else:
        commands.program([*(["-m"] if args.module else []), args.training_script])
    config_from_args(args)


def run_command(launch: Callable[[Any], None], options: Any) -> int:
    """Runs a job, shows what has failed, and gives the exit status."""
    try:
        record(launch)(options)
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        return 1
    except SignalException as error:
        print(f"torchrun: {error}; the workers have ended", file=sys.stderr)
        return 128 + error.sigval
    return 0


def torchrun() -> int:
    """The command `torchrun`: in its programs, `import torch` gives tritorch."""
    from tritorch.compat.as_torch import as_torch

    as_torch()
    return main()


if __name__ == "__main__":
    sys.exit(main())
