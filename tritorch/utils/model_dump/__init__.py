"""What is in a model's file, as JSON or as a page: torch.utils.model_dump.

The file is an archive of torch.save or of TorchScript.  Its pickles are read without executing
them, so that a file can be looked at that nobody would load.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import pprint
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

from tritorch.utils.model_dump._page import SKELETON
from tritorch.utils.show_pickle import DumpUnpickler, FakeClass, FakeObject

__all__ = [
    "burn_in_info",
    "get_info_and_burn_skeleton",
    "get_inline_skeleton",
    "get_model_info",
    "get_storage_info",
    "hierarchical_pickle",
]
DEFAULT_EXTRA_FILE_SIZE_LIMIT = 16 * 1024
_SCRIPTED = ("__torch__.", "torch.jit.LoweredWrapper.", "torch.jit.LoweredModule.")
_BURNED_IN = "BURNED_IN_MODEL_INFO = "


def get_storage_info(storage: Any) -> list[Any]:
    """A storage's type, key, device and number of elements."""
    described = isinstance(storage, FakeObject) and (storage.module, storage.name) == (
        "pers",
        "obj",
    )
    args = storage.args[0] if described and len(storage.args) == 1 else ()
    if not (isinstance(args, tuple) and len(args) == 5 and args[0] == "storage"):
        raise AssertionError(f"not a storage: {storage!r}")
    kind = args[1]
    if not isinstance(kind, FakeClass) or not kind.name.endswith("Storage"):
        raise AssertionError(f"sa[1].name does not end with 'Storage': {kind!r}")
    return [kind.name.removesuffix("Storage"), *args[2:]]


# ---- objects -------------------------------------------------------------------------------------


def _tensor(data: FakeObject) -> Any:
    storage, offset, size, stride, requires_grad, *_ = data.args
    described = [get_storage_info(storage), offset, list(size), list(stride), requires_grad]
    return {"__tensor_v2__": described}


def _quantized(data: FakeObject) -> Any:
    storage, offset, size, stride, quantizer, requires_grad, *_ = data.args
    scheme, *numbers = quantizer
    how = [scheme.name, *(numbers if scheme.name == "per_tensor_affine" else ())]
    described = [get_storage_info(storage), offset, list(size), list(stride), how, requires_grad]
    return {"__qtensor__": described}


def _as_dict(pairs: Sequence[tuple[Any, Any]]) -> Any:
    return {
        "__is_dict__": True,
        "keys": [hierarchical_pickle(key) for key, _ in pairs],
        "values": [hierarchical_pickle(value) for _, value in pairs],
    }


# What is known of the functions that pickles call.
_KNOWN: dict[str, Callable[[FakeObject], Any]] = {
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_qtensor": _quantized,
    "torch._utils._rebuild_parameter": lambda data: hierarchical_pickle(data.args[0]),
    "torch.jit._pickle.restore_type_tag": lambda data: hierarchical_pickle(data.args[0]),
    "torch.device": lambda data: data.args[0],
    "collections.OrderedDict": lambda data: _as_dict(data.items),
    "builtin.UnicodeDecodeError": lambda data: {
        "__module_type__": "builtin.UnicodeDecodeError",
        "state": hierarchical_pickle(data.args),
    },
}


def _fake(data: FakeObject) -> Any:
    typename = f"{data.module}.{data.name}"
    if typename.startswith(_SCRIPTED):
        return {"__module_type__": typename, "state": hierarchical_pickle(data.state)}
    if re.fullmatch(r"torch\.jit\._pickle\.build_[a-z]+list", typename):
        return hierarchical_pickle(data.args[0])
    if typename in _KNOWN:
        return _KNOWN[typename](data)
    # Files of torch.save have objects of any class: shown by what they are made of.
    parts = {"args": data.args, "state": data.state, "items": data.items}
    there = {name: value for name, value in parts.items() if value}
    state = data.state if set(there) <= {"state"} else there
    return {"__module_type__": typename, "state": hierarchical_pickle(state)}


def hierarchical_pickle(data: Any) -> Any:
    """What a pickle says, in terms of JSON: tuples, dicts, modules and tensors are marked."""
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, list):
        return [hierarchical_pickle(item) for item in data]
    if isinstance(data, tuple):
        return {"__tuple_values__": hierarchical_pickle(list(data))}
    if isinstance(data, dict):
        return _as_dict(list(data.items()))
    if isinstance(data, FakeObject):
        return _fake(data)
    if isinstance(data, FakeClass):
        return {"__module_type__": repr(data), "state": None}
    if isinstance(data, (set, frozenset)):
        return {"__module_type__": type(data).__name__, "state": hierarchical_pickle(list(data))}
    if isinstance(data, (bytes, complex)):
        return repr(data)
    raise Exception(f"Can't prepare data of type for JS: {type(data)}")


# ---- archives ------------------------------------------------------------------------------------


class _Words:
    """Texts by number: JSON cannot share them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def intern(self, text: str) -> int:
        """A text's number."""
        return self.numbers.setdefault(text, len(self.numbers))


def _read(archive: zipfile.ZipFile, name: str) -> Any:
    with archive.open(name) as file:
        return DumpUnpickler(file, catch_invalid_utf8=True).load()


def _plain(numbers: Any) -> Any:
    """A list of TorchScript, which a function makes of a list."""
    return numbers.args[0] if isinstance(numbers, FakeObject) else numbers


