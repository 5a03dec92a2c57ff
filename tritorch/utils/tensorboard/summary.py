"""TensorBoard's records of numbers, pictures, sounds and texts."""

from __future__ import annotations

import json
import logging
import struct
from typing import Any

import numpy as np
from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2, metadata as hparams_metadata, plugin_data_pb2
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from tritorch.core import dtype as dtypes
from tritorch.core.tensor import Tensor
from tritorch.utils.tensorboard import arrays
from tritorch.utils.tensorboard.arrays import make_np

logger = logging.getLogger(__name__)


def _summary(tag: str, plugin: str | None = None, content: bytes = b"", **value: Any) -> Any:
    """A record of one value, for a plugin of TensorBoard's or of the kind that it is."""
    if plugin is not None:
        data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
        value["metadata"] = SummaryMetadata(plugin_data=data)
    return Summary(value=[Summary.Value(tag=tag, **value)])


def _shape(sizes: Any) -> Any:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


# ---- numbers -------------------------------------------------------------------------------------


def scalar(
    name: str,
    tensor: Any,
    collections: Any = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Any:
    """A number; in the new style, a tensor of one."""
    values = make_np(tensor).squeeze()
    if values.ndim != 0:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: {values.size} and "
            f"{values.ndim} dimensions."
        )
    number = float(values)
    if not new_style:
        return _summary(name, simple_value=number)
    if double_precision:
        proto = TensorProto(double_val=[number], dtype="DT_DOUBLE")
    else:
        proto = TensorProto(float_val=[number], dtype="DT_FLOAT")
    return _summary(name, "scalars", tensor=proto)


def _bits(x: Tensor) -> list[int]:
    return [struct.unpack("i", struct.pack("f", value))[0] for value in x.flatten().tolist()]


def _parts(x: Tensor) -> list[float]:
    return [part for value in x.flatten().tolist() for part in (value.real, value.imag)]


def _plain(x: Tensor) -> list[Any]:
    return x.flatten().tolist()


_TENSORS: dict[Any, Any] = {
    dtypes.float16: ("DT_HALF", "half_val", _bits),
    dtypes.bfloat16: ("DT_BFLOAT16", "half_val", _bits),
    dtypes.float32: ("DT_FLOAT", "float_val", _plain),
    dtypes.float64: ("DT_DOUBLE", "double_val", _plain),
    dtypes.uint8: ("DT_UINT8", "uint32_val", _plain),
    dtypes.int8: ("DT_INT8", "int_val", _plain),
    dtypes.int16: ("DT_INT16", "int_val", _plain),
    dtypes.int32: ("DT_INT32", "int_val", _plain),
    dtypes.int64: ("DT_INT64", "int64_val", _plain),
    dtypes.bool_: ("DT_BOOL", "bool_val", _plain),
    dtypes.complex64: ("DT_COMPLEX64", "scomplex_val", _parts),
    dtypes.complex128: ("DT_COMPLEX128", "dcomplex_val", _parts),
}


def tensor_proto(tag: str, tensor: Tensor) -> Any:
    """A tensor with all its values."""
    if tensor.numel() * tensor.itemsize >= 1 << 31:
        raise ValueError("tensor is bigger than protocol buffer's hard limit of 2GB in size")
    if tensor.dtype not in _TENSORS:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    kind, field, convert = _TENSORS[tensor.dtype]
    proto = TensorProto(dtype=kind, tensor_shape=_shape(tensor.shape), **{field: convert(tensor)})
    return _summary(tag, "tensor", tensor=proto)


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: int,
    sum: float,
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Any:
    """A histogram that is counted already."""
    histo = HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares,
        bucket_limit=bucket_limits, bucket=bucket_counts,
    )  # fmt: skip
    return _summary(name, histo=histo)


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """How often values fall into which bin."""
    return _summary(name, histo=make_histogram(make_np(values).astype(float), bins, max_bins))


