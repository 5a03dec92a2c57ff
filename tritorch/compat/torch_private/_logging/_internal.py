"""The levels of logs: what `set_logs` or TORCH_LOGS asks for, given to Python's loggers."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import itertools
import logging
import os
import pkgutil
import re
import warnings
from collections.abc import Callable
from typing import Any, Generic, ParamSpec
from weakref import WeakSet

from tritorch.compat.torch_private._logging import _registrations
from tritorch.compat.torch_private._logging._format import (
    TorchLogsFormatter as TorchLogsFormatter,
    default_formatter,
    make_module_path_relative as make_module_path_relative,
)
from tritorch.compat.torch_private._logging._registry import (
    LogRegistry as LogRegistry,
    LogState,
    log_registry,
)
from tritorch.compat.torch_private._logging.structured import (
    DTRACE_ENV_VAR as DTRACE_ENV_VAR,
    TRACE_ENV_VAR as TRACE_ENV_VAR,
    LazyTraceHandler as LazyTraceHandler,
    dtrace_structured as dtrace_structured,
    get_structured_logging_overhead as get_structured_logging_overhead,
    trace_log as trace_log,
    trace_structured as trace_structured,
    trace_structured_artifact as trace_structured_artifact,
)
from tritorch.core.scopes import Scope, scoped

_P = ParamSpec("_P")
log = logging.getLogger("torch._logging._internal")

DEFAULT_LOG_LEVEL = logging.WARNING
LOG_ENV_VAR = "TORCH_LOGS"
LOG_OUT_ENV_VAR = "TORCH_LOGS_OUT"
DEFAULT_LOGGING: dict[str, Any] = {
    **dict.fromkeys(("dynamo", "aot", "inductor", "fsdp"), logging.INFO),
    **dict.fromkeys(("ddp_graphs", "graph_breaks", "side_effects", "guards", "recompiles"), True),
    "dynamic": logging.INFO,
}
INCR_VERBOSITY_CHAR, DECR_VERBOSITY_CHAR = "+", "-"
_LEVELS = {INCR_VERBOSITY_CHAR: logging.DEBUG, DECR_VERBOSITY_CHAR: logging.ERROR}
_SETTINGS = re.compile(r"((\+|-)?[\w\.]+,\s*)*(\+|-)?[\w\.]+?")

log_state = LogState()
DEFAULT_FORMATTER = default_formatter()
handlers: WeakSet[logging.Handler] = WeakSet()  # ours: those of the user stay where they are


# ---- what is asked for ---------------------------------------------------------------------------


def _set_logs(
    *, all: int | None = None, modules: dict[str, int | bool] | None = None, **settings: Any
) -> None:
    for name in settings:
        if name not in _registrations.KEYWORDS:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
    if LOG_ENV_VAR in os.environ:
        log.warning(
            "Using TORCH_LOGS environment variable for log settings, ignoring call to set_logs"
        )
        return
    log_state.clear()
    asked = itertools.chain([("torch", all)], settings.items(), (modules or {}).items())
    for alias, value in asked:
        if value is not None:
            _ask_for(alias, value)
    _init_logs()


def _ask_for(alias: str, value: Any) -> None:
    if log_registry.is_artifact(alias):
        if not isinstance(value, bool):
            raise ValueError(f"Expected bool to enable artifact {alias}, received {value}")
        if value:
            log_state.enable_artifact(alias)
    elif log_registry.is_log(alias) or alias in log_registry.child_log_qnames:
        if value not in logging._levelToName:
            raise ValueError(
                f"Unrecognized log level for log {alias}: {value}, valid level values "
                f"are: {','.join(str(level) for level in logging._levelToName)}"
            )
        log_state.enable_log(log_registry.log_alias_to_log_qnames.get(alias, alias), value)
    elif _is_valid_module(alias):
        _enable_module(log_state, alias, value)
    else:
        raise ValueError(f"Unrecognized log or artifact name passed to set_logs: {alias}")


def set_logs(**settings: Any) -> None:
    """Sets the levels of components (`dynamo=logging.DEBUG`) and turns artifacts on (`graph=True`).

    Everything that is not named has its default again.  `all` is the level of all of torch, and
    `modules` has those of other loggers, by name.  TORCH_LOGS takes precedence.
    """
    _set_logs(**settings)


set_logs.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in {"all": None, **_registrations.KEYWORDS, "modules": None}.items()
    ]
)


def _enable_module(state: LogState, qname: str, level: int) -> None:
    for name in _get_module_and_submodules(qname) or (qname,):
        if _has_registered_parent(name):
            log_registry.register_child_log(name)
        else:
            log_registry.register_log(name, name)
        state.enable_log(name, level)


def _is_valid_module(qname: str) -> bool:
    return importlib.util.find_spec(qname) is not None


def _get_module_and_submodules(qname: str) -> list[str] | None:
    spec = importlib.util.find_spec(qname)
    if spec is None:
        return None
    if spec.submodule_search_locations is None:
        return [qname]
    path = getattr(importlib.import_module(qname), "__path__", ())
    below = pkgutil.walk_packages(path, qname + ".", onerror=lambda name: None)
    return [qname, *(module.name for module in below)]


def _has_registered_parent(log_qname: str) -> bool:
    registered = log_registry.get_log_qnames()
    logger: logging.Logger | None = logging.getLogger(log_qname)
    while logger is not None and logger.parent is not None:
        if logger.name in registered:
            return True
        logger = logger.parent
    return False


@functools.lru_cache
def _parse_log_settings(settings: str) -> LogState:
    """What TORCH_LOGS says: `+dynamo,graph`, with + for DEBUG, - for ERROR, and INFO without."""
    if settings in ("help", "+help"):
        raise ValueError(help_message(verbose=settings == "+help"))
    if settings and _SETTINGS.fullmatch(settings) is None:
        raise ValueError(_invalid_settings_err_msg(settings))
    state = LogState()
    for entry in re.sub(r"\s+", "", settings).split(",") if settings else ():
        level = _LEVELS.get(entry[0], logging.INFO)
        name = entry.lstrip("+-")
        name = "torch" if name == "all" else name
        if log_registry.is_log(name):
            state.enable_log(log_registry.log_alias_to_log_qnames[name], level)
        elif log_registry.is_artifact(name):
            state.enable_artifact(name)
        elif _is_valid_module(name):
            _enable_module(state, name, level)
        else:
            raise ValueError(_invalid_settings_err_msg(settings))
    return state


def help_message(verbose: bool = False) -> str:
    """What TORCH_LOGS=help shows; with verbose every artifact."""
    named = log_registry.artifact_names if verbose else log_registry.visible_artifacts
    texts = log_registry.artifact_descriptions
    heading = "All registered names"
    if not verbose:
        heading = "Visible registered names (use TORCH_LOGS='+help' for full list)"
    lines = ["all", *sorted(log_registry.log_alias_to_log_qnames)]
    lines += sorted(f"{name:<30}\t{texts[name]}" for name in named)
    return f"""
