"""torch.autograd.variable: the class Variable."""

from tritorch.autograd import Variable

__all__ = ["Variable", "VariableMeta"]

VariableMeta = type(Variable)
