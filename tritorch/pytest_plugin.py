"""`pytest -p tritorch.pytest_plugin`: in the tests, `import torch` gives tritorch."""

from __future__ import annotations

import tritorch

tritorch.as_torch()
