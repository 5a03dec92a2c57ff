"""Runs the scripts one after the other and prints what they printed, as JSON.

The tests run this by `python -m tritorch run`, tools/record/programs.py with torch.
"""

import contextlib
import io
import json
import runpy
import sys
import time
import traceback
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"


def main(names):
    sys.path.insert(0, str(SCRIPTS))
    found = {}
    for path in sorted(SCRIPTS.glob("*.py")):
        if path.stem == "seedless" or (names and path.stem not in names):
            continue
        out, error, start = io.StringIO(), None, time.perf_counter()
        sys.argv = [str(path)]
        try:
            with contextlib.redirect_stdout(out):
                runpy.run_path(str(path), run_name="__main__")
        except Exception:
            error = traceback.format_exc()
        seconds = round(time.perf_counter() - start, 2)
        found[path.stem] = {"out": out.getvalue(), "error": error, "seconds": seconds}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
