# SPDX-License-Identifier: Apache-2.0
"""Building under TVM's names: tvm.driver.build_module, and tvmc's functions for Python."""
from ..build_module import build, lower, schedule_to_module
from . import tvmc

__all__ = ["build", "lower", "schedule_to_module", "tvmc"]
