"""Segments through which gradients flow."""
def first(region, steps, tensors, held):
    for step in steps: step.run(region, tensors)
    return None
