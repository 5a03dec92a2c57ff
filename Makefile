# `make demo` and `make test` do everything on a fresh machine: each makes .venv, installs what is
# needed (this package too) and runs.  A second call is quick: stamp files say what is done.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
# Triton's wheel brings a cuda.h; abi_test compares our declarations with it.
CUDA_INCLUDE ?= $(firstword $(wildcard $(VENV)/lib/python3*/site-packages/triton/backends/nvidia/include))

# The package is installed editable, so a changed Python file needs no new install; a changed C++
# file, or a Python file that came or went, does.
NATIVE  := CMakeLists.txt pyproject.toml $(shell find src -type f \( -name '*.cpp' -o -name '*.h' \))
MODULES := $(shell find tritorch kernels examples \( -name '*.py' -o -name '*.pyi' \) | LC_ALL=C sort)
CPP     := $(shell find src tests/cpp bench/cpp \( -name '*.cpp' -o -name '*.h' \) 2>/dev/null)

.PHONY: help demo judge-archives judge-archive-attacks judge-types judge-torch-tests test test-all test-oldest lint format bench cpp-test cpp-asan cpp-tsan package clean FORCE
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.package  ## install into .venv, report, train a small GPT and let it write
	$(BIN)/python -m tritorch demo --out build/demo

test: $(VENV)/.package $(VENV)/.test-tools  ## install into .venv and run the tests, but for the slow tier
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests $(PYTEST_ARGS)

test-all:  ## install into .venv and run every test
	$(MAKE) test PYTEST_ARGS='--slow $(PYTEST_ARGS)'

# The GPU machines have the oldest Triton that is supported, on a newer Python: an environment and a
# build of their own.  Kernels are compiled for their GPU; `make test` compiles for the others.
TARGETS ?= 90
test-oldest:  ## what launches and compiles, with Triton 3.6.0 on Python 3.12
	@python=$$(tools/find_python.sh 3.12) || { echo "test-oldest needs Python 3.12"; exit 1; }; \
	TRITORCH_COMPILE_TARGETS=$(TARGETS) \
	$(MAKE) VENV=.venv-py312 PYTHON="$$python" TRITON=3.6.0 test \
	  PYTEST_ARGS='--slow -m "device or compile" $(PYTEST_ARGS)'

lint: $(VENV)/.dev-tools  ## ruff, mypy on the public package, clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CPP)

format: $(VENV)/.dev-tools  ## rewrite the sources as lint wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

bench: $(VENV)/.package build/cpp/.built  ## what the host pays: import, launch, allocation
	$(BIN)/python bench/host_overhead.py
	@for program in $(basename $(notdir $(wildcard bench/cpp/*.cpp))); do build/cpp/$$program || exit 1; done

judge-accuracy: $(VENV)/.package  ## errors of functions and reductions beside PyTorch's, on both devices
	$(PIP) install mpmath
	$(BIN)/python tools/accuracy_sweep.py $(CASES)

judge-archives: $(VENV)/.package  ## TorchScript archives both ways; TORCH=a Python with torch and its libraries REPORTS=folder
	$(BIN)/python tools/compare/archives.py --torch $(TORCH) --folder $(REPORTS)

judge-quantized-models: $(VENV)/.package  ## 20 quantized models beside PyTorch; TORCH=a Python with torch REPORTS=folder
	$(BIN)/python tools/compare/quantized_models.py --torch $(TORCH) --folder $(REPORTS)

judge-archive-attacks: $(VENV)/.package  ## 100,000 damaged and hostile TorchScript archives
	$(BIN)/python tools/fuzz_archives.py --count 100000

judge-interrupts: $(VENV)/.package  ## interrupts training loops at every place a Ctrl-C can arrive
	$(BIN)/python tools/judge_interrupts.py --most 2500 --cold 200 --timed 200

judge-numpy-only: $(VENV)/.package $(VENV)/.test-tools  ## operators, modules, optimizers and gradients by NumPy alone
	TRITORCH_NUMPY_ONLY=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/ops tests/nn tests/optim tests/autograd

judge-torch-tests: $(VENV)/.package  ## PyTorch's own tests; TORCH=a Python with torch TESTS=trees REPORTS=folder
	$(TORCH) tools/judge_torch_tests.py --site $(wildcard $(VENV)/lib/python*/site-packages) \
	  --reports $(REPORTS) --tests $(TESTS)

judge-types: $(VENV)/.dev-tools  ## mypy, pyright and jedi on the examples and on planted mistakes
	$(PIP) install pyright jedi
	$(BIN)/python tools/judge_types.py

cpp-test: build/cpp/.built  ## the C++ tests
	$(call run-cpp,build/cpp,)

cpp-asan: build/asan/.built  ## the C++ tests under AddressSanitizer and UBSan
	$(call run-cpp,build/asan,)

cpp-tsan: build/tsan/.built  ## the threaded C++ tests under ThreadSanitizer
	$(call run-cpp,build/tsan,-R _stress)

package: $(VENV)/.dev-tools  ## an sdist, and a wheel built from it, in dist/
	rm -rf dist && $(BIN)/python -m build --outdir dist .

clean:  ## remove what make made
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache

# -- the environment -------------------------------------------------------------------------------

PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet

$(VENV)/.venv:
	@echo "Making an environment in $(VENV)"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tritorch needs Python 3.11 or later: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	touch $@

# Build tools live in .venv, so that rebuilding is incremental and asks no index.
$(VENV)/.build-tools: $(VENV)/.venv pyproject.toml
	@echo "Installing build tools: CMake, Ninja, nanobind"
	$(PIP) install 'scikit-build-core>=0.10' 'nanobind>=2.0' cmake ninja $(if $(TRITON),triton==$(TRITON))
	touch $@

$(VENV)/.modules: FORCE | $(VENV)/.venv
	@echo '$(MODULES)' | cmp -s - $@ || echo '$(MODULES)' > $@

$(VENV)/.package: $(VENV)/.build-tools $(VENV)/.modules $(NATIVE)
	@echo "Building tritorch: $(words $(filter %.cpp,$(NATIVE))) C++ files, some minutes the first time"
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --no-build-isolation -C build-dir=build/module$(patsubst .venv%,%,$(VENV)) -e .
	touch $@

$(VENV)/.test-tools: $(VENV)/.venv pyproject.toml
	@echo "Installing what tests need"
	$(PIP) install $$($(call extra,test))
	touch $@

$(VENV)/.dev-tools: $(VENV)/.package $(VENV)/.test-tools
	@echo "Installing ruff, mypy and other tools"
	$(PIP) install $$($(call extra,dev))
	touch $@

# The requirements of one extra, read from pyproject.toml.
extra = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$(1)"])'

# -- C++ -------------------------------------------------------------------------------------------

sanitizer-asan := address
sanitizer-tsan := thread

build/%/.built: $(VENV)/.build-tools FORCE
	@mkdir -p build && PATH="$(CURDIR)/$(BIN):$$PATH" && \
	cmake -S . -B build/$* -G Ninja -DTRITORCH_CPP_TESTS=ON -DTRITORCH_SANITIZE=$(sanitizer-$*) \
	  -DTRITORCH_CUDA_INCLUDE='$(CUDA_INCLUDE)' > build/$*.log || { cat build/$*.log; exit 1; } && \
	cmake --build build/$* -j $(JOBS)

define run-cpp
PATH="$(CURDIR)/$(BIN):$$PATH" UBSAN_OPTIONS=print_stacktrace=1 \
  ctest --test-dir $(1) --output-on-failure --no-tests=error $(2)
endef