def make_histogram(values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """The counts of values by bins, without the empty ones at both ends but for one before."""
    if values.size == 0:
        raise ValueError("The input has no element.")
    values = values.reshape(-1)
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:  # several as one
        step = len(counts) // max_bins
        counts = np.pad(counts, (0, -len(counts) % step)).reshape(-1, step).sum(-1)
        limits = np.append(limits[:-1:step], limits[-1])
    (filled,) = counts.nonzero()
    if filled.size == 0:
        raise ValueError("None of the values falls into a bin.")
    start, end = filled[0], filled[-1] + 1
    counts = np.concatenate([counts[start - 1 : start] if start else [0], counts[start:end]])
    return HistogramProto(
        min=values.min(), max=values.max(), num=len(values), sum=values.sum(),
        sum_squares=values.dot(values), bucket_limit=limits[start : end + 1].tolist(),
        bucket=counts.tolist(),
    )  # fmt: skip


# ---- pictures, sounds, texts ---------------------------------------------------------------------


def _image(tag: str, pixels: Any, encoded: bytes) -> Any:
    height, width, channels = pixels.shape
    image = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=encoded
    )
    return _summary(tag, image=image)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A picture, or a grid of several."""
    pixels = arrays.as_bytes(arrays.convert_to_HWC(make_np(tensor), dataformats))
    return _image(tag, pixels, arrays.png(pixels, rescale))


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Any = None,
) -> Any:
    """A picture with boxes (left, top, right, bottom) on it."""
    pixels = arrays.as_bytes(arrays.convert_to_HWC(make_np(tensor_image), dataformats))
    return _image(tag, pixels, arrays.png(pixels, rescale, make_np(tensor_boxes), labels))


def video(tag: str, tensor: Any, fps: float = 4) -> Any:
    """Videos (N, T, C, H, W) as a GIF."""
    pictures = arrays.as_bytes(arrays.frames(make_np(tensor)))
    return _image(tag, pictures[0], arrays.gif(pictures, fps))


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Any:
    """A sound in [-1, 1]."""
    samples = make_np(tensor).squeeze()
    if abs(samples).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        samples = samples.clip(-1, 1)
    if samples.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    sound = Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(samples),
        encoded_audio_string=arrays.wav(samples, sample_rate), content_type="audio/wav",
    )  # fmt: skip
    return _summary(tag, audio=sound)


def text(tag: str, text: str) -> Any:
    """A text, in Markdown."""
    proto = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=_shape([1]))
    content = TextPluginData(version=0).SerializeToString()
    return _summary(f"{tag}/text_summary", "text", content, tensor=proto)


# ---- curves, layouts, meshes ---------------------------------------------------------------------


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Any:
    """Precision over recall, of probabilities and labels 0 and 1."""
    num_thresholds = min(num_thresholds, 127)
    counts = compute_curve(labels, predictions, num_thresholds, weights)
    tp, fp, tn, fn, precision, recall = counts
    return pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds)


def pr_curve_raw(
    tag: str,
    tp: Any,
    fp: Any,
    tn: Any,
    fn: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = 127,
    weights: Any = None,
) -> Any:
    """Precision over recall, counted already."""
    rows = (tp, fp, tn, fn, precision, recall)
    data = np.stack([make_np(x) if isinstance(x, Tensor) else np.asarray(x) for x in rows])
    content = PrCurvePluginData(version=0, num_thresholds=min(num_thresholds, 127))
    proto = TensorProto(
        dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data.shape)
    )
    return _summary(tag, "pr_curves", content.SerializeToString(), tensor=proto)


def compute_curve(
    labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Any:
    """Rows of true and false positives and negatives, precision and recall, by threshold."""
    bucket = np.floor(predictions * (num_thresholds - 1)).astype(np.int32)
    labels = labels.astype(np.float64)
    weights = 1.0 if weights is None else weights

    def above(amounts: Any) -> Any:
        span = (0, num_thresholds - 1)
        found, _ = np.histogram(bucket, bins=num_thresholds, range=span, weights=amounts * weights)
        return found[::-1].cumsum()[::-1]

    tp, fp = above(labels), above(1.0 - labels)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision = tp / np.maximum(1e-7, tp + fp)
    recall = tp / np.maximum(1e-7, tp + fn)
    return np.stack((tp, fp, tn, fn, precision, recall))


def custom_scalars(layout: dict[str, Any]) -> Any:
    """Which scalars go on which chart: {category: {title: ["Multiline" or "Margin", tags]}}."""

    def chart(title: str, kind: str, tags: Any) -> Any:
        if kind != "Margin":
            content = layout_pb2.MultilineChartContent(tag=tags)
            return layout_pb2.Chart(title=title, multiline=content)
        if len(tags) != 3:
            raise AssertionError("len(tags) != 3")
        value, lower, upper = tags
        series = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
        return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))

    categories = [
        layout_pb2.Category(title=name, chart=[chart(title, *how) for title, how in charts.items()])
        for name, charts in layout.items()
    ]
    content = layout_pb2.Layout(category=categories).SerializeToString()
    proto = TensorProto(dtype="DT_STRING", string_val=[content], tensor_shape=TensorShapeProto())
    return _summary("custom_scalars__config__", "custom_scalars", tensor=proto)


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: Any,
    display_name: str | None = None,
    description: str | None = None,
) -> Any:
    """A body of triangles: (N, points, 3), with colours and with three corners a face."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    config = "{}" if config_dict is None else json.dumps(config_dict, sort_keys=True)
    parts = [
        (make_np(part), kind)
        for part, kind in (
            (vertices, MeshPluginData.VERTEX),
            (faces, MeshPluginData.FACE),
            (colors, MeshPluginData.COLOR),
        )
        if part is not None
    ]
    components = metadata.get_components_bitmask([kind for _, kind in parts])
    values = []
    for part, kind in parts:
        about = metadata.create_summary_metadata(
            tag, display_name, kind, components, part.shape, description, json_config=config
        )
        proto = TensorProto(
            dtype="DT_FLOAT", float_val=part.reshape(-1).tolist(), tensor_shape=_shape(part.shape)
        )
        name = metadata.get_instance_name(tag, kind)
        values.append(Summary.Value(tag=name, tensor=proto, metadata=about))
    return Summary(value=values)


