#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests in processes that a German user has: LC_ALL is de_DE.UTF-8, and the C locale and C++'s global one are set by it
# before anything else, so that numbers have a decimal comma and grouped digits wherever a locale is asked.
#   tools/ci/locale.sh [TEST...]    C++ tests by program (runtime) or Python's by file; none: all that is built
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$PWD/build/locale
mkdir -p "$folder"
if [ ! -d "$folder/de_DE.UTF-8" ] && ! localedef --no-archive -i de_DE -f UTF-8 "$folder/de_DE.UTF-8"; then
  echo "locale: not run, as de_DE can't be made (Debian's package locales has what it takes)"
  exit 0
fi
cat > "$folder/set.cc" <<'SOURCE'
#include <clocale>
#include <locale>
namespace {
const bool set = [] {
  const bool known = std::setlocale(LC_ALL, "") != nullptr;  // throws below if it isn't
  std::locale::global(std::locale(""));
  return known;
}();
}  // namespace
SOURCE
c++ -shared -fPIC "$folder/set.cc" -o "$folder/set.so"
german() { env "LOCPATH=$folder" LC_ALL=de_DE.UTF-8 "LD_PRELOAD=$folder/set.so" "$@"; }

if [ "$(german printf '%.1f' 0,5)" != 0,5 ]; then
  echo "locale: de_DE doesn't take effect" >&2
  exit 1
fi
[ $# -gt 0 ] || set -- $(ls build/bin | sed -n 's/^treadle_\(.*\)_test$/\1/p') tests/python
status=0
for name in "$@"; do
  echo "== de_DE: $name"
  if [ -e "$name" ]; then
    PYTHONPATH=build/python german .venv/bin/python -m pytest -q "$name" || status=1
  else
    (cd build/tests && german "../bin/treadle_${name}_test" --gtest_brief=1) || status=1
  fi
done
exit $status
