"""The page of a run: what was planted is named, and every kernel belongs to somebody."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tritorch as torch
from tritorch import cuda, nn
from tritorch.profiler._page import page_data, write_page
from tritorch.profiler._page.gaps import Gaps
from tritorch.profiler._page.peaks import Peak, peak_of
from tritorch.profiler._page.run import Run
from tritorch.profiler._page.tables import Tables
from tritorch.profiling.recordings import Options, Recorder, Recording

EVERYTHING = Options(shapes=True, memory=True, stacks=True, modules=True, device=True)


def recorded(run: Callable[[], Any]) -> Recording:
    recorder = Recorder(EVERYTHING)
    recorder.start()
    try:
        run()
    finally:
        found = recorder.stop()
    return found


def line_of(function: Callable[..., Any], text: str) -> int:
    """The line of a function's source that has some text."""
    source, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(source) if text in line)


def line_in(data: dict[str, Any], number: int) -> int:
    return int(data["line_table"][number][1])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.last = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.inner(x)).tanh()


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    model = Net().cuda()
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    cuda.synchronize()
    yield model


def test_a_gap_that_the_host_makes(net: Net) -> None:
    x = torch.randn(4, 8, device="cuda")

    def run() -> None:
        net(x)
        cuda.synchronize()
        time.sleep(0.25)
        x.mul(3)  # late
        cuda.synchronize()

    data = page_data(recorded(run), "gap")
    found = data["gaps"][0]
    assert found["cause"] == "host-bound" and found["us"] > 200_000
    assert line_in(data, found["line"]) == line_of(run, "# late")


def test_a_gap_that_a_synchronisation_makes() -> None:
    x = torch.randn(256, 256, device="cuda")
    x.mm(x).sum().item()

    def run() -> None:
        for _ in range(6):
            y = x
            for _ in range(4):
                y = y.mm(x)
            y.sum().item()  # waits

    data = page_data(recorded(run), "waits")
    found = max(data["gaps"], key=lambda gap: gap["count"])
    assert found["cause"] == "synchronisation"
    assert line_in(data, found["line"]) == line_of(run, "# waits")


class Slow(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.15)
        return torch.full((4, 8), float(index))


def test_a_gap_that_a_loader_makes(net: Net) -> None:
    def run() -> None:
        for batch in torch.utils.data.DataLoader(Slow(), batch_size=None):  # loads
            net(batch.cuda())
            cuda.synchronize()

    data = page_data(recorded(run), "loader")
    found = data["gaps"][0]
    assert found["cause"] == "data loader" and found["us"] > 200_000
    assert line_in(data, found["line"]) == line_of(run, "# loads")


def training(net: Net, steps: int) -> None:
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(steps):
        x = torch.randn(4, 8, device="cuda")
        loss = net(x).square().mean()  # forward
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_each_kernel_belongs_to_an_operator_a_module_and_a_line(net: Net) -> None:
    training(net, 1)
    recording = recorded(lambda: training(net, 2))
    data = page_data(recording, "training")
    run = Run(recording)
    assert len(run.kernels) > 20
    for kernel in run.kernels:
        assert kernel.host >= 0 and kernel.op and kernel.line >= 0, kernel
        assert run.lines[kernel.line].file == __file__, kernel
    of_modules = {run.paths[kernel.path] for kernel in run.kernels if kernel.path >= 0}
    assert {"Net.inner.0", "Net.inner.1", "Net.last", "Net"} <= of_modules
    backward = [kernel for kernel in run.kernels if kernel.is_backward and kernel.path >= 0]
    assert {run.paths[kernel.path] for kernel in backward} >= {"Net.inner.0", "Net.last"}
    forward = line_of(Net.forward, "self.last")
    assert {run.lines[k.line].line for k in backward} >= {forward}
    lines = {line_in(data, row[0]): row for row in data["lines"]}
    inner, last = 2 * 4 * 8 * 16, 2 * 4 * 16 * 4
    products = inner + last + inner + 2 * last  # forward; of the gradients, x needs none
    assert lines[forward][9] == 2 * (products + 4 * 16 + 4 * 4)
    (device,) = [m for m in data["memory"] if m["device"] == 0]
    roles = dict(zip(device["roles"], device["at_peak"]))
    parameters = sum(p.numel() * 4 for p in net.parameters())
    assert roles["parameters"] >= parameters and roles["optimizer"] >= 2 * parameters
    gradients = device["roles"].index("gradients")
    assert max(sizes[gradients] for sizes in device["sizes"]) >= parameters


def test_kernels_inside_of_graphs_are_told_apart(net: Net) -> None:
    x = torch.randn(4, 8, device="cuda")
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = net(x)  # captured
        y.add_(1)

    recording = recorded(lambda: (graph.replay(), graph.replay(), cuda.synchronize()))
    run = Run(recording)
    assert len(run.kernels) == 2 * graph.node_count() > 4
    for kernel in run.kernels:
        assert kernel.op.startswith("aten::") and kernel.line >= 0, kernel
    assert {run.paths[k.path] for k in run.kernels if k.path >= 0} == {
        "Net.inner.0", "Net.inner.1", "Net.last", "Net",
    }  # fmt: skip
    lines = {run.lines[k.line].line for k in run.kernels}
    assert lines == {
        line_of(Net.forward, "self.last"),
        line_of(test_kernels_inside_of_graphs_are_told_apart, "y.add_(1)"),
    }


