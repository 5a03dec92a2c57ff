"""Triton's intermediate representation, read from its text.

What Triton's front end makes of a kernel is a few dozen operations of blocks of numbers in nested
regions.  Its text has had the same form from Triton 3.6 on; Triton's bindings show no constants,
so it is the text that is read, a line an operation.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Type:
    """Of a value: its elements' kind ("f32", "i1", "ptr") and a block's shape; () is a scalar's."""

    kind: str
    shape: tuple[int, ...] = ()
    of: Type | None = None  # what a pointer points to

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class Op:
    """One operation.  text: what stands between its name and its types, with its attributes."""

    name: str
    results: list[str]
    operands: list[str]
    types: list[Type]  # of the results; without any, what the line says of its operands
    text: str = ""
    regions: list[list[Block]] = field(default_factory=list)
    location: str = ""
    targets: list[tuple[str, list[str]]] = field(default_factory=list)  # of a branch


@dataclass
class Block:
    label: str
    arguments: list[str]
    types: list[Type]
    ops: list[Op]


@dataclass
class Function:
    name: str
    body: list[Block]


_LOCATION = re.compile(r'\s*loc\((#loc\d*)\)$')  # fmt: skip
_ARGUMENT_LOCATION = re.compile(
    r' loc\((?:#loc\d*|unknown|"(?:[^"\\]|\\.)*"(?:\(#loc\d*\)|:\d+:\d+)?)\)'
)
_HEAD = re.compile(r'(?:((?:%[\w.$#-]+(?::\d+)?(?:, )?)+) = )?"?([a-z_]+(?:\.[\w.]+)?)"?')
_VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_OPENING, _CLOSING = "<({[", ">)}]"


def _parts(text: str, separator: str) -> list[str]:
    """Splits where no bracket or string is open."""
    if separator not in text:
        return [text]
    out, depth, start, quoted, at = [], 0, 0, False, 0
    while at < len(text):
        c = text[at]
        if quoted:
            at += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif text.startswith("->", at):
            at += 1
        elif c in _OPENING:
            depth += 1
        elif c in _CLOSING:
            depth -= 1
        if depth == 0 and not quoted and text.startswith(separator, at):
            out.append(text[start:at])
            at += len(separator) - 1
            start = at + 1
        at += 1
    return [*out, text[start:]]


@functools.cache
def type_of(text: str) -> Type:
    text = text.strip()
    if text.startswith("tensor<"):
        sizes, inner = re.fullmatch(r"((?:\d+x)*)(.*)", text[7:-1]).groups()  # type: ignore[union-attr]
        element = type_of(inner)
        return Type(element.kind, tuple(map(int, sizes.split("x")[:-1])), element.of)
    if text.startswith("!tt.ptr<"):
        return Type("ptr", (), type_of(_parts(text[8:-1], ",")[0]))
    return Type(text)


def _types(text: str) -> list[Type]:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return [type_of(part) for part in _parts(text, ", ") if part.strip()]


def _results(text: str | None) -> list[str]:
    out = []
    for name in (text or "").split(", "):
        base, _, count = name.partition(":")
        out += [f"{base}#{i}" for i in range(int(count))] if count else [base] if base else []
    return out


