"""torch.hub: files from the web, kept in a folder, and models that a repository's hubconf.py makes.

A repository's archive is kept unpacked in `get_dir()` as OWNER_NAME_REF.  Its code runs in this
process, so a program says first that it trusts the owner: `trusted_list`, in the same folder, keeps
what was said.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import re
import shutil
import sys
import uuid
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import ContentTooShortError, HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from tritorch.core.scopes import Scope
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
ENV_GITHUB_TOKEN = "GITHUB_TOKEN"
ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"
_TRUSTED_REPO_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")
_hub_dir: str | None = None


def _get_torch_home() -> str:
    cache = os.environ.get(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.environ.get(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def _warn_of_former(variable: str) -> None:
    if os.environ.get(variable):
        text = f"{variable} is deprecated, please use env TORCH_HOME instead"
        warnings.warn(text, stacklevel=3)


def get_dir() -> str:
    """The folder of downloads: what `set_dir` was told, else $TORCH_HOME/hub."""
    _warn_of_former("TORCH_HUB")
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the folder of downloads."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Downloads a file; dst is there afterwards as a whole, or not at all."""
    dst = os.path.expanduser(dst)
    partial = f"{dst}.{uuid.uuid4().hex}.partial"
    request = Request(url, headers={"User-Agent": "torch.hub"})
    try:
        # Not a file of tempfile's, which nobody else may read.
        with open(partial, "xb") as file, urlopen(request) as source:
            found = _copy(url, source, file, progress)
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
        os.replace(partial, dst)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)


def _copy(url: str, source: Any, file: Any, progress: bool) -> str:
    """Writes a response into a file; gives the SHA-256 of what was written."""
    size, written, digest = source.headers.get("Content-Length"), 0, hashlib.sha256()
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
            written += len(chunk)
            bar.update(len(chunk))
    if size and written < int(size):  # the connection was lost, of which Python says nothing
        text = f"{url}: {written} of {size} bytes came before the connection ended"
        raise ContentTooShortError(text, None)  # type: ignore[arg-type]
    return digest.hexdigest()


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
    """What `tritorch.load` gives of a file that is downloaded unless it is there.

    check_hash: the file's name has the beginning of its SHA-256, as in resnet18-5c106cde.pth."""
    _warn_of_former("TORCH_MODEL_ZOO")
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        marked = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, marked[1] if marked else None, progress)
    if _is_legacy_zip_format(path):
        return _legacy_zip_load(path, folder, map_location, weights_only)
    return _load_file(path, map_location=map_location, weights_only=weights_only)


def _is_legacy_zip_format(filename: str) -> bool:
    """Whether a file is an archive of one file, as programs packed checkpoints before 1.6."""
    if not zipfile.is_zipfile(filename):
        return False
    with zipfile.ZipFile(filename) as archive:
        files = archive.infolist()
    return len(files) == 1 and not files[0].is_dir()


def _legacy_zip_load(
    filename: str, model_dir: str, map_location: MAP_LOCATION, weights_only: bool
) -> Any:
    warnings.warn(
        "Falling back to the old format < 1.6. This support will be deprecated in favor of default "
        "zipfile format introduced in 1.6. Please redo torch.save() to save it in the new zipfile "
        "format.",
        FutureWarning,
        stacklevel=3,
    )
    with zipfile.ZipFile(filename) as archive:
        members = archive.infolist()
        if len(members) != 1:
            raise RuntimeError("Only one file(not dir) is allowed in the zipfile")
        _safe_extract_zip(archive, model_dir)
    path = os.path.join(model_dir, members[0].filename)
    return _load_file(path, map_location=map_location, weights_only=weights_only)


def _safe_extract_zip(zip_file: zipfile.ZipFile, extract_to: str | os.PathLike[str]) -> None:
    """Unpacks an archive; ValueError for a member that would lie outside of the folder."""
    folder = Path(extract_to).resolve()
    for member in zip_file.infolist():
        name = os.path.normpath(member.filename)
        if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
            raise ValueError(f"Archive entry has absolute path: {member.filename}")
        if ".." in re.split(r"[/\\]", name):
            raise ValueError(f"Archive entry contains directory traversal: {member.filename}")
        if not (folder / name).resolve().is_relative_to(folder):  # by way of a link
            raise ValueError(f"Archive entry escapes target directory: {member.filename}")
        zip_file.extract(member, folder)


