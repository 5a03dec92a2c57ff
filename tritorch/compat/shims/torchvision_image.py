"""torchvision's reading and writing of images (`torch.ops.image`), by Pillow."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

import tritorch as torch
from tritorch.compat.shims._defining import operators
from tritorch.core.tensor import Tensor

_operator = operators("image")
# torchvision's ImageReadMode, by number: what Pillow calls it.
_MODES = (None, "L", "LA", "RGB", "RGBA")
_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise RuntimeError(
            "torch.ops.image reads and writes images by Pillow, which is not installed: "
            "`pip install pillow`"
        ) from None
    return Image


def _bytes(data: Tensor, name: str) -> io.BytesIO:
    torch._check(
        data.dtype == torch.uint8 and data.ndim == 1 and data.numel() > 0,
        lambda: (
            f"{name}(): expected a non-empty 1-dimensional tensor of uint8, got shape "
            f"{tuple(data.shape)} and {data.dtype}"
        ),
    )
    return io.BytesIO(data.cpu().numpy().tobytes())


def _decoded(data: Tensor, mode: int, turned: bool, formats: tuple[str, ...], name: str) -> Tensor:
    """An image of one of these formats, as (channels, height, width)."""
    file = _bytes(data, name)
    try:
        image = _pillow().open(file, formats=formats)
        if getattr(image, "n_frames", 1) > 1 and image.format == "GIF":
            return _frames(image)
        if turned:
            from PIL import ImageOps

            image = ImageOps.exif_transpose(image)
        image.load()
    except (OSError, SyntaxError) as error:
        raise RuntimeError(
            f"{name}(): the bytes are no image of {'/'.join(formats)}: {error}"
        ) from None
    return _pixels(image, _MODES[mode])


def _pixels(image: Any, wanted: str | None) -> Tensor:
    if image.mode.startswith("I"):  # 16 bits, of which PNG's decoder makes uint16
        found = np.asarray(image).astype(np.uint16)[None]
        return torch.from_numpy(found)
    if wanted is None:  # what the file has: palettes are colors, bits are gray
        has_alpha = image.mode in ("LA", "RGBA", "PA") or "transparency" in image.info
        gray = image.mode in ("1", "L", "LA")
        wanted = ("LA" if gray else "RGBA") if has_alpha else ("L" if gray else "RGB")
    if image.mode != wanted:
        image = image.convert(wanted)
    found = np.asarray(image)
    return torch.from_numpy(found.reshape(*found.shape[:2], -1).transpose(2, 0, 1).copy())


def _frames(image: Any) -> Tensor:
    """All frames of a GIF, (frames, 3, height, width); one frame is (3, height, width)."""
    frames = []
    for i in range(getattr(image, "n_frames", 1)):
        image.seek(i)
        frames.append(np.asarray(image.convert("RGB")).transpose(2, 0, 1))
    return torch.from_numpy(np.stack(frames) if len(frames) > 1 else frames[0].copy())


def _encoded(data: Tensor, name: str, kind: str, **options: Any) -> Tensor:
    torch._check(
        data.dtype == torch.uint8 and data.ndim == 3 and data.shape[0] in (1, 3),
        lambda: (
            f"{name}(): expected an image of uint8 and shape (1 or 3, height, width), got "
            f"{tuple(data.shape)} and {data.dtype}"
        ),
    )
    pixels = data.cpu().numpy().transpose(1, 2, 0)
    image = _pillow().fromarray(
        np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    )
    file = io.BytesIO()
    image.save(file, kind, **options)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


@_operator("read_file(str filename) -> Tensor")
def read_file(filename: str) -> Tensor:
    """The bytes of a file."""
    path = Path(filename)
    torch._check(path.exists(), lambda: f"[Errno 2] No such file or directory: '{filename}'")
    found = path.read_bytes()
    torch._check(len(found) > 0, lambda: f"Expected a non empty file: '{filename}'")
    return torch.frombuffer(bytearray(found), dtype=torch.uint8)


@_operator("write_file(str filename, Tensor data) -> ()")
def write_file(filename: str, data: Tensor) -> None:
    """Writes bytes into a file."""
    Path(filename).write_bytes(_bytes(data, "write_file").getvalue())


_TURNED = "bool apply_exif_orientation=False"


@_operator(f"decode_png(Tensor data, int mode, {_TURNED}) -> Tensor")
def decode_png(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """The pixels of a PNG."""
    return _decoded(data, mode, apply_exif_orientation, ("PNG",), "decode_png")


@_operator(f"decode_jpeg(Tensor data, int mode, {_TURNED}) -> Tensor")
def decode_jpeg(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """The pixels of a JPEG."""
    return _decoded(data, mode, apply_exif_orientation, ("JPEG",), "decode_jpeg")


@_operator("decode_webp(Tensor encoded_data, int mode) -> Tensor")
def decode_webp(encoded_data: Tensor, mode: int) -> Tensor:
    """The pixels of a WebP."""
    return _decoded(encoded_data, mode, False, ("WEBP",), "decode_webp")


@_operator("decode_gif(Tensor encoded_data) -> Tensor")
def decode_gif(encoded_data: Tensor) -> Tensor:
    """The frames of a GIF."""
    return _frames(_pillow().open(_bytes(encoded_data, "decode_gif"), formats=("GIF",)))


@_operator(f"decode_image(Tensor data, int mode, {_TURNED}) -> Tensor")
def decode_image(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """The pixels of an image of any of these formats."""
    formats = ("PNG", "JPEG", "GIF", "WEBP")
    return _decoded(data, mode, apply_exif_orientation, formats, "decode_image")


@_operator("encode_png(Tensor data, int compression_level) -> Tensor")
def encode_png(data: Tensor, compression_level: int) -> Tensor:
    """An image as the bytes of a PNG."""
    torch._check(
        0 <= compression_level <= 9,
        lambda: f"Compression level should be between 0 and 9, got {compression_level}",
    )
    return _encoded(data, "encode_png", "PNG", compress_level=compression_level)


@_operator("encode_jpeg(Tensor data, int quality) -> Tensor")
def encode_jpeg(data: Tensor, quality: int) -> Tensor:
    """An image as the bytes of a JPEG."""
    torch._check(
        1 <= quality <= 100, lambda: f"Image quality should be between 1 and 100, got {quality}"
    )
    return _encoded(data, "encode_jpeg", "JPEG", quality=quality)


@_operator("_jpeg_version() -> int")
def _jpeg_version() -> int:
    """-1: libjpeg is Pillow's."""
    return -1


@_operator("_is_compiled_against_turbo() -> bool")
def _is_compiled_against_turbo() -> bool:
    """Whether Pillow's JPEGs are read by libjpeg-turbo."""
    from PIL import features

    return bool(features.check_feature("libjpeg_turbo"))
