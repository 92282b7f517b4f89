#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheels and Debian packages into dist/ and tries each in a root directory with nothing but glibc, libstdc++
# and Python in it (needs root); the development package by building a C program against it.
#   PYTHON=python3.12 tools/ci/packages.sh [wheel] [runtime] [deb]     (default: all, and .venv's Python)
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- wheel runtime deb
python=${PYTHON:-.venv/bin/python}
model='<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
.venv/bin/python -c 'import sys, onnx.parser; onnx.save(onnx.parser.parse_model(sys.argv[1]), sys.argv[2])' "$model" "$work/relu.onnx"

# What there is of a file's package or interpreter, under the same path in another root.
copy_into() {
  local root=$1 file
  while read -r file; do
    [ -f "$file" ] || continue
    mkdir -p "$root$(dirname "$file")"
    cp -nL "$file" "$root$file"
  done
}

# A root directory with glibc, libstdc++, this Python and the model; /packages is on Python's path.
bare_root() {
  local root=$1 prefix
  prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
  mkdir -p "$root"/{usr/lib,usr/lib64,usr/bin,proc,tmp,packages} "$root$prefix/lib"
  [ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
  [ -e "$root/lib64" ] || ln -s usr/lib64 "$root/lib64"
  dpkg -L libc6 libstdc++6 libgcc-s1 | grep '\.so' | copy_into "$root"
  cp -rL "$prefix"/lib/python3* "$root$prefix/lib/"
  "$python" -c 'import os, sys; print(os.path.realpath(sys.executable))' | copy_into "$root"
  # What the interpreter and its modules link; ldd fails for files that aren't dynamic.
  { find "$root$prefix"/lib/python3* "$root$prefix"/bin/python3* -name '*.so*' -o -path '*/bin/python3*' -type f |
    { xargs ldd 2>/dev/null || true; }; } | awk '/=> \//{print $3}' | grep -v "^$root" | sort -u | copy_into "$root"
  ln -s "$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')" "$root/python3"
  cp "$work/relu.onnx" "$root/"
  if find "$root" -name 'libLLVM*' -o -name 'libfmt*' | grep -q .; then
    echo "packages: the bare root isn't bare" >&2
    exit 1
  fi
}

# Runs a command there: with /proc, which the loader asks where a program is.
in_root() {
  # shellcheck disable=SC2016
  PYTHONPATH=/packages unshare --mount bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$@"
}

for what in "$@"; do
  root=$work/$what
  case $what in
    wheel)
      PYTHON=$python tools/package/wheel.sh
      bare_root "$root"
      "$python" -m pip install -q --disable-pip-version-check --no-warn-conflicts --target "$root/packages" \
        "$(ls -t dist/treadle-[0-9]*.whl | head -1)"
      in_root "$root" /python3 -c 'import treadle
model = treadle.compile("/relu.onnx"); print(treadle.__version__, model(x=[-1, 2])); model.save("/relu.so")
import treadle.onnxruntime as ort; print(ort.InferenceSession("/relu.onnx").run(None, {"x": [-1, 2]}))'
      in_root "$root" /packages/treadle/bin/treadle --version
      grep -q 'LLVM Exceptions' "$root/packages/treadle/THIRD_PARTY_LICENCES.txt"
      in_root "$root" /packages/treadle/bin/treadle run /relu.so -i x=ones
      in_root "$root" /packages/treadle/bin/treadle report /relu.onnx -o /relu.html
      ;;
    runtime)
      PYTHON=$python tools/package/wheel.sh runtime
      bare_root "$root"
      "$python" -m pip install -q --disable-pip-version-check --no-warn-conflicts --target "$root/packages" \
        "$(ls -t dist/treadle_runtime-*.whl | head -1)"
      build/bin/treadle compile "$work/relu.onnx" -o "$root/relu.so"
      in_root "$root" /python3 -c 'import treadle_runtime as t
model = t.load("/relu.so"); print(t.version(), model.inputs, model(x=[-1, 2])); assert model(x=[-1, 2])["y"].tolist() == [0, 2]
try: model(x=[1, 2, 3])
except t.Error as refused: print(refused.kind, refused); assert refused.kind == "ShapeError"
else: raise SystemExit("a wrong shape was accepted")'
      ;;
    deb)
      tools/package/deb.sh
      bare_root "$root"
      for package in dist/*.deb; do dpkg-deb -x "$package" "$root"; done
      for package in treadle-runtime treadle-compiler libtreadle-dev; do
        grep -q 'Apache License' "$root/usr/share/doc/$package/copyright"
      done
      grep -q '^.TH treadle.*-run ' "$root/usr/share/man/man1/treadle-run.1"
      in_root "$root" /usr/bin/treadle --version
      in_root "$root" /usr/bin/treadle compile /relu.onnx -o /relu.so
      in_root "$root" /usr/bin/treadle run /relu.so -i x=ones
      cp examples/c_inference/main.c "$work/"
      cp "$work/relu.onnx" "$work/model.onnx"
      cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(outside C CXX)
find_package(treadle REQUIRED)
add_executable(reader main.c)
treadle_add_model(reader model.onnx)
CMAKE
      cmake -S "$work" -B "$work/out" -DCMAKE_PREFIX_PATH="$root/usr" >/dev/null
      cmake --build "$work/out"
      "$work/out/reader" "$(find "$work/out" -name 'model.so')" | tail -1
      PKG_CONFIG_PATH=$(dirname "$(find "$root" -name treadle-runtime.pc)") pkg-config --cflags --libs treadle-runtime
      ;;
    *)
      echo "packages: unknown argument '$what' (wheel, runtime, deb)" >&2
      exit 2
      ;;
  esac
done
