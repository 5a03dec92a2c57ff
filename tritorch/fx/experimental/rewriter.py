"""RewritingTracer: `assert` and annotated assignments, rewritten so that they can be traced."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from tritorch.compat.settings import _assert
from tritorch.fx._symbolic_trace import Tracer as Tracer
from tritorch.fx.graph import Graph as Graph
from tritorch.nn.modules.module import Module


class AST_Rewriter(ast.NodeTransformer):
    """Makes `assert x, y` a call of torch._assert, and `a: T = b` one of annotate."""

    def rewrite(self, fn: Any) -> Any:
        """The function that is rewritten."""
        source = "".join(inspect.getsourcelines(fn)[0])
        if source[:1].isspace():  # of a method; strings in it may have lines that begin at the left
            tree: Any = ast.parse(f"if True:\n{source}")
            tree.body = tree.body[0].body
        else:
            tree = ast.parse(source)
        tree = ast.fix_missing_locations(self.visit(tree))
        space = copy.copy(fn.__globals__)
        space["__fx_assert"] = _assert
        before = set(space)
        exec(compile(tree, "", "exec", dont_inherit=True), space)
        made = [name for name in space if name not in before]
        if len(made) > 1:
            raise AssertionError(f"Expected 1 new key, got {len(made)}")
        compiled = space[made[0] if made else fn.__name__]
        # The globals are the function's own, so that it sees what becomes of them.
        fn.__globals__.setdefault("__fx_assert", _assert)
        rewritten: Any = types.FunctionType(
            compiled.__code__, fn.__globals__, compiled.__name__, compiled.__defaults__,
            compiled.__closure__,
        )  # fmt: skip
        rewritten = functools.update_wrapper(rewritten, compiled)
        rewritten.__kwdefaults__ = copy.copy(compiled.__kwdefaults__)
        return rewritten

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """A call of torch._assert."""
        message = node.msg if node.msg else ast.Constant("")
        function = ast.Name("__fx_assert", ctx=ast.Load())
        call = ast.Call(function, args=[node.test, message], keywords=[])
        return ast.copy_location(ast.Expr(call), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """A call of annotate, which the program has imported."""
        if node.value is None:
            return node
        function = ast.Name("annotate", ctx=ast.Load())
        call = ast.Call(function, args=[node.value, node.annotation], keywords=[])
        return ast.Assign(targets=[node.target], value=call)


class RewritingTracer(Tracer):
    """A tracer that rewrites what it traces first."""

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """The graph of a module's forward, or of a function."""
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(fn: Any) -> Any:
    return _rewritten_module(fn) if isinstance(fn, Module) else AST_Rewriter().rewrite(fn)


def _rewritten_module(m: Module) -> Module:
    """A module with the attributes of another one, whose forward is rewritten."""

    class RewrittenModule(Module):
        """A module whose forward is rewritten."""

        def __init__(self, orig: Module) -> None:
            super().__init__()
            for name, value in orig.__dict__.items():
                inner = isinstance(value, Module)
                self.__dict__[name] = copy.copy(_rewritten_module(value) if inner else value)

    forward: Callable[..., Any] = m.forward
    RewrittenModule.forward = AST_Rewriter().rewrite(forward)
    return RewrittenModule(m)
