"""Records that are made as their node's name is known."""

import pytest

import tritorch as torch
from tritorch.ops.record import overloads
from tritorch.ops.record.operator import NOT_IMPLEMENTED, OPERATORS, Operator


def test_every_record_has_a_schema_after_all_nodes_were_named():
    x = torch.ones(2, 2, requires_grad=True)
    for result in (x.to_sparse() + x.to_sparse(), torch.heaviside(x.to_sparse().to_dense(), x)):
        assert result.grad_fn is not None
    for op in list(OPERATORS.values()):
        assert op.schema.name.count("::") == 1
        assert overloads.computed_by(op)
    with pytest.raises(ValueError, match="a record's name is an identifier"):
        Operator(f"sum_{NOT_IMPLEMENTED}", "x")
