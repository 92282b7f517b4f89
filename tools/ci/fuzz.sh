#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds fuzzers and runs each for some seconds, from the corpus of tests/fuzz/corpus/NAME where there is one.
#   tools/ci/fuzz.sh SECONDS [NAME...]     NAME as in tests/fuzz/NAME_fuzz.cc; none: all of them
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=$1
shift
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls ./*_fuzz.cc | sed 's,^\./,,; s,_fuzz\.cc$,,')

cmake --preset fuzz >/dev/null
targets=()
for name in "$@"; do targets+=("treadle_${name}_fuzz"); done
cmake --build build-fuzz -j "${JOBS:-$(nproc)}" --target "${targets[@]}"
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
  echo "== fuzz: $name, $seconds seconds"
  "build-fuzz/bin/treadle_${name}_fuzz" "${options[@]}" "${corpus[@]}" 2>&1 | tail -n 15
done
