# SPDX-License-Identifier: Apache-2.0
# Each target is sufficient alone on a fresh Debian 12 machine (root, or sudo): it installs what is missing first.
SHELL := /bin/bash
PYTHON := .venv/bin/python
JOBS ?= $(shell nproc)
export ORT_DISABLE_TELEMETRY := 1

.PHONY: help setup configure libraries build test cpp-test python-test demo bench docs lint tidy format check-sources nightly \
  clean aarch64 packages readme

help:
	@echo 'make build   build into build/, install the Python package into .venv/'
	@echo 'make test    build, then all tests: ctest and pytest'
	@echo 'make aarch64 the runtime for ARM into build-aarch64/, with which tests run code for ARM under qemu'
	@echo 'make demo    compile a real text recogniser, read a picture with it'
	@echo 'make bench   measure against the installed peers, write build/bench/report.html (ARGS=--quick: shorter)'
	@echo 'make docs    the documentation site, build/site/index.html'
	@echo 'make readme  each line of README.md with a wheel of the build tree, in a fresh environment and home'
	@echo 'make packages wheels and Debian packages into dist/, each tried where nothing else is (PYTHON=python3.12: abi3)'
	@echo 'make lint    clang-format, clang-tidy (changed files; ALL=1: every file), include directions, licence headers'
	@echo 'make tidy    clang-tidy, every file (FILES=...: these)'
	@echo 'make format  format the C++ sources in place'
	@echo 'make nightly what CI has no time for: gcc, sanitizers over all C++ tests, fuzzers (FUZZ_SECONDS=600 each), clang-tidy'
	@echo 'make clean   remove build trees (not .venv)'

setup:
	@tools/setup.sh system python

configure: setup
	@if [ ! -f build/build.ninja ]; then cmake --preset release; fi

libraries: configure
	cmake --build build --target treadle_package -j $(JOBS)

build: libraries
	@tools/install_python.sh

aarch64: setup
	@if [ ! -f build-aarch64/build.ninja ]; then cmake --preset aarch64; fi
	cmake --build build-aarch64 -j $(JOBS)

test: build aarch64
	cmake --build build -j $(JOBS)
	@status=0; \
	ctest --test-dir build --output-on-failure -j $(JOBS) || status=1; \
	$(PYTHON) -m pytest -q tests/python tests/rows || status=1; \
	exit $$status

cpp-test: build
	cmake --build build -j $(JOBS)
	ctest --test-dir build --output-on-failure -j $(JOBS)

python-test: build aarch64
	$(PYTHON) -m pytest -q tests/python tests/rows

demo: build
	$(PYTHON) examples/ocr/demo.py

bench: build
	@tools/setup.sh bench
	$(PYTHON) bench/run.py --html build/bench/report.html --json build/bench/results.json $(ARGS)

docs: build
	tools/docs/build.sh

readme: libraries
	tools/ci/readme.sh

packages: libraries
	tools/ci/packages.sh

lint: configure
	@tools/lint/lint.sh $(if $(ALL),--all)

tidy: configure
	@echo $(or $(FILES),$$(git ls-files 'src/*.cc' 'tests/*.cc')) | xargs -P $(JOBS) -n 1 clang-tidy-19 -p build --quiet

format:
	git ls-files '*.cc' '*.h' '*.c' | xargs clang-format-19 -i

# What can be said of the sources without compiling them.
check-sources: setup
	git ls-files '*.cc' '*.h' '*.c' | xargs clang-format-19 --dry-run --Werror
	@for check in tools/lint/check_*.py; do $(PYTHON) $$check || exit 1; done
	@if $(PYTHON) -c 'import mypy' 2>/dev/null; then $(PYTHON) -m mypy --cache-dir build/mypy; else echo 'mypy: not installed'; fi

nightly: libraries
	cmake --preset gcc && cmake --build build-gcc -j $(JOBS)
	for folder in base runtime ir tir; do \
	  (cd build-gcc/tests && ../bin/treadle_$${folder}_test --gtest_brief=1) || exit 1; \
	done
	cmake --build build -j $(JOBS)
	tools/ci/locale.sh
	tools/ci/sanitize.sh asan
	tools/ci/sanitize.sh tsan
	tools/ci/fuzz.sh $(or $(FUZZ_SECONDS),600)
	PYTHONPATH=build/python $(PYTHON) tools/hostile_models.py
	PYTHONPATH=build/python $(PYTHON) tools/mutate_models.py --minutes 60
	PYTHONPATH=build/python $(PYTHON) tools/mutate_models.py --artefacts --minutes 15
	PYTHONPATH=build/python $(PYTHON) tools/mutate_models.py --calls --minutes 30
	PYTHONPATH=build/python $(PYTHON) tools/fuzz_onnx.py --minutes 60
	PYTHONPATH=build/python $(PYTHON) tools/fuzz_onnx.py --mixed --minutes 30
	PYTHONPATH=build/python $(PYTHON) tools/fuzz_onnx.py --operators --minutes 30
	PYTHONPATH=build/python $(PYTHON) tools/fuzz_onnx.py --sizes --minutes 30
	PYTHONPATH=build/python TREADLE_STRESS=10 $(PYTHON) -m pytest -q tests/python/test_threads.py
	PYTHONPATH=build/python $(PYTHON) tools/onnx_suite.py --check
	PYTHONPATH=build/python TREADLE_GUARD_MEMORY=1 $(PYTHON) tools/onnx_suite.py --check --symbolic
	PYTHONPATH=build/python $(PYTHON) bench/soak.py
	tools/ci/codegens.sh
	tools/ci/torch.sh
	PYTHONPATH=build/python $(PYTHON) tools/ci/dropin.py
	$(MAKE) packages
	$(MAKE) tidy

clean:
	rm -rf build build-*
