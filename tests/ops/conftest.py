"""So that tests here can import the table beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
