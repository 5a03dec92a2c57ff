"""What a loader is made of."""

import atexit

from tritorch.utils.data._utils import collate, fetch, pin_memory, signal_handling, worker
from tritorch.utils.data._utils.worker import _PARENT_CHECK

MP_STATUS_CHECK_INTERVAL = _PARENT_CHECK  # seconds between looks at the other side
HAS_NUMPY = True
python_exit_status = False  # whether the interpreter ends


def _set_python_exit_flag() -> None:
    """Notes that the interpreter ends."""
    global python_exit_status
    python_exit_status = True


atexit.register(_set_python_exit_flag)
