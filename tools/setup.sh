#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing: the Debian packages of packages.txt and, into .venv, the pinned Python packages of the
# requirements files. Does nothing, quickly, when all is there.
#   tools/setup.sh [system] [python] [bench]     (default: system python)
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

die() {
  echo "setup: $*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -n "$@" 2>/dev/null || sudo "$@"
  else
    die "needs root or sudo to run: $*"
  fi
}

missing_packages() {
  local wanted installed
  wanted=$(grep -v '^#' packages.txt | sort -u)
  installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii *//p' | sort -u)
  comm -23 <(echo "$wanted") <(echo "$installed")
}

setup_system() {
  command -v dpkg-query >/dev/null || {
    echo "setup: not a Debian system; install the equivalents of packages.txt yourself" >&2
    return 0
  }
  local missing
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  say "installing: $(echo $missing)"
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -qq
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
  missing=$(missing_packages)
  [ -z "$missing" ] || die "still missing after apt-get install: $(echo $missing)"
}

# A Python >= 3.11 that can make virtual environments and has its headers: the system's first, then those on PATH.
find_python() {
  local candidate
  for candidate in /usr/bin/python3 python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null && "$candidate" - 2>/dev/null <<'PY'; then
import os, sys, sysconfig, venv, ensurepip
sys.exit(sys.version_info < (3, 11) or not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
PY
      command -v "$candidate"
      return 0
    fi
  done
  die "no Python >= 3.11 with venv and headers found (apt-get install python3-venv python3-dev)"
}

# setup_python FILE: installs the pins of FILE into .venv unless that exact file is installed already.
setup_python() {
  local file=$1 stamp=.venv/.installed-$1 sum python
  sum=$(sha256sum "$file" | cut -d' ' -f1)
  if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ] && .venv/bin/python -c '' 2>/dev/null; then
    return 0
  fi
  if ! [ -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    say "creating .venv with $python"
    rm -rf .venv
    "$python" -m venv .venv
  fi
  say "installing Python packages of $file into .venv"
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps -r "$file"
  echo "$sum" >"$stamp"
}

[ $# -gt 0 ] || set -- system python
for what in "$@"; do
  case $what in
    system) setup_system ;;
    python) setup_python requirements-dev.txt ;;
    bench) setup_python requirements-bench.txt ;;
    *) die "unknown argument '$what' (system, python, bench)" ;;
  esac
done
