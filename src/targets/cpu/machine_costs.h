// SPDX-License-Identifier: Apache-2.0
// The machines that cost models know.
#pragma once

#include "treadle/schedule/machine.h"

namespace treadle::ops::cpu {

/// Features of the target, with the costs of its processor: of a calibration in the pass context (-mcpu=native), else
/// of the model of -mcpu, of what native is, too (machine_models.h), where there is one, else those that fit most.
schedule::Machine MachineOf(const Target& target);

/// Of vectors of 256 bits, for passes that run without a target.
schedule::Machine GenericMachine();

}  // namespace treadle::ops::cpu
