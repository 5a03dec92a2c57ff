"""The command line: `python -m tritorch bench`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tritorch.bench import compare, contestants, declare, report as text
from tritorch.bench.cases import all_benchmarks
from tritorch.bench.run import Options, run_all, serve
from tritorch.cli import commands

WHOLE_RUN = 515.0  # seconds on a GPU, with all families
QUICK = 0.2  # of the time
WARM_UP = 0.2  # of the time, at most, to compile kernels
SHORTEST = 0.01  # seconds for a contestant of a benchmark
LEAST = 20.0  # seconds to compile kernels in, where there is no GPU
_PEERS = ("", "none", "torch", "torch.compile", "jax", "cupy")
FEW = 3  # benchmarks whose kernels are compiled as they come


def parser() -> argparse.ArgumentParser:
    """Of the arguments."""
    made = commands.Parser(
        prog="python -m tritorch bench",
        description="Measures tritorch beside the peers that are installed, in one run: on the GPU "
        "if there is one, else on the CPU, where the kernels are compiled and described too.",
    )
    add = made.add_argument
    add("names", nargs="*", help="benchmarks, families, or regular expressions of names")
    add("--list", action="store_true", help="say what there is, with bytes and operations")
    add("--family", action="append", default=[], help="of these families only")
    add("--device", choices=("cuda", "cpu"), help="cuda if there is a GPU")
    add("--scale", choices=declare.SCALES, help="sizes; those that suit the device")
    add("--peers", help="of torch, torch.compile, jax, cupy, with commas, or none; "
        "those that are installed")  # fmt: skip
    add("--seconds", type=float, help=f"for the whole run ({WHOLE_RUN:.0f} on a GPU)")
    add("--quick", action="store_true", help="a fifth of the time, without torch.compile")
    add("--threads", type=int, help="of each library on a CPU (as many as it likes)")
    add("--graph", action="store_true", help="on a GPU, replay all kernels from a graph")
    add("--json", type=Path, metavar="FILE", help="write the results")
    add("--from", type=Path, dest="source", metavar="FILE", help="take results in place of running")
    add("--roofline", type=Path, metavar="DIR", help="draw roofline.png and roofline.html")
    add("--goals", type=Path, metavar="DIR", help="fill goals.json and GOALS.md from the results")
    add("--compare", nargs=2, type=Path, metavar=("A", "B"), help="what changed from A to B; "
        "the exit status is 1 if something became slower beyond noise")  # fmt: skip
    add("--no-warmup", action="store_true", help="on a GPU, do not compile in parallel first")
    add("--targets", default="80,90,100", help="compute capabilities to compile kernels for "
        "where there is no GPU (%(default)s), or none")  # fmt: skip
    add("--serve", help=argparse.SUPPRESS)
    add("--trace", type=Path, help=argparse.SUPPRESS)
    add("--processors", type=int, help=argparse.SUPPRESS)
    return made


def has_gpu() -> bool:
    """Whether there is a device, real or simulated."""
    import tritorch

    return tritorch.cuda.is_available()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is asked and returns the exit status."""
    made = parser()
    options = made.parse_args(argv)
    try:
        _look(options)
    except commands.Refused as error:
        made.error(str(error))
    if options.compare:
        return compare.main(*options.compare)
    device = options.device or ("cuda" if has_gpu() else "cpu")
    simulated = False
    if device == "cuda":
        import tritorch

        simulated = tritorch.cuda.is_simulated()
    scale = options.scale or ("tiny" if simulated else "gpu" if device == "cuda" else "cpu")
    if options.serve:
        serve(options.serve, device, scale)
        return 0
    chosen = declare.choose(all_benchmarks(scale), options.names, options.family)
    if not chosen and not options.source:
        named = next(iter([*options.names, *options.family]), "")
        known = {name for each in all_benchmarks(scale) for name in (each.name, each.family)}
        near = commands.suggestion(named, known) or "; --list shows what there is"
        print(f"{made.prog}: no benchmark is named {named}{near}", file=sys.stderr)
        return 2
    if options.list:
        print(text.listing(chosen))
        return 0
    if options.trace:
        from tritorch.bench import kernels

        (target,) = _targets(options)
        kernels.trace(chosen, options.trace, target, options.seconds, options.processors)
        return 0
    if options.source:
        found = compare.read(options.source)
    elif device == "cuda" and not has_gpu():
        made.error("--device cuda: there is no GPU here; `python -m tritorch doctor` says why")
    else:
        found = _measure(options, chosen, device, scale, simulated)
    return _finish(options, found)


