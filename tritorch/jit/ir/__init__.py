"""TorchScript's program form: typed graphs of nodes in blocks, and the classes that they name."""
