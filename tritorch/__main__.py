"""`python -m tritorch`: doctor, demo, benchmarks, launching, profiles, PyTorch's programs."""

from __future__ import annotations

import sys

from tritorch.cli import commands as _commands
from tritorch.version import __version__


def main(argv: list[str] | None = None) -> int:
    """Runs a subcommand and returns the exit status; without one, prints help."""
    parser = _commands.Parser(prog="python -m tritorch")
    parser.add_argument("--version", action="version", version=f"tritorch {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="{doctor,demo,bench,precompile,run,profile,memory,launch,stand-in}"
    )
    commands.add_parser(
        "doctor", add_help=False, help="what is installed, what works, what does not, and the fix"
    )
    commands.add_parser(
        "demo", add_help=False, help="check a kernel, then train a small GPT and let it write"
    )
    commands.add_parser(
        "bench", add_help=False, help="measure beside PyTorch and other peers; see bench --help"
    )
    commands.add_parser(
        "precompile", add_help=False,
        help="compile, without a GPU, what a program will launch; see precompile --help",
    )  # fmt: skip
    commands.add_parser(
        "run", add_help=False, help="run a program whose `import torch` gives tritorch"
    )
    commands.add_parser(
        "profile", add_help=False,
        help="run a program and write what it did as a page; see profile --help",
    )  # fmt: skip
    commands.add_parser(
        "memory", add_help=False,
        help="write who held a device's memory as a page, from a snapshot; see memory --help",
    )  # fmt: skip
    commands.add_parser(
        "launch", add_help=False,
        help="run a program in all processes of a job, as torchrun does; see launch --help",
    )  # fmt: skip
    commands.add_parser(
        "stand-in", add_help=False,
        help="tell pip that torch is here, for packages that ask for it; see stand-in --help",
    )  # fmt: skip
    given = sys.argv[1:] if argv is None else argv
    if given and not given[0].startswith("-") and given[0] not in commands.choices:
        near = _commands.suggestion(given[0], commands.choices)
        parser.error(f"unknown command {given[0]}" + (near or "; --help lists them"))
    if given[:1] == ["run"]:  # everything after it is the program's
        from tritorch.compat import running

        return running.run(given[1:])
    if given[:1] == ["profile"]:
        from tritorch.profiler import _program

        return _program.main(given[1:])
    if given[:1] == ["memory"]:
        from tritorch.profiler import _snapshots

        return _snapshots.main(given[1:])
    if given[:1] == ["launch"]:
        from tritorch.distributed import run

        return run.main(given[1:])
    if given[:1] == ["bench"]:  # its names could be taken for subcommands' arguments
        from tritorch.bench import cli

        return cli.main(given[1:])
    if given[:1] == ["precompile"]:  # its last arguments are a program's
        from tritorch.cli import precompile

        return precompile.main(given[1:])
    if given[:1] == ["doctor"]:
        from tritorch.cli import doctor

        return doctor.main(given[1:])
    if given[:1] == ["stand-in"]:
        from tritorch.compat import metadata

        return metadata.main(given[1:])
    if given[:1] == ["demo"]:
        from tritorch.cli import demo

        return demo.main(given[1:])
    parser.parse_args(given)
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