def _look(options: argparse.Namespace) -> None:
    """Refuses files that are not there or are no results, devices and targets that are not."""
    for path in (*(options.compare or ()), *filter(None, (options.source,))):
        commands.readable(path)
        try:
            compare.read(path)
        except ValueError:
            raise commands.Refused(f"{path} has no results of bench --json") from None
    for path in filter(None, (options.roofline, options.goals)):
        commands.folder(path)
    if options.json and options.json.parent.is_dir():
        commands.writable(options.json)
    if options.targets != "none" and not all(t.isdecimal() for t in options.targets.split(",")):
        raise commands.Refused(f"--targets {options.targets}: give numbers as 80,90, or none")
    unknown = [name for name in (options.peers or "").split(",") if name not in _PEERS]
    if unknown:
        near = commands.suggestion(unknown[0], _PEERS)
        raise commands.Refused(f"--peers: there is no peer {unknown[0]}{near}")


def _peers(options: argparse.Namespace, device: str, simulated: bool) -> list[str]:
    if options.peers is not None:
        return [name for name in options.peers.split(",") if name not in ("", "none")]
    if simulated:
        return []
    found = contestants.installed()
    if device == "cuda":
        found = [name for name in found if contestants.has_gpu(name)]
        if "torch" in found and not options.quick:
            found.insert(1, "torch.compile")
    return found


def _targets(options: argparse.Namespace) -> list[int]:
    return [int(each) for each in options.targets.split(",")]


def _measure(
    options: argparse.Namespace, chosen: list[declare.Benchmark], device: str, scale: str,
    simulated: bool,
) -> dict[str, Any]:  # fmt: skip
    share = QUICK if options.quick else 1.0
    real = device == "cuda" and not simulated
    budget = options.seconds or (WHOLE_RUN * share if real else None)
    if real and not options.no_warmup and scale == "gpu" and len(chosen) > FEW:
        spent = _warm_up(options, budget or WHOLE_RUN)
        budget = budget - spent if budget else None
    peers = _peers(options, device, simulated)
    seconds = (0.1 if real else 0.25) * share
    if budget is not None:  # less than what half of the time has room for
        seconds = max(min(seconds, 0.5 * budget / len(chosen) / (1 + len(peers))), SHORTEST)
    how = Options(
        device=device, scale=scale, peers=peers, seconds=seconds,
        rounds=3 if options.quick else 5, budget=budget,
        graph=options.graph, isolated=device == "cpu", threads=options.threads,
    )  # fmt: skip
    family = ""

    def show(benchmark: declare.Benchmark, result: dict[str, Any]) -> None:
        nonlocal family
        if benchmark.family != family:
            family = benchmark.family
            print(f"\n{family}", flush=True)
        print(f"  {text.line(benchmark.name, result)}", flush=True)

    found = run_all(chosen, how, show, lambda partial: _write(options.json, partial))
    print(f"\n{text.header(found)}\n{text.closing(found)}")
    if device == "cpu" and options.targets != "none":
        from tritorch.bench import kernels

        left = max(options.seconds - found["seconds"], LEAST) if options.seconds else None
        found["kernels"] = kernels.describe(options.names, options.family, _targets(options), left)
        print(kernels.table(found["kernels"]))
    return found


def _warm_up(options: argparse.Namespace, budget: float) -> float:
    """Compiles in parallel what the benchmarks will launch; the seconds that it took."""
    import tritorch
    from tritorch.bench import kernels

    major, minor = tritorch.cuda.get_device_capability()
    start = time.monotonic()
    found = kernels.describe(
        options.names, options.family, [10 * major + minor], WARM_UP * budget,
        tritorch.cuda.get_device_properties().multi_processor_count,
    )  # fmt: skip
    spent = time.monotonic() - start
    count = sum(bool(row["compiled"]) for row in found["kernels"])
    print(f"{count} kernels compiled for sm_{major}{minor} in {spent:.0f} s", flush=True)
    if "error" in found:
        print(found["error"])
    return spent


def _write(path: Path | None, found: dict[str, Any]) -> None:
    """The report as JSON; whole or not at all."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(found, indent=1) + "\n")
    beside.replace(path)


def _finish(options: argparse.Namespace, found: dict[str, Any]) -> int:
    if options.json != options.source:
        _write(options.json, found)
    if options.goals:
        from tritorch.bench import goals

        print(goals.fill(options.goals, found))
    if options.roofline:
        from tritorch.bench import roofline

        for path in roofline.draw(options.roofline, found):
            print(f"wrote {path}")
    return 1 if any("error" in result for result in found["results"].values()) else 0
