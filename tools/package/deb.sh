#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the packages of Debian into dist/: treadle-runtime, treadle-compiler, libtreadle-dev.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset package
cmake --build build-package
mkdir -p dist
cpack --config build-package/CPackConfig.cmake -G DEB -B "$PWD/build-package/packages"
cp build-package/packages/*.deb dist/
