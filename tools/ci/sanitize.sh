#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the C++ tests with a sanitizer and runs them.
#   tools/ci/sanitize.sh asan|tsan [FOLDER...]     folders of tests, such as `base runtime tir`; none: all of them
# Does nothing but say so on machines that can't run such programs (ThreadSanitizer where containers may not change the
# layout of memory); looks for leaks where that is allowed.
set -euo pipefail
cd "$(dirname "$0")/../.."
preset=$1
shift
build=build-$preset
jobs=${JOBS:-$(nproc)}

probe() {
  echo 'int main() { return 0; }' >"$build/probe.cc"
  clang++-19 "-fsanitize=$1" "$build/probe.cc" -o "$build/probe" && "$build/probe" >/dev/null 2>&1
}

cmake --preset "$preset" >/dev/null
case $preset in
  asan)
    if ! probe address; then
      export ASAN_OPTIONS=detect_leaks=0
      echo "sanitize: this machine doesn't let programs look for leaks"
    fi
    ;;
  tsan)
    if ! probe thread; then
      echo "sanitize: skipped, this machine doesn't run programs with ThreadSanitizer"
      exit 0
    fi
    ;;
esac
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
