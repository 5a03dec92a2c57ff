"""Convolution, normalisation, pooling, attention, recurrent networks, launched on a GPU."""