def _arguments(text: str) -> tuple[list[str], list[Type]]:
    """Of "%a: i32, %b: f32 {attributes}"."""
    names, types = [], []
    for part in _parts(text, ", "):
        if part.strip():
            name, _, kind = part.strip().partition(": ")
            names.append(name)
            types.append(type_of(_parts(kind, " ")[0]))
    return names, types


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines: list[str] = []
        self.locations: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("#loc"):
                name, _, value = line.partition(" = loc(")
                self.locations[name] = value[:-1]
            elif line.strip():
                self.lines.append(line.strip())
        self.at = 0

    def functions(self) -> Iterator[Function]:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            if not line.startswith("tt.func"):
                continue
            line = _ARGUMENT_LOCATION.sub("", line)
            name = re.search(r"@([\w.$-]+|\"[^\"]*\")\(", line)
            assert name, line
            inside = _balanced(line, name.end() - 1)
            arguments, types = _arguments(inside)
            body, _ = self.region()
            body[0].arguments, body[0].types = arguments, types
            _rename(body, {}, itertools.count())
            yield Function(name[1], body)

    def region(self) -> tuple[list[Block], str]:
        """The blocks up to a closing bracket, and the line that it begins."""
        blocks = [Block("^bb0", [], [], [])]
        while True:
            line = self.lines[self.at]
            self.at += 1
            if line.startswith("}"):
                return blocks, line
            if line.startswith("^"):
                line = _ARGUMENT_LOCATION.sub("", line)
                label = re.match(r"\^\w+", line)
                assert label
                inside = _balanced(line, label.end()) if line[label.end()] == "(" else ""
                arguments, types = _arguments(inside)
                if len(blocks) == 1 and not blocks[0].ops and not blocks[0].arguments:
                    blocks = []
                blocks.append(Block(label[0], arguments, types, []))
                continue
            blocks[-1].ops.append(self.operation(line))

    def operation(self, line: str) -> Op:
        location = _LOCATION.search(line)
        if location:
            line = line[: location.start()]
        head = _HEAD.match(line)
        assert head, line
        results, name = _results(head[1]), head[2]
        rest = line[head.end() :]
        op = Op(name, results, [], [], location=location[1] if location else "")
        if name in _WITH_REGIONS and rest.endswith("{"):
            _WITH_REGIONS[name](self, op, rest.removesuffix("({").removesuffix("{").strip())
            return op
        sections = _parts(rest, " : ")
        op.text, described = sections[0], sections[1:]
        if name == "tt.print":  # its operands stand between two colons
            op.text, described = " ".join(sections[:-1]), sections[-1:]
        op.operands = _VALUE.findall(_STRING.sub('""', op.text))
        if name in ("cf.br", "cf.cond_br"):
            op.operands = op.operands[: name == "cf.cond_br"]
            for label, values in re.findall(r"(\^\w+)(?:\(([^)]*)\))?", line):
                op.targets.append((label, _VALUE.findall(values.split(" : ")[0])))
        if described:
            *_, made = _parts(_parts(described[-1], " to ")[-1], " -> ")
            op.types = _types(made)
        elif name == "arith.constant":
            op.types = [type_of("i1")]
        return op

    def _for(self, op: Op, rest: str) -> None:
        head, _, kind = rest.rpartition(" : ")
        counter, bounds = head.removeprefix("unsigned ").split(" = ", 1)
        names = _VALUE.findall(bounds.split(" iter_args(")[0])
        op.operands = names
        arguments, types = [counter.strip()], [type_of(kind)]
        if " iter_args(" in bounds:
            inside = _balanced(bounds, bounds.index(" iter_args(") + 10)
            pairs = [part.split(" = ") for part in inside.split(", ")]
            arguments += [pair[0] for pair in pairs]
            op.operands += [pair[1] for pair in pairs]
            op.types = _types(_parts(bounds, " -> ")[-1])
            types += op.types
        body, closing = self.region()
        body[0].arguments, body[0].types = arguments, types
        op.regions = [body]
        self._located(op, closing)

    def _if(self, op: Op, rest: str) -> None:
        head, _, made = rest.partition(" -> ")
        op.operands, op.types = _VALUE.findall(head), _types(made)
        body, closing = self.region()
        op.regions.append(body)
        if closing.startswith("} else {"):
            body, closing = self.region()
            op.regions.append(body)
        self._located(op, closing)

    def _while(self, op: Op, rest: str) -> None:
        carried, _, kinds = rest.rpartition(" : ") if " : " in rest else ("", "", rest[2:])
        pairs = [part.split(" = ") for part in carried.strip(" ()").split(", ") if part]
        taken, made = _parts(kinds, " -> ")
        op.operands, op.types = [pair[1] for pair in pairs], _types(made)
        before, _ = self.region()
        before[0].arguments, before[0].types = [pair[0] for pair in pairs], _types(taken)
        after, closing = self.region()
        op.regions = [before, after]
        self._located(op, closing)

    def _combining(self, op: Op, rest: str) -> None:
        op.text = rest
        op.operands = _VALUE.findall(_balanced(rest, rest.index("(")))
        body, closing = self.region()
        op.regions = [body]
        self._located(op, closing)
        op.types = _types(_LOCATION.sub("", closing).split(" -> ")[-1])

    def _located(self, op: Op, closing: str) -> None:
        location = _LOCATION.search(closing)
        op.location = location[1] if location else ""


_WITH_REGIONS = {
    "scf.for": _Reader._for,
    "scf.if": _Reader._if,
    "scf.while": _Reader._while,
    "tt.reduce": _Reader._combining,
    "tt.scan": _Reader._combining,
    "tt.map_elementwise": _Reader._combining,
}


def _rename(region: list[Block], names: dict[str, str], numbers: Iterator[int]) -> None:
    """Gives each value a name of its own: regions side by side use the same ones."""

    def new(name: str) -> str:
        names[name] = f"{name.split('#')[0]}.{next(numbers)}"
        return names[name]

    for block in region:
        block.arguments = [new(name) for name in block.arguments]
        for op in block.ops:
            op.operands = [names[name] for name in op.operands]
            op.targets = [(label, [names[x] for x in values]) for label, values in op.targets]
            for inner in op.regions:
                _rename(inner, dict(names), numbers)
            op.results = [new(name) for name in op.results]


def _balanced(text: str, at: int) -> str:
    """What stands inside the bracket that opens at a place."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return text[at + 1 : i]
    raise ValueError(f"a bracket stays open: {text}")


def read(text: str) -> tuple[list[Function], dict[str, str]]:
    """The functions of a module, and what its names of locations stand for."""
    reader = _Reader(text)
    return list(reader.functions()), reader.locations


def attribute(op: Op, name: str) -> str:
    """An attribute's text; "" if there is none."""
    found = re.search(rf"\b{name} = ([^,}}>]+(?:<[^>]*>)?)", op.text)
    return found[1].strip() if found else ""


def integer(op: Op, name: str) -> int:
    return int(attribute(op, name).split(" ")[0] or 0)


def places(locations: dict[str, str], name: str) -> list[tuple[str, int]]:
    """(file, line) of a location, the innermost call first."""
    text = locations.get(name, name)
    if text.startswith("callsite("):
        callee, caller = _parts(text[len("callsite(") : -1], " at ")
        return places(locations, callee) + places(locations, caller)
    plain = re.fullmatch(r'"((?:[^"\\]|\\.)*)":(\d+):\d+', text)
    if plain:
        return [(plain[1], int(plain[2]))]
    named = re.fullmatch(r'"(?:[^"\\]|\\.)*"\((.*)\)', text)
    return places(locations, named[1]) if named else []
