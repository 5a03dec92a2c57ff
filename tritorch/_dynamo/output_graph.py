"""Why graphs end."""

from __future__ import annotations

from tritorch._following.explain import GraphCompileReason as GraphCompileReason
