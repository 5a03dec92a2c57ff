"""What passes over graphs are made of."""

from tritorch.fx.passes.infra import pass_base as pass_base
