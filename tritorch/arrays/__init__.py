"""Arrays that tensors hold beside ndarrays and the GPU's: without memory, sparse, nested,
batched, symbolic."""
