"""torch.hub: files from the web, kept in a folder, and models that a folder's hubconf.py makes."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from tritorch.serialization import MAP_LOCATION, load as _load_file

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

# What stands between "-" and the suffix of a file's name is the beginning of its SHA-256.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
_hub_dir: str | None = None


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of downloads: what `set_dir` was told, else $TORCH_HOME/hub."""
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the folder of downloads."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Downloads a file; dst is there afterwards as a whole, or not at all."""
    folder = os.path.dirname(os.path.expanduser(dst))
    request = Request(url, headers={"User-Agent": "torch.hub"})
    handle, partial = tempfile.mkstemp(dir=folder or None, suffix=".partial")
    try:
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as file, urlopen(request) as source:
            size = source.headers.get("Content-Length")
            with tqdm(
                total=int(size) if size else None,
                disable=not progress,
                unit="B",
                unit_scale=True,
                unit_divisor=1024,
            ) as bar:
                while chunk := source.read(READ_DATA_CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, os.path.expanduser(dst))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class _Faketqdm:
    """A line on stderr that counts, where the package tqdm is not installed."""

    def __init__(
        self, total: float | None = None, disable: bool = False, unit: str | None = None,
        *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        self.total, self.disable, self.n = total, disable, 0

    def update(self, n: int) -> None:
        """So many more."""
        if self.disable:
            return
        self.n += n
        done = f"{self.n:.1f} bytes" if self.total is None else f"{100 * self.n / self.total:.1f}%"
        sys.stderr.write(f"\r{done}")
        sys.stderr.flush()

    def set_description(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is described."""

    def write(self, s: str) -> None:
        """Writes a line."""
        sys.stderr.write(f"{s}\n")

    def close(self) -> None:
        """Shows no more."""
        self.disable = True

    def __enter__(self) -> _Faketqdm:
        return self

    def __exit__(self, *error: object) -> None:
        if not self.disable:
            sys.stderr.write("\n")


def _progress_class() -> Any:
    try:
        return importlib.import_module("tqdm").tqdm
    except ImportError:
        return _Faketqdm


tqdm = _progress_class()


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: MAP_LOCATION = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """What `load` gives of a file that is downloaded unless it is there."""
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        marked = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, marked[1] if marked else None, progress)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            packed = [file for file in archive.infolist() if "/" not in file.filename]
            if len(packed) == len(archive.infolist()) == 1:  # no checkpoint: one is packed in it
                archive.extract(packed[0], folder)
                path = os.path.join(folder, packed[0].filename)
    return _load_file(path, map_location=map_location, weights_only=weights_only)


# ---- hubconf.py ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _hubconf(folder: str, source: str = "") -> Iterator[Any]:
    """The module hubconf.py of a folder, which is on the path meanwhile."""
    source = source or ("local" if os.path.isdir(folder) else "github")
    if source.lower() not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source.lower() == "github":
        raise NotImplementedError(
            f"tritorch does not download repositories: clone {folder} and call this with its "
            'folder and source="local"'
        )
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, Path(folder, MODULE_HUBCONF))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        needed = getattr(module, VAR_DEPENDENCY, None) or []
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        if missing:
            raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
        yield module
    finally:
        sys.path.remove(folder)


def _entry(module: Any, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, name, None)
    return found if callable(found) else _no_entry(name)


def _no_entry(name: str) -> NoReturn:
    raise RuntimeError(f"Cannot find callable {name} in hubconf")


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What a function of hubconf.py gives for these arguments."""
    with _hubconf(os.path.expanduser(repo_or_dir), source) as module:
        return _entry(module, model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> Any:
    """The functions that hubconf.py offers."""
    with _hubconf(os.path.expanduser(github)) as module:
        return [name for name in dir(module) if callable(getattr(module, name)) and name[0] != "_"]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
) -> Any:
    """The docstring of a function of hubconf.py."""
    with _hubconf(os.path.expanduser(github)) as module:
        return _entry(module, model).__doc__
