"""How long tests wait for what must happen: a limit ends what hangs, and times no machine.

A worker among eight, beside other programs, gets a twentieth of a processor.
"""

PATIENCE = 600  # seconds


class Clock:
    """Time that passes only where it is spent."""

    now = 0.0

    def spend(self, seconds):
        self.now += seconds

    def read(self):
        return self.now
