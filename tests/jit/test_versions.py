"""Archives of older versions: operators mean what they meant when the archive was written."""

import io
import zipfile

import pytest

import tritorch as torch

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        z = x.clone()
        if z.is_floating_point():
            z.div_(y)
        return [torch.div(x, y), x.div(2), torch.full([2], 3), z]


def archive(module: torch.nn.Module, version: int) -> io.BytesIO:
    """The archive of a module with another version."""
    before, after = io.BytesIO(), io.BytesIO()
    torch.jit.save(torch.jit.script(module), before)
    with zipfile.ZipFile(before) as source, zipfile.ZipFile(after, "w") as target:
        for entry in source.infolist():
            is_version = entry.filename.endswith("version")
            target.writestr(
                entry.filename, str(version) if is_version else source.read(entry.filename)
            )
    after.seek(0)
    return after


@pytest.mark.parametrize(
    ("version", "quotient", "half", "dtype"),
    [
        (3, [3, 2], [3, 4], torch.float32),
        (4, [3.5, 8 / 3], [3.5, 4], torch.float32),
        (10, [3.5, 8 / 3], [3.5, 4], torch.int64),
    ],
)
def test_integers(version: int, quotient: list[float], half: list[float], dtype: object) -> None:
    module = torch.jit.load(archive(Plain(), version))
    divided, halved, filled, _ = module(torch.tensor([7, 8]), torch.tensor([2, 3]))
    assert divided.tolist() == pytest.approx(quotient)
    assert halved.tolist() == half
    assert filled.dtype == dtype


def test_floats() -> None:
    module = torch.jit.load(archive(Plain(), 3))
    divided, *_, inplace = module(torch.tensor([7.0]), torch.tensor([2.0]))
    assert divided.item() == inplace.item() == 3.5


def test_archives_say_which_version_their_operators_need() -> None:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(Plain()), buffer)
    with zipfile.ZipFile(buffer) as written:
        (name,) = [each for each in written.namelist() if each.endswith("version")]
        assert written.read(name).strip() == b"5"
    buffer.seek(0)
    divided, *_ = torch.jit.load(buffer)(torch.tensor([7]), torch.tensor([2]))
    assert divided.item() == 3.5
