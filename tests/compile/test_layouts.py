"""Compiled code lays results and gradients out as eager code does."""

from __future__ import annotations

from typing import Any

import tritorch as torch

from ..layouts import cases


def test_layouts_are_those_of_eager_code() -> None:
    names = cases.helpers(torch)

    def both(function: Any, *inputs: Any) -> tuple[str, str]:
        def several(*leaves: Any) -> tuple[Any, ...]:
            results = function(*leaves)
            return results if isinstance(results, tuple) else (results,)

        def layout(run: Any) -> str:
            torch.manual_seed(0)
            leaves = [x.detach().requires_grad_() for x in inputs]
            results = run(*leaves)
            loss = sum(y.sin().sum() for y in results if y.requires_grad)
            return str(cases.layout((*results, *torch.autograd.grad(loss, leaves))))

        compiled = torch.compile(several)
        return layout(several), [layout(compiled) for _ in range(3)][-1]

    wrong, seen = [], 0
    for family in ("training", "volumes"):
        lines = cases.FAMILIES[f"layouts of {family}"]
        trained = [(x, line) for x, line in lines if line.startswith("trained")]
        for operand, template in trained[1::4]:
            space = {**names, "trained": both}
            exec(f"x = {operand}", space)
            try:
                eager, found = eval(template, space)
            except NotImplementedError:
                continue
            seen += 1
            if eager != found:
                wrong.append((template, operand, eager, found))
    assert not wrong and seen > 80
