"""Tensors, numbers and pictures as the ndarrays that summaries are made of."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from tritorch.core.dtype import bfloat16, float16
from tritorch.core.tensor import Tensor

Array = np.ndarray[Any, Any]


def make_np(x: Any) -> Array:
    """The values of a tensor, an ndarray or a number, which becomes an array of one."""
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        return x.to(float16).numpy() if x.dtype is bfloat16 else x.numpy()
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def as_bytes(x: Array) -> Array:
    """uint8 as it is, and anything else of 0 to 1 as 0 to 255."""
    scale = 1 if x.dtype == np.uint8 else 255
    return (x.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def make_grid(pictures: Array, ncols: int = 8) -> Array:
    """(N, 1 or 3, H, W) side by side, as one picture (3, H', W')."""
    if not isinstance(pictures, np.ndarray):
        raise AssertionError("make_grid takes an ndarray")
    if pictures.ndim != 4 or pictures.shape[1] not in (1, 3):
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    count, _, height, width = pictures.shape
    columns = min(count, ncols)
    rows = math.ceil(count / columns)
    canvas = np.zeros((3, rows * height, columns * width), pictures.dtype)
    for number, picture in enumerate(pictures):
        y, x = number // columns * height, number % columns * width
        canvas[:, y : y + height, x : x + width] = picture
    return canvas


def convert_to_HWC(x: Array, input_format: str) -> Array:
    """A picture, or several as a grid, of any order of dims as (height, width, 3 or 4)."""
    input_format = input_format.upper()
    if len(set(input_format)) != len(input_format):
        raise AssertionError(
            f"You can not use the same dimension shorthand twice. input_format: {input_format}"
        )
    if x.ndim != len(input_format):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {x.shape}, "
            f"input_format: {input_format}"
        )
    wanted = {2: "HW", 3: "HWC", 4: "NCHW"}[x.ndim]
    x = x.transpose([input_format.index(dim) for dim in wanted])
    if x.ndim == 4:
        return make_grid(x).transpose(1, 2, 0)
    if x.ndim == 2:
        x = x[:, :, None]
    return np.repeat(x, 3, 2) if x.shape[2] == 1 else x


def frames(video: Array) -> Array:
    """(N, T, C, H, W) as T frames (H', W', C), each a grid of the N videos."""
    count, time, channels, height, width = video.shape
    if video.dtype == np.uint8:
        video = video.astype(np.float32) / 255
    total = 1 << (count - 1).bit_length()  # the next power of two
    rows = 1 << (count.bit_length() - 1) // 2
    padding = np.zeros((total - count, time, channels, height, width), video.dtype)
    grid = np.concatenate([video, padding]).reshape(rows, -1, time, channels, height, width)
    grid = grid.transpose(2, 0, 4, 1, 5, 3)
    return grid.reshape(time, rows * height, -1, channels)


def _picture(pixels: Array) -> Any:
    from PIL import Image

    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def png(pixels: Array, rescale: float = 1, boxes: Array | None = None, labels: Any = None) -> bytes:
    """A picture (H, W, C) of bytes, boxes drawn on it, as a PNG."""
    from PIL import Image, ImageDraw, ImageFont

    picture = _picture(pixels)
    if boxes is not None:
        draw = ImageDraw.Draw(picture)
        for number, (left, top, right, bottom) in enumerate(boxes[:, :4].tolist()):
            draw.line(
                [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)],
                width=2,
                fill="Red",
            )
            if labels is not None:
                font = ImageFont.load_default()
                x0, y0, x1, y1 = font.getbbox(labels[number])
                wide, tall = x1 - x0, y1 - y0
                margin = math.ceil(0.05 * tall)
                corner = (left, bottom - tall - 2 * margin)
                draw.rectangle([corner, (left + wide, bottom)], fill="Red")
                place = (left + margin, bottom - tall - margin)
                draw.text(place, labels[number], fill="black", font=font)
    size = int(picture.width * rescale), int(picture.height * rescale)
    out = io.BytesIO()
    picture.resize(size, Image.Resampling.LANCZOS).save(out, format="PNG")
    return out.getvalue()


def gif(pictures: Array, fps: float) -> bytes:
    """Frames (T, H, W, C) of bytes as a GIF that repeats."""
    first, *rest = [_picture(frame) for frame in pictures]
    out = io.BytesIO()
    duration = round(1000 / fps)
    first.save(out, "GIF", save_all=True, append_images=rest, duration=duration, loop=0)
    return out.getvalue()


def wav(samples: Array, sample_rate: int) -> bytes:
    """Samples in [-1, 1] as 16-bit audio."""
    import wave

    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes((samples * np.iinfo(np.int16).max).astype("<i2").tobytes())
    return out.getvalue()


def figure_to_image(figures: Any, close: bool = True) -> Array:
    """matplotlib's figure as (3, H, W), several as (N, 3, H, W)."""
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if isinstance(figures, list):
        return np.stack([figure_to_image(figure, close) for figure in figures])
    canvas = FigureCanvasAgg(figures)
    canvas.draw()
    pixels = np.array(canvas.buffer_rgba())[:, :, :3]
    if close:
        pyplot.close(figures)
    return np.moveaxis(pixels, 2, 0)
