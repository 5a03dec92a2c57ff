"""How operators run on what is no plain array: tangents, batches, sparse and meta tensors."""

from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.nested import NestedArray
from tritorch.arrays.sparse import SparseArray
from tritorch.arrays.written import WrittenArray
from tritorch.ops.record import door as door, interpreters
from tritorch.ops.record.interpreters import Dispatched, Tangent

interpreters.INTERPRETERS |= {
    Tangent: "tritorch.ops.interpret.forward_mode",
    SparseArray: "tritorch.ops.interpret.sparse.run",
    NestedArray: "tritorch.ops.interpret.nested.run",
    BatchedArray: "tritorch.ops.interpret.vmap",
    WrittenArray: "tritorch.ops.interpret.written",
    Dispatched: "tritorch.ops.interpret.dispatch",
    MetaArray: "tritorch.ops.interpret.meta",
}
