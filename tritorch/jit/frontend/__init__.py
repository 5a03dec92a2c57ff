"""The compiler from TorchScript source, Python's or an archive's, to graphs.

`emit` walks Python's `ast`.  Names stand for sugared values (`sugared`): values of the graph, or
what only the compiler knows, such as modules of Python, functions and classes.
"""

from tritorch.jit.frontend.source import (
    FrontendError as FrontendError,
    NotSupportedError as NotSupportedError,
    UnsupportedNodeError as UnsupportedNodeError,
)
