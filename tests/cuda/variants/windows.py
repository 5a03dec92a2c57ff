"""The kernels of windows and boxes, to be compiled."""

SIZES = {"n": "i32", "channels": "i32", "x_channels": "i32", "height": "i32", "width": "i32"}
RANGES = {"batch_ptr": "*i32", "y_range_ptr": "*i32", "x_range_ptr": "*i32"}
KINDS = [("fp32", "fp32"), ("bf16", "fp32"), ("fp16", "fp32"), ("fp64", "fp64")]


def _sums(result):
    return [
        (
            dict.fromkeys(("x_ptr", "out_ptr") if result else ("dout_ptr", "dx_ptr"), f"*{kind}")
            | {"y_weights_ptr": f"*{weights}", "x_weights_ptr": f"*{weights}"}
            | RANGES
            | SIZES
            | ({} if result else {"windows": "i32"}),
            {"OUT_Y": 7, "OUT_X": 7, "SPREAD": spread, "BLOCK": 128},
        )
        for kind, weights in KINDS
        for spread in (False, True)
    ]


VARIANTS = {
    ("windows", "window_sums"): _sums(True),
    ("windows", "window_sums_backward"): _sums(False),
    ("windows", "window_maxima"): [
        (
            {"x_ptr": f"*{kind}", "out_ptr": f"*{kind}", "place_ptr": "*i32"}
            | RANGES
            | {name: size for name, size in SIZES.items() if name != "x_channels"},
            {"OUT_Y": 7, "OUT_X": 7, "BLOCK": 128},
        )
        for kind, _ in KINDS
    ],
    ("windows", "box_overlaps"): [
        (
            {"boxes_ptr": f"*{kind}", "over_ptr": "*i1", "n": "i32", "threshold": "fp32"},
            {"BLOCK": 256},
        )
        for kind in ("fp32", "fp64")
    ],
    ("windows", "keep_boxes"): [
        ({"over_ptr": "*i1", "keep_ptr": "*i1", "n": "i32"}, {"BLOCK": block, "num_warps": warps})
        for block, warps in ((1024, 16), (16384, 16))
    ],
}
