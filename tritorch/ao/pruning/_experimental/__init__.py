"""Pruning of activations, of data outside models, and of whole rows and channels."""
