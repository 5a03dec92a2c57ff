"""torch._logging: levels reach Python's loggers, artifacts are on or off, traces are written."""

import json
import logging
import os
import subprocess
import sys
import warnings

import pytest

from tritorch import _logging
from tritorch._logging import _internal, structured


@pytest.fixture(autouse=True)
def as_at_first():
    yield
    _logging.set_logs()


def level(name):
    return logging.getLogger(name).getEffectiveLevel()


def handlers_of(name):
    return sum(handler in _internal.handlers for handler in logging.getLogger(name).handlers)


def test_levels_reach_the_loggers_of_components():
    _logging.set_logs(all=logging.ERROR, autograd=logging.DEBUG, dynamic=logging.INFO)
    assert level("torch") == level("torch.nn.anything") == logging.ERROR
    assert level("torch.autograd.graph") == logging.DEBUG
    assert level("torch.fx.experimental.sym_node") == logging.INFO
    assert handlers_of("torch.autograd") == 1
    assert not logging.getLogger("torch.autograd").propagate
    _logging.set_logs(modules={"json.decoder": logging.INFO})
    assert level("json.decoder") == logging.INFO
    assert level("torch") == level("torch.autograd.graph") == logging.WARNING
    assert handlers_of("torch.autograd") == 1


def test_artifacts_are_on_or_off():
    recompiles = _logging.getArtifactLogger("torch._dynamo.guards", "recompiles")
    code = _logging.getArtifactLogger("torch._inductor.graph", "output_code")
    assert recompiles.name == "torch._dynamo.guards.__recompiles"
    assert recompiles.propagate and not code.propagate
    assert not recompiles.isEnabledFor(logging.DEBUG)
    _logging.set_logs(recompiles=True, output_code=True)
    assert recompiles.isEnabledFor(logging.DEBUG) and code.propagate
    _logging.set_logs(inductor=logging.DEBUG)  # what is off by default has to be named
    assert not recompiles.isEnabledFor(logging.DEBUG) and not code.propagate


def test_names_and_values_that_are_not_known_are_refused(monkeypatch):
    with pytest.raises(
        TypeError, match=r"set_logs\(\) got an unexpected keyword argument 'nosuch'"
    ):
        _logging.set_logs(nosuch=True)
    with pytest.raises(
        ValueError, match="Unrecognized log or artifact name passed to set_logs: nosuch"
    ):
        _logging.set_logs(modules={"nosuch": logging.INFO})
    with pytest.raises(ValueError, match="Expected bool to enable artifact graph, received 10"):
        _logging.set_logs(graph=10)
    levels = "50,40,30,20,10,0"
    with pytest.raises(ValueError, match=f"for log dynamo: 7, valid level values are: {levels}"):
        _logging.set_logs(dynamo=7)
    with pytest.raises(ValueError, match="'nosuch' not registered,please call register_artifact"):
        _logging.getArtifactLogger("torch", "nosuch")
    for setting in ("nosuch", "dynamo;aot"):
        with pytest.raises(ValueError, match=f"Invalid log settings: {setting}, must be a comma"):
            _internal._parse_log_settings(setting)
    with pytest.raises(ValueError, match="recompiles .*why a graph was compiled again"):
        _internal._parse_log_settings("help")


def test_the_environment_takes_precedence(tmp_path):
    code = """
from tritorch import _logging
import logging
_logging.set_logs(autograd=logging.DEBUG)
logging.getLogger("torch.autograd").info("hidden")
logging.getLogger("torch.onnx").debug("shown")
_logging.getArtifactLogger("torch._dynamo.x", "graph").debug("two\\nlines")
_logging.trace_structured("event", lambda: {"n": 1}, payload_fn=lambda: {"k": [2]})
_logging.dtrace_structured("details")
"""
    out = tmp_path / "log"
    asked = {"TORCH_LOGS": "-autograd, +onnx, graph", "TORCH_LOGS_OUT": str(out)}
    environment = {**os.environ, **asked, "TORCH_TRACE": str(tmp_path / "trace")}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    shown = [line for line in run.stderr.splitlines() if line[:1] in "VIWE"]
    assert [line.partition("]")[2] for line in shown] == [
        " Using TORCH_LOGS environment variable for log settings, ignoring call to set_logs",
        " shown",
        " [__graph] two",
        " [__graph] lines",
    ]
    assert shown[1].startswith("V") and "<string>:6]" in shown[1]
    assert out.read_text().splitlines() == shown
    (trace,) = (tmp_path / "trace").iterdir()
    assert trace.name.startswith("dedicated_log_torch_trace_") and trace.suffix == ".log"
    *_, record, first, second, third, fourth, fifth = trace.read_text().splitlines()
    metadata = json.loads(record.partition("] ")[2])
    assert metadata["event"] == {"n": 1} and metadata["stack"][-1]["line"] == 8
    assert [first, second, third, fourth, fifth] == ["\t{", '\t"k": [', "\t2", "\t]", "\t}"]


def test_traces_cost_nothing_without_a_handler(monkeypatch):
    monkeypatch.setattr(structured.trace_log, "handlers", [])  # pytest has its own

    def never():
        raise AssertionError("called")

    _logging.trace_structured("event", never, payload_fn=never)
    with pytest.raises(AssertionError, match="name 'rank' is reserved"):
        _logging.trace_structured("rank")
    seen = []
    handler = logging.Handler()
    handler.emit = seen.append
    structured.trace_log.addHandler(handler)
    try:
        _logging.trace_structured("event", payload_fn=lambda: "text", suppress_context=True)
    finally:
        structured.trace_log.removeHandler(handler)
    (record,) = seen
    digest = "1cb251ec0d568de6a929b520c4aed8d1"
    assert record.metadata == {"event": {}, "has_payload": digest} and record.payload == "text"
    assert record.filename == "test_logging.py"


def test_warnings_come_once_or_are_hidden():
    class Logger(list):
        __hash__ = object.__hash__

        def warning(self, *args):
            self.append(args)

    logger = Logger()
    for _ in range(2):
        _logging.warning_once(logger, "a %s", 1)
    _logging.warning_once(logger, "b")
    assert logger == [("a %s", 1), ("b",)]
    shown, before = [], warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *args: shown.append(str(message))
        with _logging.hide_warnings(_internal.user_warning_filter):
            warnings.warn("hidden", UserWarning, stacklevel=1)
            warnings.warn("shown", RuntimeWarning, stacklevel=1)
    assert shown == ["shown"] and warnings.showwarning is before


def test_a_lazy_string_is_computed_when_it_is_written():
    calls = []
    text = _logging.LazyString(lambda n, end: calls.append(n) or f"{n}{end}", 3, end="!")
    assert not calls and str(text) == "3!" and calls == [3]
