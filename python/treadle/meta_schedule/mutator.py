# SPDX-License-Identifier: Apache-2.0
"""How candidates differ from the best ones: in one draw."""
from .._refused import refused


def _of_search(name):
    return refused(f"meta_schedule.mutator.{name}", "candidates differ from the best ones in one draw, whichever it is")


MutateComputeLocation, MutateParallel, MutateThreadBinding, MutateTileSize, MutateUnroll = map(_of_search, (
    "MutateComputeLocation", "MutateParallel", "MutateThreadBinding", "MutateTileSize", "MutateUnroll"))
