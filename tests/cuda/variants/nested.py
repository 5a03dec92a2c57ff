"""Variants of kernels/nested.py that are compiled for real targets."""


def move_rows(kind, offsets, to_padded, wide):
    types = {
        "x_ptr": f"*{kind}", "offset_ptr": f"*{offsets}", "y_ptr": f"*{kind}", "n_padded": "i32",
        "n_cols": "i32",
    }  # fmt: skip
    constants = {"TO_PADDED": to_padded, "WIDE": wide, "BLOCK_ROWS": 8, "BLOCK_COLS": 128}
    return types, constants


VARIANTS = {
    ("nested", "move_rows"): [
        move_rows("i32", "i64", True, False),
        move_rows("i32", "i64", False, False),
        move_rows("i16", "i32", True, False),
        move_rows("i64", "i64", False, True),
        move_rows("u8", "i64", True, True),
    ]
}
