"""Reports on a model that say how it might be quantized better."""
