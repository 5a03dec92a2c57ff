#!/usr/bin/env bash
# What must be seen on a real GPU, on a machine with one and without a network:
#
#     tools/gpu_pass.sh carry      before, where there is a network: wheels and kernels to take along,
#                                  into build/wheels and build/packs (PYTHON: one with the GPU
#                                  machine's Triton, as .venv-py312/bin/python)
#     tools/gpu_pass.sh build      install from this checkout, with the machine's own build tools
#     tools/gpu_pass.sh smoke      whether the device does what is asked of it, in a minute
#     tools/gpu_pass.sh test       the tests that mean something on a GPU, on it; PYTEST_ARGS may be
#                                  quoted as in a shell: PYTEST_ARGS='-m "device and not simulated"'
#     tools/gpu_pass.sh sanitize   compute-sanitizer's memcheck over a part of the tests
#     tools/gpu_pass.sh bench      launch, allocation and bandwidth figures
#     tools/gpu_pass.sh suite      python -m tritorch bench, whole, beside the peers that are there:
#                                  suite_run.json, roofline.html and .png, goals.json and GOALS.md
#     tools/gpu_pass.sh examples   trains the examples; their last lines are the figures
#     tools/gpu_pass.sh tune       the fastest plans of products, attention, convolutions and rows:
#                                  tuned.json, to be copied to tritorch/gpu/; TUNE_ARGS, as "rows"
#     tools/gpu_pass.sh waiting    whether launches that wait for kernels (TRITORCH_COMPILERS) are
#                                  right, from an empty cache; only then may they be the default
#     tools/gpu_pass.sh all        these in turn, without carry, waiting and tune
#
# Several steps may be named: each is run if those before it passed, and the tests get what is left
# of LIMIT seconds (580): tools/gpu_pass.sh build smoke test
#
# Each step takes less than 10 minutes, writes its result as JSON into $OUT (build/gpu without it)
# and prints a table of all results so far at the end.  The exit status is that of the steps asked
# for.  Needs Python with numpy, ml_dtypes, triton, scikit-build-core and nanobind; pytest and
# hypothesis for the tests.  Wheels that the machine lacks are taken from build/wheels if it exists.
set -uo pipefail
cd "$(dirname "$0")/.."
ROOT=$PWD
WORK=$ROOT/build/gpu
RESULTS=${OUT:-$WORK}
PYTHON=${PYTHON:-python3}
LIMIT=${LIMIT:-580}
VENV=$WORK/venv
mkdir -p "$WORK" "$RESULTS"

python() { PYTHONPATH=$WORK/site:${PYTHONPATH:-} "$(interpreter)" "$@"; }
interpreter() { if [ -x "$VENV/bin/python" ]; then echo "$VENV/bin/python"; else command -v "$PYTHON"; fi; }

# record STEP STATUS SECONDS DETAIL
record() {
  "$PYTHON" - "$RESULTS/$1.json" "$@" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" <<'EOF'
import json, subprocess, sys, time
path, step, status, seconds, detail, commit = sys.argv[1:]
try:
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         capture_output=True, text=True).stdout.strip()
except OSError:
    gpu = "no nvidia-smi"
json.dump({"step": step, "passed": status == "0", "seconds": int(seconds), "detail": detail,
           "gpu": gpu, "commit": commit, "date": time.strftime("%Y-%m-%d")}, open(path, "w"), indent=2)
EOF
}

# Tests and benchmarks run from a copy without tritorch/, which would hide the installed package.
stage() {
  rm -rf "$WORK/run" && mkdir -p "$WORK/run" &&
    cp -r tests bench docs examples tools src pyproject.toml README.md CHANGELOG.md CONTRIBUTING.md "$WORK/run"
}

