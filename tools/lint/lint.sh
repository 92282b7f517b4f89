#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-format and clang-tidy over the C++ files that differ from the main branch (--all: every file), then the checks
# of include and import directions, licence headers, and of what only targets may know.
set -euo pipefail
cd "$(dirname "$0")/../.."

base=$(git merge-base HEAD "$(git rev-parse --verify -q origin/main || git rev-parse --verify -q main || echo HEAD)")
if [ "${1:-}" = --all ]; then
  files=$(git ls-files -- 'src/**/*.cc' 'include/**/*.h' 'src/**/*.h' 'tests/**/*.cc')
else
  files=$( (git diff --name-only --diff-filter=d "$base"; git ls-files -o --exclude-standard) | sort -u |
    grep -E '^(src|include|tests)/.*\.(cc|h)$' || true)
fi

status=0
if [ -n "$files" ]; then
  # shellcheck disable=SC2086
  clang-format-19 --dry-run --Werror $files || status=1
  sources=$(echo "$files" | grep '\.cc$' || true)
  if [ -n "$sources" ]; then
    # shellcheck disable=SC2086
    echo "$sources" | xargs -P "$(nproc)" -n 4 clang-tidy-19 -p build --quiet || status=1
  fi
fi
python=.venv/bin/python
for check in tools/lint/check_*.py; do $python "$check" || status=1; done
[ $status = 0 ] && echo "lint: clean"
exit $status
