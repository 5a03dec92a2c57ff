"""Dynamic shapes: sizes and numbers that differ between runs become symbols."""
