// SPDX-License-Identifier: Apache-2.0
// layout_transform moved behind what doesn't care about the layout.
#pragma once

#include "ops/change_layout.h"
#include "treadle/relay/transform.h"

namespace treadle::relay {

/// `data` in another layout.
inline Expr Transform(const Expr& data, const Layout& from, const Layout& to) {
  return from == to ? data : ops::LayoutTransform(data, from.str(), to.str());
}

/// A copy of attributes of class AttrsT, changed.
template <typename AttrsT, typename Change>
Attrs Changed(const Attrs& attrs, Change&& change) {
  auto copy = MakeObject<AttrsT>(*static_cast<const AttrsT*>(attrs.get()));
  change(*copy);
  return Attrs(ObjectPtr<Object>(copy));
}

/// op(layout_transform(x), ..) becomes layout_transform(op(x, ..)) for element-wise operators, also with operands that
/// are broadcast, for pooling and concatenation; transforms that undo each other vanish.
transform::Pass SinkLayoutTransforms();

}  // namespace treadle::relay
