"""`python -m tritorch`: the doctor and the demo."""

from __future__ import annotations

import argparse
import sys


def main(argv: list[str] | None = None) -> int:
    """Runs a subcommand and returns the exit status; without one, prints help."""
    parser = argparse.ArgumentParser(prog="python -m tritorch")
    commands = parser.add_subparsers(dest="command", metavar="{doctor,demo}")
    commands.add_parser(
        "doctor", add_help=False, help="what is installed, what works, what does not, and the fix"
    )
    commands.add_parser(
        "demo", add_help=False, help="run a kernel on the GPU, or on the simulated device"
    )
    options, rest = parser.parse_known_args(argv)
    if options.command == "doctor":
        from tritorch import _doctor

        return _doctor.main(rest)
    if options.command == "demo":
        from tritorch import demo

        return demo.main(rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
