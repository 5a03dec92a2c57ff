"""`python -m tritorch.utils.model_dump --style=html model.pt > model.html`."""

import sys

from tritorch.utils.model_dump import main

main(sys.argv)
