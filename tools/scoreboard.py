#!/usr/bin/env python3
"""How much of PyTorch tritorch is: runs the conformance scripts and compares with what is recorded.

    python tools/scoreboard.py                    # all runs; fails when a count has fallen
    python tools/scoreboard.py --runs cpu api     # some of them
    python tools/scoreboard.py --record           # writes bench/results/scoreboard.json

The scripts, `opinfo.py` and `api.py`, are looked for in --scripts, in $TRITORCH_CONFORMANCE, and in
shared/conformance here and beside this checkout.  The interpreter needs torch 2.13.0 next to
tritorch: give one that has both.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "bench" / "results" / "scoreboard.json"
# Not errors: what a kernel finds is reported at a later synchronisation, in another sample.
CHECKS = ("forward", "grad", "method", "inplace", "out")
OTHER_TYPES = ("float64", "bfloat16", "complex64", "int64", "bool")

# Each run: opinfo.py's arguments and, for the simulated device, the environment.
RUNS = {
    "cpu": (["--samples", "40"], {}),
    "cpu-types": (["--dtype", *OTHER_TYPES, "--check", "forward", "--samples", "20"], {}),
    "cuda": (
        ["--device", "cuda", "--samples", "6", "--seconds", "30", "--check", *CHECKS],
        {"TRITORCH_SIMULATE_CUDA": "sticky=0"},  # a sample that takes too long fails alone
    ),
}


# torch's bfloat16 products differ by what its processor can do: the same everywhere, so that counts
# compare.  (Newer instructions may be missing, so the older ones are asked for.)
PEER = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}

# Interpreted samples that come near the time limit pass or not by the machine's load.
SLACK = {"cuda": 3}


def find_scripts(given: str | None) -> pathlib.Path | None:
    """The folder of the conformance scripts."""
    places = [given, os.environ.get("TRITORCH_CONFORMANCE")]
    places += [ROOT / "shared/conformance", ROOT.parent / "shared/conformance"]
    for place in filter(None, places):
        folder = pathlib.Path(place).resolve()
        if (folder / "opinfo.py").exists():
            return folder
    return None


def counts(results: dict[str, dict[str, list]]) -> dict[str, list[int]]:
    """{check, or check and dtype: [operators that pass, operators that have it]}"""
    found: dict[str, list[int]] = {}
    dtypes = {label.rsplit(" ", 1)[1] for label in results}
    for label, checks in results.items():
        kind = label.rsplit(" ", 1)[1]
        for check, (passed, total, _) in checks.items():
            if total:
                row = found.setdefault(check if len(dtypes) == 1 else f"{check} {kind}", [0, 0])
                row[0] += passed == total
                row[1] += 1
    return dict(sorted(found.items()))


def run_opinfo(scripts: pathlib.Path, name: str) -> dict[str, list[int]]:
    arguments, environment = RUNS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.json")
        subprocess.run(
            [sys.executable, "-W", "ignore", scripts / "opinfo.py", *arguments, "--json", path],
            check=True, cwd=folder, env=os.environ | PEER | environment, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return counts(json.loads(pathlib.Path(path).read_text()))


def run_api(scripts: pathlib.Path) -> dict[str, list[int]]:
    command = [sys.executable, "-W", "ignore", scripts / "api.py"]
    run = subprocess.run(command, check=True, cwd=tempfile.gettempdir(), stdout=subprocess.PIPE)
    out = run.stdout.decode()
    rows = re.findall(r"^(\S+|\w+ total) +(\d+)/(\d+)", out, re.MULTILINE)
    return {name: [int(have), int(total)] for name, have, total in rows if int(have)}


def compare(old: dict, new: dict) -> list[str]:
    """What has fallen."""
    return [
        f"{run}, {check}: {new[run].get(check, [0])[0]} of {row[1]}, recorded are {row[0]}"
        for run, rows in old.items()
        if run in new
        for check, row in rows.items()
        if new[run].get(check, [0])[0] < row[0] - SLACK.get(run, 0)
    ]


def written(runs: dict[str, dict[str, list[int]]]) -> str:
    """JSON with a line for each count."""
    blocks = []
    for run, rows in runs.items():
        lines = ",\n".join(f"  {json.dumps(check)}: {row}" for check, row in rows.items())
        blocks.append(f" {json.dumps(run)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main() -> int | str:
    text = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=text)
    parser.add_argument("--scripts", help="the folder of opinfo.py and api.py")
    parser.add_argument("--runs", nargs="+", choices=[*RUNS, "api"], default=[*RUNS, "api"])
    parser.add_argument("--record", action="store_true", help="write the counts down")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    scripts = find_scripts(args.scripts)
    if scripts is None:
        return "no conformance scripts: say where they are with --scripts"
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = {
            name: pool.submit(run_api, scripts)
            if name == "api"
            else pool.submit(run_opinfo, scripts, name)
            for name in args.runs
        }
        new = {name: future.result() for name, future in futures.items()}
    for run, rows in new.items():
        print(run)
        for check, (passed, total) in rows.items():
            print(f"  {check:28}{f'{passed}/{total}':>12}{100 * passed / total:8.1f}%")
    old = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if args.record:
        RECORD.write_text(written(old | new))
        return 0
    fallen = compare(old, new)
    return "fallen:\n  " + "\n  ".join(fallen) if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
