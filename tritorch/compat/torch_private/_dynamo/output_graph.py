"""Why graphs end."""

from __future__ import annotations

from tritorch.compilation.tools.explain import GraphCompileReason as GraphCompileReason
