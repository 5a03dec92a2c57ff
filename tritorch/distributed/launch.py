"""torch.distributed.launch: torchrun's predecessor, which gave programs --local-rank."""

from __future__ import annotations

import sys
from typing import Any

from tritorch.distributed import run as _run
from tritorch.distributed.argparse_util import check_env

__all__ = ["launch", "main", "parse_args"]


def parse_args(args: Any) -> Any:
    """Its options, from words."""
    parser = _run.get_args_parser()
    parser.add_argument(
        "--use-env", "--use_env", action=check_env, help="LOCAL_RANK instead of --local-rank"
    )
    return parser.parse_args(args)


def launch(args: Any) -> None:
    """Runs a job; raises ChildFailedError if it fails."""
    if not args.use_env:
        args.training_script_args = ["--local-rank=${local_rank}", *args.training_script_args]
    _run.run(args)


def main(args: Any = None) -> int:
    """The command; gives the exit status."""
    return _run.run_command(launch, parse_args(args))


if __name__ == "__main__":
    sys.exit(main())