def test_nodes_of_graphs_keep_their_lines_on_several_streams() -> None:
    small, large = torch.randn(16, device="cuda"), torch.randn(100_000, device="cuda")
    other = cuda.Stream()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        other.wait_stream(cuda.current_stream())
        with cuda.stream(other):
            b = large.exp()  # large
        a = small.exp()  # small
        cuda.current_stream().wait_stream(other)

    run = Run(recorded(lambda: (graph.replay(), graph.replay(), cuda.synchronize())))
    assert len(run.kernels) == 4 and a.shape != b.shape
    here = test_nodes_of_graphs_keep_their_lines_on_several_streams
    for kernel in run.kernels:
        wanted = "# large" if kernel.span.grid[0] > 1 else "# small"
        assert run.lines[kernel.line].line == line_of(here, wanted)


def test_shares_of_a_gap_are_all_of_it(net: Net) -> None:
    """On a GPU, where a gap lasts until the kernel begins."""
    found = Gaps(Run(recorded(lambda: training(net, 2))), lazy=False).found
    assert found
    for gap in found:
        assert min(gap.shares) >= 0 and sum(gap.shares) == pytest.approx(gap.end - gap.begin)
        assert gap.shares[gap.cause] == max(gap.shares)


def test_a_page_stands_alone(net: Net, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(recorded(lambda: training(net, 2)), str(path), "a <run>")
    text = path.read_text()
    assert len(text) < 5_000_000 and "a &lt;run&gt;" in text
    text, _, after = text.partition('<script type="application/json"')  # which has the source
    text += after.partition("</script>")[2]
    for outside in ("http://", "https://", "src=", "@import", "url("):
        assert outside not in text


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_browser_draws_the_page(net: Net, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(recorded(lambda: training(net, 1)), str(path), "in a browser")
    found = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
            f"--user-data-dir={tmp_path / 'browser'}", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    assert 'data-drawn="yes"' in found  # set when the script has run to its end
    for part in ("Net.inner.0", "aten::linear", "host-bound", "Peak of"):
        assert part in found


def names_of(profile: torch.profiler.profile) -> list[tuple[str, str, bool, bool]]:
    """Of each event, those of the device last: where it was, its name, whether it has a stack and
    whether it has shapes."""
    found = [
        (e.device_type.name, e.name, bool(e.stack), bool(e.input_shapes)) for e in profile.events()
    ]
    return sorted(found, key=lambda event: event[0])


@pytest.mark.parametrize("options", [{}, {"record_shapes": True, "profile_memory": True}])
def test_a_program_profiles_itself(net: Net, options: dict[str, bool]) -> None:
    def step() -> None:
        net(torch.ones(4, 8, device="cuda")).sum().backward()
        cuda.synchronize()

    step()  # gradients are there
    with torch.profiler.profile(**options) as alone:
        step()
    inner = []

    def program() -> None:
        step()
        for _ in range(2):
            with torch.profiler.profile(**options) as found:
                step()
                with pytest.raises(RuntimeError, match="already enabled"):
                    Recorder(EVERYTHING).start()
            inner.append(found)
        step()

    recorder = Recorder(EVERYTHING, lends=True)
    recorder.start()
    try:
        program()
    finally:
        whole = recorder.stop()
    expected = names_of(alone)
    assert [names_of(found) for found in inner] == [expected, expected]
    kernels = [span.name for span in whole.device]
    of_one = [e.name for e in alone.events() if e.device_type.name == "CUDA"]
    assert of_one and sorted(kernels) == sorted(of_one * 4)
    assert all(span.thread for span in whole.device)  # each belongs to what launched it
    for found in inner:
        begin, end = found.profiler.recording.begin, found.profiler.recording.end
        assert all(begin <= span.begin <= end for span in found.profiler.recording.device)


def test_shares_of_the_roofline() -> None:
    """Of a device that is slow enough for the simulated one: by its memory, and by its rate."""
    x = torch.randn(64, 64, device="cuda")
    torch.mm(x, x)
    cuda.synchronize()

    def program() -> None:
        torch.mm(x, x)  # the product
        cuda.synchronize()

    recording = recorded(program)
    (kernel,) = recording.device
    took = kernel.end - kernel.begin  # nanoseconds
    bytes_moved, operations = 3 * 64 * 64 * 4, 2 * 64**3
    run = Run(recording)
    by_memory = Peak(0.001, {"float32": 1.0}), bytes_moved / 0.001
    by_rate = Peak(1e6, {"float32": 1e-5}), operations / 1e-5 / 1e3
    for peak, bound in (by_memory, by_rate):
        tables = Tables(run, peak)
        product = tables.ops["aten::mm"]
        assert (product.moved, product.flops) == (bytes_moved, operations)
        assert product.row()[-1] == pytest.approx(bound / took, rel=1e-3)
        (line,) = [each for i, each in tables.lines.items() if run.lines[i].line == line_of(
            test_shares_of_the_roofline, "# the product"
        )]  # fmt: skip
        assert line.row()[-1] == product.row()[-1]
    assert Tables(run, None).ops["aten::mm"].row()[-1] is None
    tf32 = peak_of("NVIDIA H100 80GB HBM3")
    assert tf32 and tf32.rate("float32", True) == 494 and tf32.rate("torch.bfloat16", False) == 989
    assert peak_of("GeForce 256") is None
