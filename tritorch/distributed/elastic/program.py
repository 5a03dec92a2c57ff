"""What runs in a worker: a program, whose error is written down for the launcher.

`python -m tritorch.distributed.elastic.program [--as-torch] [-m MODULE | SCRIPT] [ARGUMENT ...]`

With --as-torch, `import torch` gives tritorch in it; without, it does if no torch is installed.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from tritorch.compat import as_torch, running
from tritorch.distributed.elastic.multiprocessing.errors import get_error_handler


def main(arguments: list[str]) -> int:
    """Runs it as `python SCRIPT ...` would, and gives its exit status."""
    shown = sys.excepthook

    def hook(kind: Any, error: BaseException, trace: Any) -> None:
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if path and not os.path.exists(path):  # `record` may have written it
            get_error_handler().record_exception(error)
        shown(kind, error, trace)
        get_error_handler().record_end()

    sys.excepthook = hook
    aliased = arguments[:1] == ["--as-torch"]
    if not aliased:
        as_torch.stand_in_for_none()
    return running.run(arguments[1:] if aliased else arguments, aliased)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
