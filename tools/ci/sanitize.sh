#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the C++ tests with a sanitizer and runs them.
#   tools/ci/sanitize.sh asan|tsan [FOLDER...]     folders of tests, such as `base runtime tir`; none: all of them
set -euo pipefail
cd "$(dirname "$0")/../.."
preset=$1
shift
build=build-$preset
jobs=${JOBS:-$(nproc)}

cmake --preset "$preset" >/dev/null
if [ $# = 0 ]; then
  cmake --build "$build" -j "$jobs"
  ctest --test-dir "$build" --output-on-failure -j "$jobs"
  exit
fi
targets=()
for folder in "$@"; do targets+=("treadle_${folder}_test"); done
cmake --build "$build" -j "$jobs" --target "${targets[@]}"
# Not through ctest, which counts the tests of programs that aren't built as failed.
for target in "${targets[@]}"; do
  echo "== $preset: $target"
  (cd "$build/tests" && "../bin/$target" --gtest_brief=1)
done
