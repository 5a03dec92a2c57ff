"""Gradients through what is followed: the joint tape, what is saved, the node of a segment."""
