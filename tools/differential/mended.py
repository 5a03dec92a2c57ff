"""Programs that once differed from torch, recorded with the random ones.  NAME.txt belongs to
tests/expressions/NAME.json (mended.txt to chains.json): a statement a line, and an empty line
between programs."""

import pathlib


def programs(name: str = "chains") -> list[list[str]]:
    """Lists of statements."""
    text = (
        pathlib.Path(__file__).with_name({"chains": "mended"}.get(name, name) + ".txt").read_text()
    )
    return [block.splitlines() for block in text.strip().split("\n\n")]
