"""Logs for TensorBoard, as in torch.utils.tensorboard, by the `tensorboard` package: an extra."""

try:
    import tensorboard as _tensorboard
except ImportError as _error:
    raise ImportError(
        "tritorch.utils.tensorboard needs the tensorboard package: run "
        "`pip install 'tritorch[tensorboard]'` or `pip install tensorboard`.",
        name="tensorboard",
    ) from _error

from tensorboard.summary.writer.record_writer import RecordWriter

from tritorch.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