# Kernels that were compiled elsewhere are launched as they are.
packs=(build/packs/*.pack)
if [ -f "${packs[0]}" ]; then
  TRITORCH_KERNEL_PACK=$(printf "$ROOT/%s:" "${packs[@]}")
  export TRITORCH_KERNEL_PACK=${TRITORCH_KERNEL_PACK%:}
fi

carry() {
  mkdir -p build/wheels build/packs
  "$PYTHON" -m pip download --quiet --only-binary=:all: --no-deps --python-version 3.12 \
    --platform manylinux_2_28_x86_64 --dest build/wheels pytest pytest-xdist execnet hypothesis \
    sortedcontainers iniconfig pluggy packaging pygments ml_dtypes || return
  "$PYTHON" -m tritorch precompile --target sm_90 --processors 132 --library \
    --pack build/packs/library.pack tools/gpu_smoke.py --launch || return
  DETAIL="$(du -ch build/wheels build/packs | tail -1 | cut -f1) in build/wheels and build/packs"
}

smoke() {
  local extra=()
  [ -f "${packs[0]}" ] && extra=(--pack "$ROOT/${packs[0]}")
  rm -f "$RESULTS/smoke.jsonl"
  stage
  (cd "$WORK/run" && python tools/gpu_smoke.py --json "$RESULTS/smoke.jsonl" "${extra[@]}")
  local status=$?
  DETAIL="$(grep -c '"passed": true' "$RESULTS/smoke.jsonl") of $(grep -c . "$RESULTS/smoke.jsonl") stages"
  return $status
}

build() {
  local wheels=()
  [ -d build/wheels ] && wheels=(--find-links build/wheels)
  if [ ! -x "$VENV/bin/python" ] && ! "$PYTHON" -m venv --system-site-packages "$VENV" > "$WORK/venv.log" 2>&1; then
    rm -rf "$VENV"  # no ensurepip: install beside the machine's packages instead
  fi
  # Where $PYTHON is in an environment of its own, "system" is not where its packages are.
  [ -x "$VENV/bin/python" ] && "$PYTHON" -c 'import site; print(*site.getsitepackages(), sep="\n")' \
    > "$(echo "$VENV"/lib/python3*/site-packages)/outer.pth"
  local into=()
  [ -x "$VENV/bin/python" ] || into=(--target "$WORK/site" --upgrade)
  if [ -d build/wheels ]; then
    python -m pip install --no-index --no-deps "${into[@]}" build/wheels/*.whl || return
  fi
  python -m pip install --no-index "${wheels[@]}" --no-build-isolation --no-deps --force-reinstall \
    "${into[@]}" -C build-dir="$WORK/module" . || return
  (cd "$WORK" && python -m tritorch doctor --json > "$RESULTS/doctor.json"; python -m tritorch doctor)
}

run_tests() {
  stage
  local parallel=() chosen=() status left=$((LIMIT - SECONDS))
  python -c 'import xdist' 2> /dev/null && parallel=(-n "${JOBS:-14}" --dist worksteal)
  eval "chosen=(${PYTEST_ARGS:--m '(device or gpu) and not simulated'})"
  # Interrupted, pytest still tells what it has seen; the log is kept in any case.
  (cd "$WORK/run" && PYTHONPATH=$WORK/site:${PYTHONPATH:-} TRITORCH_TEST_DEVICE=cuda \
    timeout --signal=INT --kill-after=15 "$left" "$(interpreter)" -m pytest "${parallel[@]}" -q \
    --tb=short tests --junitxml="$RESULTS/test.xml" "${chosen[@]}") 2>&1 | tee "$RESULTS/test.txt"
  status=${PIPESTATUS[0]}
  DETAIL=$("$PYTHON" - "$RESULTS/test.xml" <<'EOF'
import sys, xml.etree.ElementTree as xml
try:
    root = xml.parse(sys.argv[1]).getroot()
    suites = [root] if root.tag == "testsuite" else list(root)
    n = {k: sum(int(s.get(k, 0)) for s in suites) for k in ("tests", "failures", "errors", "skipped")}
    print("{tests} tests, {failures} failed, {errors} errors, {skipped} skipped".format(**n))
except (OSError, xml.ParseError) as error:
    print(f"no test report: {error}")
EOF
  )
  return $status
}

sanitize() {
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2> /dev/null | head -1)
  if [ -z "$tool" ]; then
    DETAIL="compute-sanitizer is not on this machine"
    return 1
  fi
  stage
  (cd "$WORK/run" && PYTHONPATH=$WORK/site:${PYTHONPATH:-} TRITORCH_TEST_DEVICE=cuda timeout 540 \
    "$tool" --tool memcheck --leak-check no --error-exitcode 9 --log-file "$RESULTS/sanitize.log" \
    "$(interpreter)" -m pytest -q -x -p no:cacheprovider tests/cuda \
    -m "not compile" -k "${SANITIZE_TESTS:-there_and_back or launch or streams}")
  local status=$?
  DETAIL=$(grep -h "ERROR SUMMARY" "$RESULTS/sanitize.log" 2> /dev/null | tail -1 | sed 's/^=* *//')
  return $status
}

