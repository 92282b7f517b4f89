#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Python package into .venv from what build/ holds, unless the installed one is as new.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv/.installed-treadle
inputs=(python pyproject.toml cmake build/lib build/bin/treadle build/python)
if [ -f "$stamp" ] && [ -z "$(find -L "${inputs[@]}" -newer "$stamp" -type f -not -name '*.pyc' -print -quit 2>/dev/null)" ]; then
  exit 0
fi
echo "== installing the Python package into .venv" >&2
rm -rf build/wheel
.venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall \
  --config-settings=build-dir=build/wheel --config-settings=cmake.define.TREADLE_PREBUILT="$PWD/build" .
touch "$stamp"
