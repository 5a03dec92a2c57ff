"""The levels of PyTorch's logs, as in torch._logging: real ones, of the loggers `torch.<module>`.

TORCH_LOGS is read when this is imported.  Most of the components that PyTorch logs for are its
compiler's, which is not here: their loggers say nothing.
"""

from tritorch.compat.torch_private._logging._internal import (
    DEFAULT_LOGGING as DEFAULT_LOGGING,
    LazyString as LazyString,
    _init_logs as _init_logs,
    getArtifactLogger as getArtifactLogger,
    hide_warnings as hide_warnings,
    set_logs as set_logs,
    warning_once as warning_once,
)
from tritorch.compat.torch_private._logging.structured import (
    _init_trace,
    dtrace_structured as dtrace_structured,
    get_structured_logging_overhead as get_structured_logging_overhead,
    trace_structured as trace_structured,
)

_init_logs()
_init_trace()
