# SPDX-License-Identifier: Apache-2.0
"""TopHub's names. There are no packages of logs to download: the kernels' cost models know plans for each machine."""
from __future__ import annotations

import sys as _sys
from collections.abc import Sequence
from typing import Any

from .._refused import refuse_names
from .env import ApplyHistoryBest, FallbackContext


def context(target: Any, extra_files: Sequence[Any] | None = None) -> Any:
    """A context with the fastest configurations of logs (`extra_files`); without any, templates and builds have their
    defaults."""
    return ApplyHistoryBest(list(extra_files)) if extra_files else FallbackContext()


refuse_names(_sys.modules[__name__], "autotvm.tophub", {
    "check_backend download_package load_reference_log PACKAGE_VERSION AUTOTVM_TOPHUB_ROOT_PATH":
        "there are no packages of logs to download; the kernels' cost models know plans for each machine, and "
        "treadle tune finds better ones"})
