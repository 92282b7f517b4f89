# SPDX-License-Identifier: Apache-2.0
"""What sketch rules ask of a state, under the original's names."""
from .compute_dag import get_consumers, matches_elementwise
from .loop_state import State


class _Consumers(dict):
    """Numbers of stages -> offsets; `items()` is a list."""

    def items(self):
        return list(super().items())


def SearchPolicyUtilsGetConsumers(task, state, stage_id):  # noqa: N802
    """Stages that read a stage, through those in line, as a mapping whose keys are their numbers."""
    dag = task.compute_dag
    return _Consumers({index: index for index in get_consumers(dag, State(state, dag), int(stage_id))})


def SearchPolicyUtilsIsElementwiseMatch(task, state, stage_id, target_stage_id):  # noqa: N802
    """Whether all between two stages is elementwise."""
    dag = task.compute_dag
    return matches_elementwise(dag, State(state, dag), int(stage_id), int(target_stage_id))
