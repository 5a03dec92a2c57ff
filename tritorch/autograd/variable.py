"""torch.autograd.variable: the class Variable."""

from tritorch.autograd import Variable, VariableMeta, passes

__all__ = ["Variable", "VariableMeta"]

ImperativeEngine = passes.EngineBase
