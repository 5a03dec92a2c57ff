"""Ways to average gradients."""
