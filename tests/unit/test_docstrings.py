"""Docstrings begin with what a thing is or does, and the compiler has the words of its glossary."""

import ast
import collections
import re
from pathlib import Path

import tritorch

PACKAGE = Path(tritorch.__file__).parent
# Docstrings from before that rule, a file and their number a line; it may only shrink.
OLD = Path(__file__).with_name("docstrings.txt")
# Words that the compiler had of its own; docs/glossary.md has those that it uses.
FORMER = re.compile(
    r"\b(?:(?:left|leaves?|is|are) open|made again|what wait(?:s|ed)|(?<!_)lazy|twins?|trie"
    r"|barriers?|stretch(?:es)?|streams? of calls|settles?|Varying|Opened|Ended|DescribedTape)\b"
)
BEGINNING = re.compile(r"(?:What|Whether|Of|Who|Those|How|That|Which|Has)\b")


def wrong(source):
    """The names of what has a docstring that begins so."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text is not None and BEGINNING.match(text):
                yield getattr(node, "name", "the module")


def test_beginnings_are_found():
    assert [*wrong('"""Whether it is."""\ndef f():\n    """Of all."""\n')] == ["the module", "f"]
    assert not [*wrong('"""Whatever it is."""\nclass C:\n    """True if it is what it has."""\n')]


def test_docstrings_begin_with_the_thing():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if names := [*wrong(path.read_text(encoding="utf-8"))]:
            found[path.relative_to(PACKAGE).as_posix()] = names
    old = collections.Counter()
    for line in OLD.read_text(encoding="ascii").splitlines():
        name, count = line.split()
        old[name] = int(count)
    more = {name: names for name, names in found.items() if len(names) > old[name]}
    assert not more, "say what the thing is or does"
    fewer = {name: len(found.get(name, ())) for name in old if len(found.get(name, ())) < old[name]}
    assert not fewer, f"there are fewer: take them out of {OLD.name}"
    assert not [name for name in old if name.startswith("compilation/")]


def test_the_compiler_uses_the_words_of_its_glossary():
    assert FORMER.search("a size that is open") and not FORMER.search("torch._lazy")
    found = []
    folders = [PACKAGE / "compilation", Path(__file__).parents[2] / "src" / "compilation"]
    for path in sorted(path for folder in folders for path in folder.rglob("*.*")):
        if path.suffix in (".py", ".cpp", ".h"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                found += [f"{path.name}:{number}: {word}" for word in FORMER.findall(line)]
    assert not found
