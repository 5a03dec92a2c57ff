"""Gradients through compiled regions: the joint tape, the saved values, the node of a segment."""
