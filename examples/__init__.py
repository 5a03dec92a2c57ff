"""The programs that ship, as tritorch.examples: each runs as a script, or by `python -m
tritorch.examples.cnn` (see README.md)."""

import sys
from pathlib import Path

# They import each other as scripts do, so that a copy of this folder runs anywhere.
_FOLDER = str(Path(__file__).resolve().parent)
if _FOLDER not in sys.path:
    sys.path.append(_FOLDER)
