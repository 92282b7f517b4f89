# SPDX-License-Identifier: Apache-2.0
"""Building tensor expressions without writing a schedule."""


def build(args, target=None, name="main"):
    """Compiles a computation: `args` are its inputs and results. As treadle.build of that list."""
    from ..build_module import build as build_module

    return build_module(args, target=target, name=name)


def auto_schedule(args, target=None, name="main"):
    """The function of tensors (and scalar variables), scheduled for the target: see treadle.build_module."""
    from ..build_module import auto_schedule as schedule

    return schedule(args, target, name)
