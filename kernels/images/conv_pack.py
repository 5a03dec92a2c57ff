"""Images of few channels, copied so that one row of a filter is one run of memory."""

import triton
import triton.language as tl

from ..matrices.matmul import offsets_of


@triton.jit
def pack_rows(
    x_ptr, y_ptr, n_pixels, n_channels, width, packed_width, padding, rows, x_strides,
    WIDE: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[n, z, y, padding + x, c] = x[n, c, z, y, x], and zeros around and after the channels.

    y: dense, of packed_width columns and CHANNELS channels.  rows: (depth, height).  One program
    writes BLOCK pixels.
    """
    pixels = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    col = (pixels % packed_width).to(tl.int32) - padding
    rest = pixels // packed_width
    row = (rest % rows[1]).to(tl.int32)
    rest = rest // rows[1]
    layer = (rest % rows[0]).to(tl.int32)
    image = (rest // rows[0]).to(tl.int32)
    channels = tl.arange(0, CHANNELS)
    place = (
        offsets_of(image, x_strides[0], WIDE)
        + offsets_of(layer, x_strides[2], WIDE)
        + offsets_of(row, x_strides[3], WIDE)
        + offsets_of(col, x_strides[4], WIDE)
    )
    inside = (pixels < n_pixels) & (col >= 0) & (col < width)
    x = tl.load(
        x_ptr + place[:, None] + offsets_of(channels, x_strides[1], WIDE)[None, :],
        mask=inside[:, None] & (channels < n_channels)[None, :],
        other=0.0,
    )
    at = pixels[:, None] * CHANNELS + channels[None, :]
    tl.store(y_ptr + at, x, mask=(pixels < n_pixels)[:, None])
