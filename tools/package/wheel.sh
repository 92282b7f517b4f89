#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel into dist/, named for the glibc that it asks for: of `treadle` with LLVM inside, for the Python given by
# PYTHON (default: .venv's; 3.12 or later makes the abi3 one), or with the argument `runtime` of `treadle-runtime`.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
source=.
build=build-wheel
if [ "${1:-}" = runtime ]; then
  source=packaging/runtime
  build=build-wheel-runtime
fi
environment=build/package-env-$("$python" -c 'import sys; print(*sys.version_info[:2], sep=".")')
if ! [ -x "$environment/bin/python" ]; then
  "$python" -m venv "$environment"
  "$environment/bin/python" -m pip install -q --disable-pip-version-check scikit-build-core==1.1.2 nanobind==3.1.0 \
    vl-convert-python==1.9.0.post1 netron==9.3.3 packaging==26.3 pathspec==1.1.1 wheel==0.47.0
fi
rm -rf build/wheels
"$environment/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/wheels \
  --config-settings=build-dir="$PWD/$build" --config-settings=cmake.define.Python_EXECUTABLE="$PWD/$environment/bin/python" \
  "$source"
mkdir -p dist
tools/package/tag_wheel.py "$environment/bin/python" build/wheels/*.whl dist