waiting() {
  stage
  (cd "$WORK/run" && PYTHONPATH=$WORK/site:${PYTHONPATH:-} TRITORCH_TEST_DEVICE=cuda TRITORCH_COMPILERS=all \
    TRITON_CACHE_DIR=$(mktemp -d) TRITORCH_CACHE_DIR=$(mktemp -d) timeout 540 \
    "$(interpreter)" -m pytest -q -p no:cacheprovider tests/cuda/test_launch.py tests/cuda/test_copies.py \
    tests/ops/gpu/test_sorting.py -m "device and not simulated and not compile")
}

bench() {
  stage
  (cd "$WORK/run" && python bench/host_overhead.py --device cuda --json "$RESULTS/host_overhead_gpu.json" &&
    python bench/operator_overhead.py --device cuda --json "$RESULTS/operator_overhead_gpu.json")
}

# The suite stops by itself before 9 minutes; should it hang, what it has by then is drawn.
suite() {
  stage
  local run=$RESULTS/suite_run.json status=0
  (cd "$WORK/run" && PYTHONPATH=$WORK/site:${PYTHONPATH:-} timeout 550 "$(interpreter)" -u -m tritorch bench \
    --json "$run" ${BENCH_ARGS:-}) > "$RESULTS/suite.txt" 2>&1 || status=$?
  tail -40 "$RESULTS/suite.txt"
  [ -f "$run" ] && (cd "$WORK/run" && python -m tritorch bench --from "$run" --roofline "$RESULTS" --goals "$RESULTS")
  DETAIL=$(grep -h "benchmarks in" "$RESULTS/suite.txt" | tail -1)
  return $status
}

examples() {
  stage
  local failed=0 name log
  DETAIL=
  for name in char_gpt cnn resnet vae lstm_tagger diffusion reinforce; do
    log=$RESULTS/example_$name.txt
    (cd "$WORK/run" && timeout 70 "$(interpreter)" -u "examples/$name.py" --device cuda --steps "${STEPS:-200}" \
      --out "$WORK/runs/$name") > "$log" 2>&1 || failed=1
    DETAIL+="$name: $(grep -h ' ms/step' "$log" | tail -1); "
  done
  return $failed
}

# The tool stops by itself; what it has after each family is in the table.
tune() {
  stage
  (cd "$WORK/run" && PYTHONPATH=$WORK/site:${PYTHONPATH:-} timeout 570 "$(interpreter)" -u \
    tools/tune_kernels.py --seconds 520 --out "$RESULTS/tuned.json" ${TUNE_ARGS:-}) > "$RESULTS/tune.txt" 2>&1
  local status=$?
  tail -5 "$RESULTS/tune.txt"
  DETAIL=$(grep -h "were faster" "$RESULTS/tune.txt" | tail -1)
  return $status
}

status=0
step() {
  local name=$1 start=$SECONDS code=0
  DETAIL=
  printf '\n== %s\n' "$name"
  "$2" || code=$?
  ((code == 0)) || status=1
  record "$name" "$code" "$((SECONDS - start))" "$DETAIL"
}

steps=("$@") more=()
if [ "${1:-}" = all ]; then
  steps=(build smoke test)
  more=(sanitize bench suite examples)
fi
for name in "${steps[@]:-help}"; do
  case "$name" in
    test) step test run_tests ;;
    carry | build | smoke | sanitize | waiting | bench | suite | examples | tune) step "$name" "$name" ;;
    *) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  ((status == 0)) || break
done
for name in "${more[@]}"; do step "$name" "$name"; done

printf '\n%-10s %-8s %7s  %s\n' step result seconds detail
for name in carry build smoke test sanitize waiting bench suite examples tune; do
  [ -f "$RESULTS/$name.json" ] && "$PYTHON" - "$RESULTS/$name.json" <<'EOF'
import json, sys
r = json.load(open(sys.argv[1]))
print(f"{r['step']:10} {'passed' if r['passed'] else 'FAILED':8} {r['seconds']:7}  {r['detail']}")
EOF
done
exit $status
