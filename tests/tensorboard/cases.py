"""What is logged, with any library in torch's place, and how its files are read."""

import glob
import hashlib
import io
import math
import os

import numpy as np

DTYPES = "float16 bfloat16 float32 float64 uint8 int8 int16 int32 int64 bool complex64 complex128"
AT = 7.0  # when


def log(torch, SummaryWriter, folder):
    """Writes something of every kind."""

    def waves(*shape):
        count = np.arange(1, math.prod(shape) + 1)
        return torch.from_numpy(np.sin(count**2 * 0.37).astype(np.float32).reshape(shape))

    writer = SummaryWriter(folder, purge_step=3, filename_suffix=".x")
    writer.add_scalar("a/b", 1.5, 1, AT)
    writer.add_scalar("t", torch.tensor([2.5]), np.int64(2), AT, new_style=True)
    half = torch.tensor(2.5, dtype=torch.bfloat16)
    writer.add_scalar("t", half, torch.tensor(2), AT, new_style=True, double_precision=True)
    writer.add_scalars("m/n", {"x": 1.0, "y": np.float32(2)}, 3, AT)
    for name in DTYPES.split():
        writer.add_tensor("tensor", (waves(2, 2) * 3).abs().to(getattr(torch, name)), 1, AT)
    writer.add_histogram("h", waves(9), 1, walltime=AT)
    writer.add_histogram("h", waves(20).requires_grad_(), 1, "auto", AT)
    writer.add_histogram("h", waves(20), 1, "tensorflow", AT, max_bins=20)
    writer.add_histogram("h", np.array([0, 0, 1e-15, 5.0]), 1, 7, AT)
    writer.add_histogram("h", np.array([-3.0]), 1, walltime=AT)
    writer.add_histogram_raw("r", 0, 1, 2, 3, 4, [1, 2], [3, 4], 1, AT)
    writer.add_image("i", waves(3, 5, 6), 1, AT)
    writer.add_image("i", (waves(5, 6) * 255).abs().to(torch.uint8), 1, AT, dataformats="HW")
    writer.add_image("i", waves(5, 6, 1).numpy(), 1, AT, dataformats="HWC")
    writer.add_image("i", waves(4, 5, 6).abs(), 1, AT)
    writer.add_images("is", waves(5, 1, 4, 4), 1, AT)
    writer.add_images("is", waves(9, 4, 5, 3), 1, AT, "NHWC")
    boxes = torch.tensor([[3, 5, 20, 30]])
    writer.add_image_with_boxes("b", waves(3, 40, 40).abs(), boxes, 1, AT, rescale=0.5)
    writer.add_audio("s", waves(1, 200), 1, 8000, AT)
    writer.add_text("txt", "hello *you*", 1, AT)
    labels, guesses = (waves(50) > 0).numpy(), (waves(50) + 1) / 2
    writer.add_pr_curve("pr", labels, guesses, 1, 5, walltime=AT)
    weights = np.linspace(0, 1, 50)
    writer.add_pr_curve("pr", torch.from_numpy(labels * 1), guesses, 1, 4, weights, AT)
    writer.add_pr_curve_raw("p", [1], [2], [3], [4], [0.25], [0.5], 1, 200, walltime=AT)
    margin = ["Margin", ["a", "b", "c"]]
    writer.add_custom_scalars({"c": {"t": ["Multiline", ["a", "b"]], "u": margin}})
    writer.add_custom_scalars_multilinechart(["q"])
    writer.add_custom_scalars_marginchart(["q", "r", "s"], "c", "d")
    colors, faces = (waves(1, 4, 3).abs() * 255).int(), torch.arange(12).reshape(1, 4, 3).int()
    writer.add_mesh("me", waves(1, 4, 3), colors, faces, {"camera": {"fov": 3}}, 1, AT)
    writer.add_embedding(waves(5, 2), list("abcde"), waves(5, 3, 4, 4).abs(), 2, "t/x")
    writer.add_embedding(waves(5, 2).numpy(), [["a", 1]] * 5, metadata_header=["l", "n"])
    rates, kinds = {"rate": 0.125, "on": True, "none": None}, {"kind": ["adam", "sgd"]}
    writer.add_hparams({**rates, "kind": "adam"}, {"acc": 0.5}, kinds, "run", 4)
    writer.close()


def read(folder):
    """The files' contents as JSON: pictures by their pixels, whose encoding may differ."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "**"), recursive=True)):
        name = os.path.relpath(path, folder)
        if "tfevents" in name:
            found[os.path.join(os.path.dirname(name), "events" + path[-2:])] = _events(path)
        elif path.endswith(".png"):
            with open(path, "rb") as file:
                found[name] = _pixels(file.read())
        elif os.path.isfile(path):
            with open(path) as file:
                found[name] = file.read()
    return found


def _pixels(data):
    from PIL import Image

    picture = Image.open(io.BytesIO(data))
    return f"{picture.size} {picture.mode} {hashlib.sha256(picture.tobytes()).hexdigest()[:16]}"


def _events(path):
    from google.protobuf.json_format import MessageToDict
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    events = []
    for raw in RawEventFileLoader(path).Load():
        event = Event.FromString(raw)
        event.ClearField("source_metadata")
        if event.wall_time != AT:
            event.wall_time = 0
        plain = MessageToDict(event)
        for value, record in zip(event.summary.value, plain.get("summary", {}).get("value", ())):
            if value.HasField("image"):
                record["image"] = _pixels(value.image.encoded_image_string)
            about = value.metadata.plugin_data
            if about.plugin_name == "hparams":  # a mapping, in any order
                content = HParamsPluginData.FromString(about.content)
                record["metadata"] = MessageToDict(content)
        events.append(plain)
    return events
