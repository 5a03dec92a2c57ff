"""Convolution, normalisation, pooling, attention, recurrent networks, computed on ndarrays."""
