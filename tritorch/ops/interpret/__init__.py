"""How operators run on what is no plain array: tangents, batches, sparse and meta tensors."""
