#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests treadle.from_torch and the backend of torch.compile against build/, in an environment of their own
# (build/torch-env: about 1 GB), as PyTorch is too large a dependency for `make test`.
set -euo pipefail
cd "$(dirname "$0")/../.."
environment=build/torch-env
if ! [ -x $environment/bin/python ]; then
  .venv/bin/python -m venv $environment
  $environment/bin/python -m pip install -q --disable-pip-version-check torch==2.15.0 onnxscript==0.7.2 onnx==1.23.2 ml_dtypes==0.6.0 \
    pytest==9.2.0 pytest-timeout==2.4.0
fi
PYTHONPATH=build/python $environment/bin/python -m pytest -q tests/torch
PYTHONPATH=build/python $environment/bin/python -m pytest -q tests/python/test_docs.py -k pytorch