# ---- repositories --------------------------------------------------------------------------------


def _git_archive_link(repo_owner: str, repo_name: str, ref: str) -> str:
    return f"https://github.com/{repo_owner}/{repo_name}/zipball/{ref}"


def _parse_repo_info(github: str) -> tuple[str, str, str]:
    """Owner, name and ref of "owner/name[:ref]"; without one, main where there is such a branch,
    else master."""
    repo_info, colon, ref = github.partition(":")
    owner, name = repo_info.split("/")
    return owner, name, ref if colon else _default_branch(owner, name)


def _default_branch(owner: str, name: str) -> str:
    try:
        with urlopen(f"https://github.com/{owner}/{name}/tree/main/"):
            return "main"
    except HTTPError as error:
        if error.code == 404:
            return "master"
        raise
    except URLError as error:  # not online: what was downloaded before has to do
        for branch in ("main", "master"):
            if os.path.exists(os.path.join(get_dir(), f"{owner}_{name}_{branch}")):
                return branch
        raise RuntimeError(
            f"It looks like there is no internet connection and the repo could not be found in the "
            f"cache ({get_dir()})"
        ) from error


def _read_url(url: str | Request) -> str:
    with urlopen(url) as response:
        return response.read().decode(response.headers.get_content_charset("utf-8"))


def _validate_not_a_forked_repo(repo_owner: str, repo_name: str, ref: str) -> None:
    """Whether a ref is a branch, a tag or the head of one in the repository itself: GitHub serves
    the commits of forks under its name too."""
    headers = {"Accept": "application/vnd.github.v3+json"}
    if (token := os.environ.get(ENV_GITHUB_TOKEN)) is not None:
        headers["Authorization"] = f"token {token}"
    for kind in ("branches", "tags"):
        for page in range(1, sys.maxsize):
            url = (
                f"https://api.github.com/repos/{repo_owner}/{repo_name}/{kind}"
                f"?per_page=100&page={page}"
            )
            found = _read_json(url, headers)
            if any(each["name"] == ref or each["commit"]["sha"].startswith(ref) for each in found):
                return
            if not found:
                break
    raise ValueError(
        f"Cannot find {ref} in https://github.com/{repo_owner}/{repo_name}. If it's a commit from "
        f"a forked repo, please call hub.load() with forked repo directly."
    )


def _read_json(url: str, headers: dict[str, str]) -> Any:
    try:
        return json.loads(_read_url(Request(url, headers=headers)))
    except HTTPError:
        if headers.pop("Authorization", None) is None:  # else: it may not be allowed enough
            raise
    return json.loads(_read_url(Request(url, headers=headers)))


def _get_cache_or_reload(
    github: str,
    force_reload: bool,
    trust_repo: Any,
    verbose: bool = True,
    skip_validation: bool = False,
) -> str:
    """The folder of a repository, which is downloaded unless it is there."""
    hub_dir = get_dir()
    os.makedirs(hub_dir, exist_ok=True)
    owner, name, ref = _parse_repo_info(github)
    branch = ref.replace("/", "_")
    folder = os.path.join(hub_dir, f"{owner}_{name}_{branch}")
    _check_repo_is_trusted(owner, name, os.path.basename(folder), trust_repo)
    if os.path.exists(folder) and not force_reload:
        if verbose:
            sys.stderr.write(f"Using cache found in {folder}\n")
        return folder
    if not skip_validation:
        _validate_not_a_forked_repo(owner, name, ref)
    archive = os.path.join(hub_dir, f"{branch}.zip")
    _remove_if_exists(archive)
    _download_archive(owner, name, ref, archive)
    with zipfile.ZipFile(archive) as unpacked:
        top = os.path.join(hub_dir, unpacked.infolist()[0].filename)
        _remove_if_exists(top)
        _safe_extract_zip(unpacked, hub_dir)
    _remove_if_exists(archive)
    _remove_if_exists(folder)
    shutil.move(top, folder)
    return folder