def _ranges(debug: Any) -> list[tuple[int, tuple[tuple[str, str, int], int, int]]]:
    """Where parts of a file's code begin, and the source of each."""
    if len(debug) == 3 and debug[0] == "FORMAT_WITH_STRING_TABLE":
        _, table, entries = debug
        return [
            (at, (("".join(table[i] for i in _plain(text)), table[file], line), start, end))
            for at, ((text, file, line), start, end), *_ in entries
        ]
    return [(at, source) for at, source, *_ in debug]


def _code(archive: zipfile.ZipFile, name: str, words: _Words) -> list[list[Any]]:
    """A file of code in parts: text, file, line, and the source's text with the part's range."""
    code = archive.read(name)
    has_debug = name + ".debug_pkl" in archive.namelist()
    ranges = _ranges(_read(archive, name + ".debug_pkl")) if has_debug else []
    nowhere = ("", "", 0), 0, 0
    ranges = ranges or [(0, nowhere)]
    if ranges[-1][0] != len(code):
        ranges.append((len(code), nowhere))
    parts = []
    for (at, ((text, file, line), start, end)), (after, _) in itertools.pairwise(ranges):
        if after <= at:
            raise AssertionError("end is not greater than start")
        if not text.isascii():  # ranges are of bytes, which JavaScript's texts do not have
            start = end = 0
        part = code[at:after].decode()
        parts.append([part, words.intern(file), line, words.intern(text), start, end])
    return parts


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError:
        return "INVALID JSON"


def _pickles(archive: zipfile.ZipFile, names: Iterable[str], limit: int) -> dict[str, str]:
    shown = {}
    for name in names:
        text = pprint.pformat(_read(archive, name)) + "\n"
        # Objects that occur twice are written twice here: the text may be long.
        if os.path.basename(name) == "bytecode.pkl" or len(text) <= limit:
            shown[name] = text
    return shown


def get_model_info(
    path_or_file: str | os.PathLike[str] | IO[bytes],
    title: str | None = None,
    extra_file_size_limit: int = DEFAULT_EXTRA_FILE_SIZE_LIMIT,
) -> dict[str, Any]:
    """What is in a model's file, in terms of JSON.

    Args:
        title: shown above it; at first the file's name.
        extra_file_size_limit: JSON files and pickles that are longer are left out.
    """
    if isinstance(path_or_file, (str, os.PathLike)):
        name, size = os.fspath(path_or_file), os.stat(path_or_file).st_size
    else:
        name, size = "buffer", path_or_file.seek(0, io.SEEK_END)
        path_or_file.seek(0)
    words = _Words()
    with zipfile.ZipFile(path_or_file) as archive:
        entries = archive.infolist()
        prefixes = list(dict.fromkeys(entry.filename.partition("/")[0] for entry in entries))
        if not prefixes:
            raise AssertionError("path_prefix is None")
        prefix = prefixes[0]
        if len(prefixes) > 1:
            raise Exception(f"Mismatched prefixes: {prefix} != {prefixes[1]}")
        names = [entry.filename for entry in entries]

        def member(name: str) -> Any:
            # torch.save writes no constants.
            path = f"{prefix}/{name}.pkl"
            return hierarchical_pickle(_read(archive, path)) if path in names else None

        if f"{prefix}/data.pkl" not in names:
            raise KeyError(f"There is no item named '{prefix}/data.pkl' in the archive")
        code = {n: _code(archive, n, words) for n in names if n.endswith(".py")}
        extra = re.compile(re.escape(prefix) + r"/extra/.*\.json")
        model = {
            "title": title or name,
            "file_size": size,
            "version": archive.read(f"{prefix}/version").decode().strip(),
            "zip_files": [
                {
                    "filename": entry.filename,
                    "compression": entry.compress_type,
                    "compressed_size": entry.compress_size,
                    "file_size": entry.file_size,
                }
                for entry in entries
            ],
            "interned_strings": list(words.numbers),
            "code_files": code,
            "model_data": member("data"),
            "constants": member("constants"),
            "extra_files_jsons": {
                entry.filename: _json(archive.read(entry))
                for entry in entries
                if extra.fullmatch(entry.filename) and entry.file_size <= extra_file_size_limit
            },
            "extra_pickles": _pickles(
                archive, (n for n in names if n.endswith(".pkl")), extra_file_size_limit
            ),
        }
    return {"model": model}


# ---- the page ------------------------------------------------------------------------------------


def get_inline_skeleton() -> str:
    """The page without a model: it loads model_info.json from where it lies."""
    return SKELETON


def burn_in_info(skeleton: str, info: Any) -> str:
    """The page with a model in it."""
    # A "</script>" in the model would end the script.
    data = json.dumps(info, sort_keys=True).replace("/", "\\/")
    return skeleton.replace(_BURNED_IN + "null", _BURNED_IN + data)


def get_info_and_burn_skeleton(path_or_bytesio: Any, **kwargs: Any) -> str:
    """The page of a model's file."""
    return burn_in_info(get_inline_skeleton(), get_model_info(path_or_bytesio, **kwargs))


def main(argv: Sequence[str], *, stdout: Any = None) -> None:
    """Writes what is in a model's file: `--style=json` or `--style=html`."""
    warnings.warn(
        "torch.utils.model_dump is deprecated and will be removed in a future PyTorch release.",
        stacklevel=2,
    )
    parser = argparse.ArgumentParser()
    parser.add_argument("--style", choices=["json", "html"])
    parser.add_argument("--title")
    parser.add_argument("model")
    args = parser.parse_args(argv[1:])
    info = get_model_info(args.model, title=args.title)
    output = stdout or sys.stdout
    if args.style == "json":
        output.write(json.dumps(info, sort_keys=True) + "\n")
    elif args.style == "html":
        output.write(burn_in_info(get_inline_skeleton(), info))
    else:
        raise Exception("Invalid style")
