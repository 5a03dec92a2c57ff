"""A launch as an object: `elastic_launch(config, function)(*arguments)`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tritorch.distributed.elastic.host import Host, Settings
from tritorch.distributed.elastic.logs import DefaultLogsSpecs, LogsSpecs, Std
from tritorch.distributed.elastic.meeting import Meeting, open_store
from tritorch.distributed.elastic.workers import Command, Printing

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclasses.dataclass
class LaunchConfig:
    """How many hosts and workers there are, where launchers meet, and what they do of failures.

    rdzv_backend: "c10d" (a store that one of the launchers serves; hosts come and go) or "static"
    (rdzv_configs["rank"] is the host's number, and that of 0 serves).  rdzv_configs: "timeout",
    "last_call_timeout", "keep_alive_interval", "keep_alive_max_attempt", "is_host"."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = dataclasses.field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = dataclasses.field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()


class elastic_launch:
    """Runs a command or a function in all workers, and gives what functions return, by rank."""

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


@contextlib.contextmanager
def _own_secret() -> Iterator[None]:
    """Gives this job a secret, in the environment that its processes inherit, unless it has one.
    (Of several hosts all must know it, so somebody else gives it.)"""
    name = "TRITORCH_JOB_SECRET"
    if name in os.environ:
        yield
        return
    os.environ[name] = secrets.token_hex(16)
    try:
        yield
    finally:
        os.environ.pop(name, None)


def launch_agent(
    config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]
) -> dict[int, Any]:
    """The same, as one call."""
    if not entrypoint:
        raise ValueError("there is no entrypoint: a command, or a function")
    if config.rdzv_backend not in ("c10d", "static"):
        raise ValueError(
            f"no rendezvous by {config.rdzv_backend!r}: c10d and static are there, which need no "
            "service beside the launchers"
        )
    run_id = config.run_id or uuid.uuid4().hex
    given = config.rdzv_configs
    static = config.rdzv_backend == "static"
    alone = config.max_nodes == 1
    endpoint = config.rdzv_endpoint or "localhost:0"
    number = given.get("rank")
    serves = None if not static else int(number or 0) == 0
    if "is_host" in given:
        serves = str(given["is_host"]).lower() in ("1", "true", "yes", "t", "y")
    with _own_secret() if alone else contextlib.nullcontext():
        store, serves = open_store(endpoint, serves, float(given["timeout"]))
        pulse = float(given.get("keep_alive_interval", 5))
        settings = Settings(
            workers=config.nproc_per_node,
            restarts=config.max_restarts,
            interval=config.monitor_interval,
            role=config.role,
            address=store.host,
            port=store.port,
            silence=pulse * float(given.get("keep_alive_max_attempt", 3)),
            signals=config.signals_to_handle,
            virtual_local_rank=config.virtual_local_rank,
            serves=serves,
        )
        patience = config.shutdown_timeout or os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT")
        if patience is not None:
            settings.patience = float(patience)
        filters: dict[Std, Sequence[str]] = {
            Std.OUT: config.duplicate_stdout_filters or (),
            Std.ERR: config.duplicate_stderr_filters or (),
        }
        specs = config.logs_specs or DefaultLogsSpecs()
        printing = Printing(specs, run_id, config.role, config.log_line_prefix_template, filters)
        meeting = Meeting(
            store, run_id, config.min_nodes, config.max_nodes,
            None if number is None else int(number),
            float(given["timeout"]), float(given.get("last_call_timeout", 30)),
        )  # fmt: skip
        command = Command(entrypoint, args, config.start_method)
        return Host(meeting, command, printing, settings).run()
