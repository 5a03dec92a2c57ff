"""A debugger in generated code."""

from __future__ import annotations

from tritorch.fx.graph_module import GraphModule

__all__ = ["set_trace"]


def set_trace(gm: GraphModule) -> GraphModule:
    """Makes a graph module's forward stop in pdb at its beginning."""

    def with_pdb(current: object) -> object:
        def transform(body: list[str]) -> list[str]:
            return ["import pdb; pdb.set_trace()\n", *(current(body) if current else body)]  # type: ignore[operator]

        return transform

    with gm.graph.on_generate_code(make_transformer=with_pdb):  # type: ignore[arg-type]
        gm.recompile()
    return gm
