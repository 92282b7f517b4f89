#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the package with the external code generator c off and on (-DUSE_CODEGENC) and checks that `treadle targets` and a
# build with it say so. One tree is switched over, so that only src/external is compiled again: minutes on two cores.
#   BUILD=DIR tools/ci/codegens.sh     default: build, which has it on afterwards
set -euo pipefail
cd "$(dirname "$0")/../.."
jobs=${JOBS:-$(nproc)}
python=${PYTHON:-.venv/bin/python}
build=${BUILD:-build}

for use in OFF ON; do
  cmake --preset release -B "$build" -DUSE_CODEGENC="$use" >/dev/null
  cmake --build "$build" -j "$jobs" --target treadle_package
  PYTHONPATH=$build/python "$python" - "$use" "$build/bin/treadle" <<'PYTHON'
import subprocess
import sys

import numpy as np
import treadle
from treadle import relay

wanted = sys.argv[1] == "ON"
listed = subprocess.run([sys.argv[2], "targets"], check=True, capture_output=True, text=True).stdout
assert ("ccompiler" in listed) == wanted, listed
assert ("ccompiler" in relay.external.list_codegens()) == wanted
x = relay.var("x", shape=(2, 3))
function = relay.Function([x], x * x - x)
try:
    lib = relay.build(function, "llvm", external=["ccompiler"])
    executor = treadle.contrib.graph_executor.GraphModule(lib["default"](treadle.cpu()))
    executor.run(x=np.full((2, 3), 3, "float32"))
    assert wanted and (executor.get_output(0).numpy() == 6).all() and len(lib.get_external_modules()) == 1
except treadle.Error as error:
    assert not wanted and "ccompiler" in str(error), error
print(f"codegens: USE_CODEGENC={sys.argv[1]} builds, and {'has' if wanted else 'lacks'} ccompiler")
PYTHON
done
