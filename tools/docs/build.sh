#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the documentation site into build/site: the pages of docs/ and those that tools/docs/generate.py makes, by
# MkDocs in an environment of its own (build/docs-env). A link that leads nowhere is an error.
set -euo pipefail
cd "$(dirname "$0")/../.."
environment=build/docs-env
if [ "$(cat $environment/.installed 2>/dev/null)" != "$(sha256sum requirements-docs.txt)" ]; then
  .venv/bin/python -m venv $environment
  $environment/bin/python -m pip install -q --disable-pip-version-check --no-deps -r requirements-docs.txt
  sha256sum requirements-docs.txt >$environment/.installed
fi
rm -rf build/site-pages
mkdir -p build/site-pages
cp docs/*.md docs/*.svg build/site-pages
PYTHONPATH=build/python .venv/bin/python tools/docs/generate.py build/site-pages
NO_MKDOCS_2_WARNING=1 $environment/bin/mkdocs build -q --strict -f mkdocs.yml
echo "build/site/index.html"
