#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds fuzzers and runs each for some seconds, from the corpus of tests/fuzz/corpus/NAME where there is one.
#   tools/ci/fuzz.sh SECONDS [NAME...]     NAME as in tests/fuzz/NAME_fuzz.cc or .py; none: all of them
# Those in Python need the package, and atheris in .venv (pip install atheris==2.3.0).
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=$1
shift
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls ./*_fuzz.cc ./*_fuzz.py | sed -E 's,^\./,,; s,_fuzz\.(cc|py)$,,')

cmake --preset fuzz >/dev/null
targets=()
for name in "$@"; do
  if [ -f "tests/fuzz/${name}_fuzz.cc" ]; then targets+=("treadle_${name}_fuzz"); fi
done
[ ${#targets[@]} -eq 0 ] || cmake --build build-fuzz -j "${JOBS:-$(nproc)}" --target "${targets[@]}"
# First inputs, where the package is built.
seeds=build-fuzz/seeds
if [ -d build/python/treadle ]; then PYTHONPATH=build/python .venv/bin/python tests/fuzz/make_seeds.py "$seeds"; fi
for name in "$@"; do
  new=build-fuzz/corpus/$name
  mkdir -p "$new"
  options=(-max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="build-fuzz/$name-")
  if [ -f "tests/fuzz/$name.dict" ]; then options+=("-dict=tests/fuzz/$name.dict"); fi
  corpus=("$new")
  for folder in "tests/fuzz/corpus/$name" "$seeds/$name"; do
    if [ -d "$folder" ]; then corpus+=("$folder"); fi
  done
  program=("build-fuzz/bin/treadle_${name}_fuzz")
  if [ -f "tests/fuzz/${name}_fuzz.py" ]; then
    program=(env PYTHONPATH=build/python .venv/bin/python "tests/fuzz/${name}_fuzz.py")
    if ! .venv/bin/python -c 'import atheris' 2>/dev/null; then
      echo "== fuzz: $name, not run: .venv has no atheris"
      continue
    fi
  fi
  echo "== fuzz: $name, $seconds seconds"
  "${program[@]}" "${options[@]}" "${corpus[@]}" 2>&1 | tail -n 15
done
