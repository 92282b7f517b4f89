# SPDX-License-Identifier: Apache-2.0
"""Names that have no counterpart, each with what to use instead."""
from .._refused import refused

_STRATEGY = "what an operator is computed by is its strategy (relay.op.strategy, docs/add-a-kernel.md)"

register_topi_compute = refused("autotvm.register_topi_compute", _STRATEGY)
register_topi_schedule = refused("autotvm.register_topi_schedule", _STRATEGY)
ApplyFixedConfig = refused("autotvm.ApplyFixedConfig", "ApplyConfig(config) gives one configuration to all templates")
create_measure_batch = refused("autotvm.create_measure_batch", "tuner.tune(.., measure_option=) builds and measures")
