"""Convolution, normalisation, pooling, attention, recurrent networks, declared as operators."""
