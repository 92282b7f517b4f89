# SPDX-License-Identifier: Apache-2.0
"""Rules that make spaces of schedules: one's own, for space_generator.PostOrderApply. Those of the original are what
sketches do."""
from typing import Any

from .._refused import refused


class PyScheduleRule:
    """Base of rules. `apply(sch, block)` gives the schedules that it makes: the one it was given, or copies of it."""

    def apply(self, sch: Any, block: Any) -> Any:
        raise NotImplementedError


ScheduleRule = PyScheduleRule


def _of_sketches(name):
    return refused(f"meta_schedule.schedule_rule.{name}", "sketches inline, tile, vectorise and go to threads by themselves "
                   "(tune_tir without a space); a space of one's own: space_generator.ScheduleFn")


AddRFactor, ApplyCustomRule, AutoBind, AutoInline, CrossThreadReduction, InlineConstantScalars = map(_of_sketches, (
    "AddRFactor", "ApplyCustomRule", "AutoBind", "AutoInline", "CrossThreadReduction", "InlineConstantScalars"))
MultiLevelTiling, MultiLevelTilingWithIntrin, ParallelizeVectorizeUnroll, RandomComputeLocation = map(_of_sketches, (
    "MultiLevelTiling", "MultiLevelTilingWithIntrin", "ParallelizeVectorizeUnroll", "RandomComputeLocation"))
