"""What writes TensorBoard's files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from tritorch.utils.tensorboard import arrays, embedding, graph, summary

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events to one file."""

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        # A folder may be a pathlib.Path.
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Adds an event, of now unless a time is given."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Adds a record of a step."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Adds a graph, and where it ran."""
        definition, profile = graph_profile
        self.add_event(Event(graph_def=definition.SerializeToString()), None, walltime)
        metadata = TaggedRunMetadata(tag="step1", run_metadata=profile.SerializeToString())
        self.add_event(Event(tagged_run_metadata=metadata), None, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Adds a graph alone."""
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Waits until all events are written."""
        self.event_writer.flush()

    def close(self) -> None:
        """Writes what is left and closes the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Opens another file in the same folder, if this one is closed."""
        self.event_writer.reopen()


def _default_bins() -> list[float]:
    """TensorBoard's: each a tenth wider than the one before, on both sides of 0."""
    bins, edge = [], 1e-12
    while edge < 1e20:
        bins.append(edge)
        edge *= 1.1
    return [-b for b in reversed(bins)] + [0.0] + bins


class SummaryWriter:
    """Logs for TensorBoard: numbers, histograms, pictures, sounds, texts, graphs, embeddings.

    The folder is `runs/` with the time, the machine and the comment unless one is given.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            import socket

            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self.default_bins = _default_bins()
        self._projector_config: Any = None
        self._get_file_writer()

    def _writer(self, folder: Any) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """The file's writer, a new one after `close`."""
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = self._writer(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                step, self.purge_step = self.purge_step, None
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                start = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=step, session_log=start))
        return self.file_writer

    def _add(self, record: Any, global_step: Any = None, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(record, global_step, walltime)

    def get_logdir(self) -> Any:
        """The folder that the files are in."""
        return self.log_dir

    # ---- numbers --------------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number."""
        record = summary.scalar(
            tag, scalar_value, new_style=new_style, double_precision=double_precision
        )
        self._add(record, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers on one chart: each has a file of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            path = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if path not in self.all_writers:
                self.all_writers[path] = self._writer(path)
            record = summary.scalar(main_tag, value)
            self.all_writers[path].add_summary(record, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A tensor with all its values."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How often values fall into which bin; bins as NumPy's histogram takes them."""
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram that is counted already."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        record = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(record, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Hyperparameters and what came of them: a run of its own, below the folder."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        records = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = self._get_file_writer().get_logdir()
        with SummaryWriter(os.path.join(folder, run_name or str(time.time()))) as run:
            for record in records:
                run._add(record, global_step)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    # ---- pictures, sounds, texts ----------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: uint8, or numbers in [0, 1]."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Several pictures, in a grid."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """A picture with boxes (left, top, right, bottom) on it, and their labels."""
        if isinstance(labels, str):
            labels = [labels]
        if labels is not None and len(labels) != box_tensor.shape[0]:
            labels = None
        record = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(record, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib's, or several in a grid."""
        formats = "NCHW" if isinstance(figure, list) else "CHW"
        picture = arrays.figure_to_image(figure, close)
        self.add_image(tag, picture, global_step, walltime, dataformats=formats)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Videos (N, T, C, H, W), in a grid that moves."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """A sound in [-1, 1]."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A text, in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    # ---- graphs and embeddings ------------------------------------------------------------------

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """The functions that a model calls on an input, by the modules that call them."""
        profile = graph.graph(model, input_to_model, verbose, use_strict_trace)
        self._get_file_writer().add_graph(profile)

    def add_onnx_graph(self, prototxt: Any) -> None:
        """A graph that is in a file of ONNX."""
        raise NotImplementedError("tritorch cannot read ONNX's graphs yet")

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Points (N, D) for the projector, with labels and little pictures (N, C, H, W)."""
        step = str(0 if global_step is None else global_step).zfill(5)
        subdir = f"{step}/{self._encode(tag)}"
        folder = Path(self._get_file_writer().get_logdir())
        embedding.write(folder, subdir, arrays.make_np(mat), metadata, label_img, metadata_header)
        self._projector_config = embedding.describe(
            folder, self._projector_config, tag, step, subdir, metadata, label_img
        )

    @staticmethod
    def _encode(rawstr: str) -> str:
        """A tag as the name of a folder."""
        for char in "%/\\":
            rawstr = rawstr.replace(char, f"%{ord(char):02x}")
        return rawstr

    # ---- curves, layouts, meshes ----------------------------------------------------------------

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision over recall, of probabilities and labels 0 and 1."""
        labels, predictions = arrays.make_np(labels), arrays.make_np(predictions)
        record = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(record, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision over recall, counted already."""
        record = summary.pr_curve_raw(
            tag, true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall, num_thresholds, weights,
        )  # fmt: skip
        self._add(record, global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A chart of several scalars, which add_scalar logs."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A chart of a scalar between two others."""
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        """Charts: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._add(summary.custom_scalars(layout))

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Any = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A body of triangles, or a cloud of points (N, points, 3)."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    # ---- the end --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Waits until everything is written."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Writes what is left and closes the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
