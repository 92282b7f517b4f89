// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/constant_operands.h"

#include "treadle/base/error.h"
#include "treadle/runtime/scalar.h"

namespace treadle::relay {

void CheckConstantOperand(const CallNode* call, size_t arg, const char* name,
                          const std::function<int64_t(int64_t)>& limit) {
  const std::string place = call->span.defined() ? StrCat(call->span.str(), ": ") : "";
  const std::string where = StrCat("'", name, "' of ", call->op.as<OpNode>()->name);
  const auto* constant = call->args[arg].as<ConstantNode>();
  if (constant == nullptr) throw ShapeError(StrCat(place, where, " has to be a constant"));
  if (!constant->data.dtype().is_integral()) throw ShapeError(StrCat(place, where, " has to be integers"));
  const std::vector<int64_t> values = runtime::ToInt64s(constant->data);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t end = limit(static_cast<int64_t>(i));
    if (values[i] >= 0 && values[i] < end) continue;
    throw ShapeError(StrCat(place, "element ", i, " of ", where, " is ", values[i], ", not from 0 to ", end - 1));
  }
}

}  // namespace treadle::relay
