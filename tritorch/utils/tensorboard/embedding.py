"""The files of TensorBoard's projector: points, their labels and little pictures of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

from tritorch.utils.tensorboard import arrays


def write(
    folder: Path, subdir: str, points: Any, metadata: Any, pictures: Any, header: Any
) -> None:
    """The files of one embedding."""
    target = folder / subdir
    if target.is_dir():
        print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
    elif target.exists():
        raise NotADirectoryError(f"Path: `{target}` exists, but is a file. Cannot proceed.")
    target.mkdir(parents=True, exist_ok=True)
    if metadata is not None:
        if len(points) != len(metadata):
            raise AssertionError("#labels should equal with #data points")
        _labels(target / "metadata.tsv", metadata, header)
    if pictures is not None:
        if len(points) != len(pictures):
            raise AssertionError("#images should equal with #data points")
        _sprite(target / "sprite.png", arrays.make_np(pictures))
    if points.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    rows = ("\t".join(str(value.item()) for value in row) + "\n" for row in points)
    (target / "tensors.tsv").write_text("".join(rows))


def _labels(path: Path, metadata: Any, header: Any) -> None:
    rows = [str(row) for row in metadata]
    if header:
        if len(header) != len(metadata[0]):
            raise AssertionError("len of header must be equal to the number of columns in metadata")
        rows = ["\t".join(map(str, row)) for row in (header, *metadata)]
    path.write_text("\n".join(rows) + "\n")


def _sprite(path: Path, pictures: Any) -> None:
    """All pictures on one, which is square."""
    grid = arrays.make_grid(pictures, math.ceil(math.sqrt(len(pictures)))).transpose(1, 2, 0)
    square = np.zeros((grid.shape[1], grid.shape[1], 3))
    square[: grid.shape[0]] = grid
    path.write_bytes(arrays.png((square * 255).clip(0, 255).astype(np.uint8)))


def describe(
    folder: Path, config: Any, tag: str, step: str, subdir: str, metadata: Any, pictures: Any
) -> Any:
    """Adds an embedding to the projector's list, and writes that."""
    info = EmbeddingInfo(tensor_name=f"{tag}:{step}", tensor_path=f"{subdir}/tensors.tsv")
    if metadata is not None:
        info.metadata_path = f"{subdir}/metadata.tsv"
    if pictures is not None:
        info.sprite.image_path = f"{subdir}/sprite.png"
        info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    config = config or ProjectorConfig()
    config.embeddings.append(info)
    (folder / "projector_config.pbtxt").write_text(text_format.MessageToString(config))
    return config