def _download_archive(owner: str, name: str, ref: str, path: str) -> None:
    url = _git_archive_link(owner, name, ref)
    sys.stdout.write(f'Downloading: "{url}" to {path}\n')
    try:
        return download_url_to_file(url, path, progress=False)
    except HTTPError as error:
        if error.code != 300:
            raise
    warnings.warn(
        f"The ref {ref} is ambiguous. Perhaps it is both a tag and a branch in the repo? Torchhub "
        f"will now assume that it's a branch. You can disambiguate tags and branches by explicitly "
        f"passing refs/heads/branch_name or refs/tags/tag_name as the ref. That might require "
        f"using skip_validation=True.",
        stacklevel=2,
    )
    download_url_to_file(_git_archive_link(owner, name, f"refs/heads/{ref}"), path, progress=False)


def _remove_if_exists(path: str) -> None:
    if os.path.isfile(path):
        os.remove(path)
    elif os.path.exists(path):
        shutil.rmtree(path)


def _check_repo_is_trusted(
    repo_owner: str, repo_name: str, owner_name_branch: str, trust_repo: Any
) -> None:
    """Asks the user where a program leaves it open, and notes what is trusted from now on.

    What was downloaded already counts as trusted, though it is in no list."""
    hub_dir, owner_name = get_dir(), f"{repo_owner}_{repo_name}"
    listed = Path(hub_dir, "trusted_list")
    listed.touch()
    is_trusted = (
        owner_name in listed.read_text().split()
        or os.path.isdir(os.path.join(hub_dir, owner_name_branch))
        or repo_owner in _TRUSTED_REPO_OWNERS
    )
    if trust_repo is False or (trust_repo == "check" and not is_trusted):
        answer = input(
            f"The repository {owner_name} does not belong to the list of trusted repositories and "
            f"as such cannot be downloaded. Do you trust this repository and wish to add it to the "
            f"trusted list of repositories (y/N)?"
        ).lower()
        if answer in ("n", "no", ""):
            raise Exception("Untrusted repository.")
        if answer not in ("y", "yes"):
            raise ValueError(f"Unrecognized response {answer}.")
        if is_trusted:
            print("The repository is already trusted.")
    if not is_trusted:
        with listed.open("a") as file:
            file.write(f"{owner_name}\n")


# ---- hubconf.py ----------------------------------------------------------------------------------


def _on_path(folder: str) -> Scope:
    """Within it, modules are looked for in a folder first."""
    return Scope((partial(sys.path.insert, 0, folder), None, partial(sys.path.remove, folder)))


def _hubconf(folder: str) -> Any:
    """The module hubconf.py of a folder."""
    return _import_module(MODULE_HUBCONF, os.path.join(folder, MODULE_HUBCONF))


def _import_module(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check_module_exists(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _check_dependencies(m: Any) -> None:
    needed = getattr(m, VAR_DEPENDENCY, None) or []
    if missing := [name for name in needed if not _check_module_exists(name)]:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")


def _load_entry_from_hubconf(m: Any, model: Any) -> Any:
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    _check_dependencies(m)
    found = getattr(m, model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> Any:
    """The functions that a repository's hubconf.py offers; arguments as in `load`."""
    folder = _get_cache_or_reload(
        github, force_reload, trust_repo, verbose=verbose, skip_validation=skip_validation
    )
    with _on_path(folder):
        module = _hubconf(folder)
        return [name for name in dir(module) if callable(getattr(module, name)) and name[0] != "_"]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
) -> Any:
    """The docstring of a function of a repository's hubconf.py; arguments as in `load`."""
    folder = _get_cache_or_reload(
        github, force_reload, trust_repo, verbose=True, skip_validation=skip_validation
    )
    with _on_path(folder):
        module = _hubconf(folder)
        return _load_entry_from_hubconf(module, model).__doc__


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
    """What a function of hubconf.py gives for these arguments.

    repo_or_dir: "owner/name[:ref]" of a repository; with source="local", a folder.
    trust_repo: True if its code may run, False to ask the user, "check" to ask unless it is known.
    force_reload: downloads what is there already.  verbose: says that it is there.
    skip_validation: does not ask GitHub whether the ref is the repository's own or a fork's."""
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        repo_or_dir = _get_cache_or_reload(
            repo_or_dir, force_reload, trust_repo, verbose=verbose, skip_validation=skip_validation
        )
    return _load_local(repo_or_dir, model, *args, **kwargs)


def _load_local(hubconf_dir: str, model: str, *args: Any, **kwargs: Any) -> Any:
    with _on_path(hubconf_dir):
        module = _hubconf(hubconf_dir)
        return _load_entry_from_hubconf(module, model)(*args, **kwargs)