# ---- hyperparameters -----------------------------------------------------------------------------


def hparams(hparam_dict: Any, metric_dict: Any, hparam_domain_discrete: Any = None) -> Any:
    """The records of an experiment, of the start and of the end of a session of it."""
    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, dict):
            logger.warning("parameter: %s should be a dictionary, nothing logged.", name)
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    domains = hparam_domain_discrete or {}
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for name, values in domains.items():
        wanted = type(hparam_dict.get(name))
        if (
            name not in hparam_dict
            or not isinstance(values, list)
            or not all(isinstance(value, wanted) for value in values)
        ):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as "
                f"hparam_dict[{name}]."
            )
    start, infos = plugin_data_pb2.SessionStartInfo(), []
    for name, value in hparam_dict.items():
        if value is None:
            continue
        if isinstance(value, Tensor):
            value = make_np(value).reshape(-1)[0].item()
        if isinstance(value, (int, float)):  # True and False are 1 and 0, as in PyTorch
            field, kind = "number_value", "DATA_TYPE_FLOAT64"
        elif isinstance(value, str):
            field, kind = "string_value", "DATA_TYPE_STRING"
        else:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        setattr(start.hparams[name], field, value)
        domain = None
        if name in domains:
            known = [struct_pb2.Value(**{field: other}) for other in domains[name]]
            domain = struct_pb2.ListValue(values=known)
        infos.append(
            api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(kind), domain_discrete=domain)
        )
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metric_dict]
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))

    def record(tag: str, **content: Any) -> Any:
        data = plugin_data_pb2.HParamsPluginData(
            version=hparams_metadata.PLUGIN_DATA_VERSION, **content
        )
        return _summary(tag, hparams_metadata.PLUGIN_NAME, data.SerializeToString())

    return (
        record(
            hparams_metadata.EXPERIMENT_TAG,
            experiment=api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics),
        ),
        record(hparams_metadata.SESSION_START_INFO_TAG, session_start_info=start),
        record(hparams_metadata.SESSION_END_INFO_TAG, session_end_info=end),
    )
