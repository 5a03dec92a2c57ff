"""Finds out, when tritorch is imported, whether its extension loads, and says what to do if not.

Standard library only: this runs before anything else of the package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
REINSTALL = "pip install --force-reinstall --no-deps tritorch"


def problem() -> tuple[str, str] | None:
    """What keeps the package from working and the command that mends it, or None."""
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        return f"tritorch needs NumPy, which does not import ({_first_line(error)})", (
            "pip install 'numpy>=2.0'"
        )
    try:
        import tritorch._C  # noqa: F401
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "tritorch._C"
        if not missing:
            return f"tritorch's extension does not load ({_first_line(error)})", _reinstall()
        checkout = _checkout()
        if checkout is not None:
            return (
                f"tritorch was imported from its source checkout {checkout}, where its extension "
                "is not built",
                "make demo` or `pip install -e .",
            )
        names = os.listdir(_PACKAGE)
        others = [n for n in names if n.startswith("_C.") and n.endswith(".so")]
        found = f" (only {', '.join(others)})" if others else ""
        return (
            f"tritorch in {_PACKAGE} lacks its extension for "
            f"Python {sys.version_info.major}.{sys.version_info.minor}{found}",
            REINSTALL,
        )
    return None


def require(doctor: Callable[[list[str]], int]) -> None:
    """Raises ImportError, in one sentence that says what to run, unless the extension loads.

    Under `python -m tritorch doctor` the doctor takes over instead: its report is wanted most when
    the import fails.
    """
    found = problem()
    if found is None:
        return
    arguments = doctor_arguments(sys.orig_argv)
    if arguments is not None:
        sys.exit(doctor(arguments))
    what, command = found
    where = " in it" if command.startswith("make") else ""
    raise ImportError(f"{what}: run `{command}`{where}.", name="tritorch._C") from None


def doctor_arguments(argv: list[str]) -> list[str] | None:
    """What follows in `python -m tritorch doctor ...`; None for any other command line."""
    found = _arguments(argv)
    return found[1:] if found and found[0] == "doctor" else None


def command(argv: list[str]) -> str | None:
    """The command of `python -m tritorch command ...` or `tritorch command ...`, "" if that names
    none; None for any other command line."""
    found = _arguments(argv)
    return None if found is None else (found[0] if found else "")


def _arguments(argv: list[str]) -> list[str] | None:
    if len(argv) > 1 and os.path.basename(argv[1]) == "tritorch" and os.path.isfile(argv[1]):
        return argv[2:]  # the installed script
    for i, argument in enumerate(argv):
        if argument == "-m":
            rest = argv[i + 1 :]
        elif argument.startswith("-m"):
            rest = [argument[2:], *argv[i + 1 :]]
        else:
            continue
        return rest[1:] if rest[:1] == ["tritorch"] else None
    return None


def _checkout() -> str | None:
    root = os.path.dirname(_PACKAGE)
    is_checkout = os.path.isfile(os.path.join(root, "CMakeLists.txt"))
    return root if is_checkout and os.path.isdir(os.path.join(root, "src")) else None


def _reinstall() -> str:
    return "make demo` or `pip install -e ." if _checkout() else REINSTALL


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
