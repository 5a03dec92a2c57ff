"""Programs that once differed from torch, recorded with the random ones: mended.txt has a statement
a line, and an empty line between programs."""

import pathlib


def programs() -> list[list[str]]:
    """Lists of statements."""
    text = pathlib.Path(__file__).with_suffix(".txt").read_text()
    return [block.splitlines() for block in text.strip().split("\n\n")]
