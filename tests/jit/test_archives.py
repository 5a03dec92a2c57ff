"""Archives: written and read again, read from hostile files, and what they may not do."""

import io
import warnings
import zipfile
from typing import Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.jit.archive import container, reading

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Point(NamedTuple):
    x: torch.Tensor
    n: int


class Rich(nn.Module):
    """A module whose attributes and code have most kinds of types."""

    names: Dict[str, int]  # noqa: UP006

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.register_buffer("scale", torch.tensor([2.0, 3.0]))
        self.names = {"a": 1, "b": 2}
        self.sizes = [1, 2, 3]
        self.maybe: int | None = None
        self.word = "häh\n"

    def forward(self, x, shift: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, int]:  # noqa: UP006, UP045
        y = self.inner(x) * self.scale
        if shift is not None:
            y = y + shift
        total = 0
        for key, value in self.names.items():
            total += value * len(key)
        point = Point(y, total)
        return point.x, point.n + len(self.word)

    @torch.jit.export
    def listed(self, n: int) -> List[int]:  # noqa: UP006
        out: List[int] = []  # noqa: UP006
        for i in range(n):
            if i == 3:
                break
            out.append(i * self.sizes[i])
        return out


def saved(module, **options):
    buffer = io.BytesIO()
    torch.jit.save(module, buffer, **options)
    return buffer.getvalue()


def loaded(data, **options):
    return torch.jit.load(io.BytesIO(data), **options)


def records(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data, method)
    return out.getvalue()


def changed(data, part, change):
    """The archive with a record of this ending changed."""
    found = records(data)
    name = next(name for name in found if part in name)
    return packed(found | {name: change(found[name])})


def test_a_module_comes_back():
    module = torch.jit.script(Rich())
    again = loaded(saved(module))
    x = torch.randn(5, 3)
    for arguments in ((x,), (x, torch.ones(2))):
        (a, n), (b, m) = module(*arguments), again(*arguments)
        assert a.equal(b) and n == m == 3 + 4
    assert again.listed(7) == [0, 2, 6] and again.names == {"a": 1, "b": 2}
    assert again.maybe is None and again.sizes == [1, 2, 3] and again.word == "häh\n"
    assert [n for n, _ in again.named_parameters()] == [n for n, _ in module.named_parameters()]
    assert again.original_name == "Rich" and again.code == module.code
    assert loaded(saved(again)).code == again.code
    again.load_state_dict(Rich().state_dict())
    again(x)[0].sum().backward()
    assert next(again.parameters()).grad is not None


def test_modes_parameters_and_moves_reach_the_code():
    module = torch.jit.script(nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3)))
    again = loaded(saved(module.eval()))
    x = torch.randn(4, 3)
    assert not again.training and again(x).equal(module(x))
    again.train()
    again(x)
    assert again.state_dict()["1.num_batches_tracked"].item() == 1
    again.double()
    assert again(x.double()).dtype is torch.float64
    for parameter in again.parameters():
        parameter.data.zero_()
    assert again.eval()(x.double()).abs().sum().item() == 0


def test_functions_traces_and_extra_files(tmp_path):
    @torch.jit.script
    def double(x):
        return x * 2

    path = tmp_path / "double.pt"
    double.save(str(path))
    assert torch.jit.load(path)(torch.ones(2)).tolist() == [2, 2]
    traced = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    torch.jit.save(traced, path, _extra_files={"note.txt": "hello"})
    files = {"note.txt": "", "none.txt": ""}
    again = torch.jit.load(path, map_location="cpu", _extra_files=files)
    assert files["note.txt"] == b"hello" and again(torch.ones(1, 2)).equal(traced(torch.ones(1, 2)))


def test_shared_tensors_stay_shared():
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    module[1].weight = module[0].weight
    again = loaded(saved(torch.jit.script(module)))
    first, second = again.parameters() if len(list(again.parameters())) == 2 else (None, None)
    if first is not None:
        assert first.data_ptr() == second.data_ptr()


def test_compressed_source_is_read():
    data = saved(torch.jit.script(nn.Linear(2, 2)))
    parts = records(data)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, record in parts.items():
            method = zipfile.ZIP_DEFLATED if name.endswith((".py", ".pkl")) else zipfile.ZIP_STORED
            archive.writestr(name, record, method)
    assert loaded(out.getvalue()).in_features == 2


