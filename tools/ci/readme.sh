#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What README.md says, as somebody new does it: a wheel of the build tree, in an environment and a home of their own, from a
# folder that has nothing but the wheel. Each line runs as printed, with the real pip and the package that it names.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work" "$root/build/readme-wheel"' EXIT
.venv/bin/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w "$work/dist" \
  --config-settings=build-dir=build/readme-wheel --config-settings=cmake.define.TREADLE_PREBUILT="$root/build" .
"$(.venv/bin/python -c 'import sys; print(sys.base_prefix)')/bin/python3" -m venv "$work/env"
# The blocks of one language, one after the other.
blocks() {
  awk -v fence="\`\`\`$1" '$0 == "```" {on = 0} on {print} $0 == fence {on = 1}' "$root/README.md"
}
blocks sh >"$work/commands.sh"
blocks python >"$work/program.py"
cd "$work"
alone() {
  env -u PYTHONPATH -u PYTHONHOME -u TREADLE_PYTHON -u TREADLE_CACHE_DIR HOME="$work" PATH="$work/env/bin:/usr/bin:/bin" "$@"
}
alone bash -euxo pipefail commands.sh
alone python program.py
alone treadle --version
alone python -c 'import pathlib, treadle; assert pathlib.Path(treadle.__file__).is_relative_to(pathlib.Path.home()), treadle.__file__'
echo "readme: every line ran"