TORCH_LOGS Info

Examples:
  TORCH_LOGS="+dynamo,-aot,graph"  DEBUG for dynamo, ERROR for aot, and the artifact graph
  TORCH_LOGS="+some.module"        DEBUG for a module and those below it
  TORCH_LOGS_FORMAT="%(message)s"  the format of lines
  TORCH_LOGS_OUT=FILE              lines go to a file too

{heading}
{"".join(f"  {line}{chr(10)}" for line in lines)}"""


def _invalid_settings_err_msg(settings: str, verbose: bool = False) -> str:
    names = ["all", *log_registry.log_alias_to_log_qnames, *log_registry.artifact_names]
    return f"""
Invalid log settings: {settings}, must be a comma separated list of fully
qualified module names, registered log names or registered artifact names.
For more info on various settings, try TORCH_LOGS="help"
Valid settings:
{", ".join(sorted(names))}
"""


# ---- loggers -------------------------------------------------------------------------------------


def get_loggers() -> list[logging.Logger]:
    """The loggers of all components."""
    return [logging.getLogger(name) for name in log_registry.get_log_qnames()]


def register_log(setting_name: str, log_name: str | list[str]) -> None:
    """Adds a component, which can be asked for by setting_name."""
    log_registry.register_log(setting_name, log_name)


def register_artifact(
    setting_name: str,
    description: str,
    visible: bool = False,
    off_by_default: bool = False,
    log_format: str | None = None,
) -> None:
    """Adds an artifact; one that is off by default is not turned on by its component's level."""
    log_registry.register_artifact_name(
        setting_name, description, visible, off_by_default, log_format
    )


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """The logger of an artifact in a module."""
    if artifact_name not in log_registry.artifact_names:
        raise ValueError(
            f"Artifact name: {artifact_name!r} not registered,"
            f"please call register_artifact({artifact_name!r}) in torch._logging.registrations."
        )
    name = f"{module_qname}.__{artifact_name}"
    logger = logging.getLogger(name)
    logger.artifact_name = artifact_name  # type: ignore[attr-defined]
    log_registry.register_artifact_log(name)
    configure_artifact_log(logger)
    return logger