SOURCE = "nn/modules/linear"


@pytest.mark.parametrize(
    "part, old, new, message",
    [
        (SOURCE, b"Linear(", b"Liner(", "no class"),
        (SOURCE, b"torch.linear", b"__import__('os').system", "undefined"),
        (SOURCE, b"torch.linear", b"torch.no_such_operator", "no_such_op"),
        (SOURCE, b"return", b"return (" + b"(" * 900, "nested|parsed"),
        (SOURCE, b"weight : Tensor", b"weight : Nothing", "Nothing"),
    ],
)
def test_source_that_is_wrong_is_refused(part, old, new, message):
    data = saved(torch.jit.script(nn.Linear(2, 2)))
    with pytest.raises(RuntimeError, match=message):
        loaded(changed(data, part, lambda d: b"import os\n" + d.replace(old, new)))


EVAL = b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R."


@pytest.mark.parametrize(
    "part, change, message",
    [
        ("data.pkl", lambda d: d[:40], "truncated|corrupt"),
        ("data.pkl", lambda d: b"cos\nsystem\n(S'true'\ntR.", "os|blocked|allowed"),
        ("data.pkl", lambda d: EVAL, "eval|allowed"),
        ("version", lambda d: b"99", "maximum supported version"),
        ("version", lambda d: b"x", "no number"),
        ("constants.pkl", lambda d: b"", "truncated|EOF|corrupt"),
    ],
)
def test_what_is_wrong_is_refused(part, change, message):
    data = saved(torch.jit.script(nn.Linear(2, 2)))
    with pytest.raises(RuntimeError, match=message):
        loaded(changed(data, part, change))


def test_programs_have_limits(monkeypatch):
    monkeypatch.setattr(reading, "MAX_STEPS", 10_000)

    class Endless(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 3

        def forward(self, x):
            return x

        @torch.jit.export
        def __getstate__(self) -> int:
            return self.n

        @torch.jit.export
        def __setstate__(self, state: int):
            self.training = True
            self.n = state

    data = saved(torch.jit.script(Endless()))
    assert loaded(data).n == 3
    endless = "  def __setstate__(self, state: int) -> NoneType:\n    while True:\n      pass\n"
    text = records(data)
    name = next(name for name in text if b"__setstate__" in text[name] and name.endswith(".py"))
    head, _, tail = text[name].partition(b"  def __setstate__")
    following = tail.find(b"\n  def ")
    rest = tail[following + 1 :] if following >= 0 else b""
    with pytest.raises(RuntimeError, match="budget"):
        loaded(packed(text | {name: head + endless.encode() + rest}))


def test_records_may_not_inflate_without_end(monkeypatch):
    monkeypatch.setattr(container, "MAX_INFLATED", 10_000)
    parts = records(saved(torch.jit.script(nn.Linear(2, 2))))
    name = next(name for name in parts if "nn/modules/linear" in name)
    with pytest.raises(RuntimeError, match="inflate to more than"):
        loaded(packed(parts | {name: b"#" * 1_000_000}, zipfile.ZIP_DEFLATED))


def test_operators_that_are_missing_are_named_when_an_archive_is_loaded():
    data = saved(torch.jit.script(nn.Linear(2, 2)))
    asks = (
        b"training = self.training\n    if training:\n      pass\n    else:\n      input = "
        b"torch._cudnn_init_dropout_state(0.5, True, 0, dtype=6)\n    return"
    )
    with pytest.warns(UserWarning, match="does not have.*_cudnn_init_dropout_state"):
        again = loaded(changed(data, "nn/modules/linear", lambda d: d.replace(b"return", asks, 1)))
    assert again(torch.ones(1, 2)).shape == (1, 2)
    with pytest.raises((NotImplementedError, RuntimeError), match="_cudnn_init_dropout_state"):
        again.eval()(torch.ones(1, 2))


def test_an_archive_is_no_checkpoint(tmp_path):
    path = tmp_path / "m.pt"
    torch.save(nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(RuntimeError, match=r"constants\.pkl"):
        torch.jit.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.jit.script.__wrapped__(nn.Linear(2, 2)).save(str(path))
