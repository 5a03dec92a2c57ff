"""Runs the programs of tests/programs plainly and in a way, and prints what they printed, as JSON.

Run by `python -m tritorch run`, as the programs say `import torch`, with the way as argument.
"models": what `set_weights` prepares (all models) is compiled; "whole": all of it is a single
compiled function, which runs twice.
"""

import contextlib
import io
import json
import runpy
import sys
import traceback
from pathlib import Path

import torch

SCRIPTS = Path(__file__).parents[1] / "programs" / "scripts"


def printed(call):
    """What a call prints, or how it fails."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            call()
    except SystemExit as end:
        return out.getvalue() + f"exit {end.code}"
    except Exception:
        return traceback.format_exc()
    return out.getvalue()


def compiling(set_weights):
    """set_weights, after which modules are compiled in place."""

    def prepared(module):
        set_weights(module).compile()
        return module

    return prepared


def runs(path, way):
    """The texts that a program prints plainly, and in a way."""
    import seedless

    def run():
        torch.manual_seed(0)
        runpy.run_path(str(path), run_name="__main__")

    eager = printed(run)
    if way == "whole":
        whole = torch.compile(run)
        return eager, [printed(whole) for _ in range(2)]
    plain, seedless.set_weights = seedless.set_weights, compiling(seedless.set_weights)
    try:
        return eager, [printed(run)]
    finally:
        seedless.set_weights = plain


def main():
    sys.path.insert(0, str(SCRIPTS))
    found, way = {}, sys.argv[1]
    for path in sorted(SCRIPTS.glob("*.py")):
        if path.stem != "seedless":
            sys.argv = [str(path)]
            found[path.stem] = runs(path, way)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
