"""Settings of torch.fx."""

# No progress bars while passes run.
disable_progress = True
# With the names of nodes in them.
verbose_progress = False
# Nodes do not note where the program made their calls.
do_not_emit_stack_traces = False
