"""SummaryWriter writes what PyTorch's writes (recorded by tools/record/event_files.py)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tritorch as torch
from tests.tensorboard import cases

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


@pytest.fixture
def tensorboard():
    return pytest.importorskip("tensorboard", reason="the tensorboard package is not installed")


def test_without_the_package_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['tensorboard'] = None\n"
        "import tritorch; tritorch.as_torch()\n"
        "try:\n    from torch.utils.tensorboard import SummaryWriter\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "run `pip install 'tritorch[tensorboard]'`" in done.stdout, done.stderr


def test_every_record_is_pytorchs(tensorboard, tmp_path):
    from tritorch.utils.tensorboard import SummaryWriter

    cases.log(torch, SummaryWriter, str(tmp_path))
    found = json.loads(json.dumps(cases.read(str(tmp_path))))
    assert list(found) == list(RECORDED)
    for name, content in RECORDED.items():
        if isinstance(content, str):
            assert found[name] == content
            continue
        assert len(found[name]) == len(content)
        for event, expected in zip(found[name], content):
            assert event == expected


WRONG = {
    "a vector": (NotImplementedError, "Got <class 'list'>", lambda w: w.add_scalar("a", [1, 2])),
    "several": (AssertionError, "one element", lambda w: w.add_scalar("a", torch.ones(2))),
    "nothing": (ValueError, "no element", lambda w: w.add_histogram("h", torch.zeros(0))),
    "two dims": (AssertionError, "different", lambda w: w.add_image("i", torch.zeros(3, 4))),
    "stereo": (AssertionError, "1 dimensional", lambda w: w.add_audio("s", torch.zeros(2, 3))),
    "one tag": (AssertionError, "3 tags", lambda w: w.add_custom_scalars_marginchart(["a"])),
    "a list": (ValueError, "one of int, float", lambda w: w.add_hparams({"a": [1]}, {})),
    "no dict": (TypeError, "should be dictionary", lambda w: w.add_hparams([], {})),
    "domain": (TypeError, "same type", lambda w: w.add_hparams({"a": 1}, {}, {"a": ["x"]})),
    "dtype": (
        ValueError,
        "unsupported tensor dtype",
        lambda w: w.add_tensor("a", torch.zeros(1, dtype=torch.float8_e5m2)),
    ),
    "counts": (
        ValueError,
        "bucket_counts",
        lambda w: w.add_histogram_raw("r", 0, 1, 2, 3, 4, [1], [2, 3]),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(tensorboard, tmp_path, name):
    from tritorch.utils.tensorboard import SummaryWriter

    error, message, call = WRONG[name]
    with SummaryWriter(tmp_path) as writer, pytest.raises(error, match=message):
        call(writer)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.body = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3))

    def forward(self, x, bias):
        return self.body(self.conv(x)) + bias


def test_a_graph(tensorboard, tmp_path, capsys):
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    from tritorch.utils.tensorboard import SummaryWriter

    net = Net().train()
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_graph(net, (torch.randn(1, 1, 4, 4), torch.zeros(3)), verbose=True)
    assert "node {" in capsys.readouterr().out and net.training
    import base64

    (events,) = cases.read(str(tmp_path)).values()
    graph = GraphDef.FromString(base64.b64decode(events[1]["graphDef"]))
    nodes = {node.name: node for node in graph.node}
    assert {"input/x.1", "input/x.2", "output/output.1", "Net/Conv2d[conv]/weight"} <= set(nodes)
    (linear,) = (n for n in graph.node if n.op == "aten::linear")
    assert linear.name == "Net/Sequential[body]/Linear[2]/linear"
    assert "Net/Sequential[body]/Linear[2]/weight" in linear.input
    (shape,) = linear.attr["_output_shapes"].list.shape
    assert [dim.size for dim in shape.dim] == [1, 3]
    (last,) = nodes["output/output.1"].input
    assert set(nodes[last].input) == {linear.name, "input/x.2"}
    assert all(source in nodes for node in graph.node for source in node.input)
    assert "taggedRunMetadata" in events[2]


def test_videos_and_figures(tensorboard, tmp_path):
    import io

    from PIL import Image

    from tritorch.utils.tensorboard import SummaryWriter, summary

    clip = torch.arange(3 * 4 * 3 * 5 * 6).reshape(3, 4, 3, 5, 6).to(torch.uint8)
    image = summary.video("v", clip, fps=10).value[0].image
    picture = Image.open(io.BytesIO(image.encoded_image_string))
    assert (image.height, image.width, picture.size) == (5, 24, (24, 5)) and picture.n_frames == 4
    assert picture.info["duration"] == 100
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_figure("f", [pyplot.figure(), pyplot.figure()])
    assert not pyplot.get_fignums()


def test_a_folder_by_default(tensorboard, tmp_path, monkeypatch):
    from tritorch.utils.tensorboard import SummaryWriter

    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_note")
    writer.close()
    assert writer.get_logdir().startswith("runs/") and writer.get_logdir().endswith("_note")
    writer.add_scalar("again", 1)  # opens another file
    writer.flush(), writer.close(), writer.close()
    assert len(writer.default_bins) == 1549
