// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/vm/values.h"

namespace treadle::runtime {

TREADLE_DEFINE_NODE(AdtValueNode);
TREADLE_DEFINE_NODE(VmClosureNode);
TREADLE_DEFINE_NODE(RefValueNode);

}  // namespace treadle::runtime
