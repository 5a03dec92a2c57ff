"""`python -m tritorch.bench` is `python -m tritorch bench`."""

import sys

from tritorch.bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