def configure_artifact_log(log: Any) -> None:
    """Turns an artifact's logger on or off, as is asked for."""
    if log_registry.is_off_by_default(log.artifact_name):
        log.propagate = False
    if log_state.is_artifact_enabled(log.artifact_name):
        log.setLevel(logging.DEBUG)
        log.propagate = True


def _setup_handlers(create_handler_fn: Callable[[], logging.Handler], log: logging.Logger) -> None:
    handler = create_handler_fn()
    handlers.add(handler)
    handler.setFormatter(DEFAULT_FORMATTER)
    handler.setLevel(logging.DEBUG)
    log.addHandler(handler)


def _clear_handlers(log: logging.Logger) -> None:
    for handler in [handler for handler in log.handlers if handler in handlers]:
        log.removeHandler(handler)


def _reset_logs() -> None:
    for logger in get_loggers():
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        _clear_handlers(logger)
    for name in log_registry.artifact_log_qnames | log_registry.child_log_qnames:
        logger = logging.getLogger(name)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


def _get_log_state() -> LogState:
    return log_state


def _set_log_state(state: LogState) -> None:
    global log_state
    log_state = state


def _init_logs(log_file_name: str | None = None) -> None:
    """Gives every logger the level, handlers and propagation that the state asks for."""
    _reset_logs()
    if (setting := os.environ.get(LOG_ENV_VAR)) is not None:
        _set_log_state(_parse_log_settings(setting))
    file = os.environ.get(LOG_OUT_ENV_VAR, log_file_name)
    for logger in get_loggers():
        if logger.name != "torch":  # whose level is that of all below it
            logger.setLevel(logging.NOTSET)
    for name, level in log_state.get_log_level_pairs():
        logging.getLogger(name).setLevel(level)
    for logger in get_loggers():
        _setup_handlers(logging.StreamHandler, logger)
        if file is not None:
            _setup_handlers(functools.partial(logging.FileHandler, file), logger)
    for name in log_registry.get_artifact_log_qnames():
        configure_artifact_log(logging.getLogger(name))


# ---- warnings and words --------------------------------------------------------------------------


@functools.cache
def warning_once(logger_obj: Any, *args: Any, **kwargs: Any) -> None:
    """A warning that a logger gives once for the same arguments."""
    logger_obj.warning(*args, **kwargs)


def safe_grad_filter(
    message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
) -> bool:
    """Whether a warning is not the one about .grad of a tensor that is no leaf."""
    return "The .grad attribute of a Tensor" not in str(message)


def user_warning_filter(
    message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
) -> bool:
    """Whether a warning is no UserWarning."""
    return category is not UserWarning


@scoped
def hide_warnings(filter_fn: Callable[..., bool] = lambda *args, **kwargs: True) -> Scope:
    """Inside, warnings are shown if filter_fn, given showwarning's arguments, accepts them."""
    before = warnings.showwarning

    def show(*args: Any, **kwargs: Any) -> None:
        if filter_fn(*args, **kwargs):
            before(*args, **kwargs)

    return Scope((warnings, "showwarning", show))


class LazyString(Generic[_P]):
    """A function's result, computed if a log writes it."""

    def __init__(self, func: Callable[_P, str], *args: _P.args, **kwargs: _P.kwargs) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)
