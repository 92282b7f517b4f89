// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/trace_key.h"

#include "treadle/ir/structural.h"
#include "treadle/tir/stmt.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {

uint64_t TraceKey(const PrimFunc& func) {
  uint64_t hash = StructuralHash(func);
  auto add = [&hash](char c) { hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U; };  // FNV-1a
  PostOrderVisit(func->body, [&](const ObjectRef& node) {
    const auto* block = node.as<BlockNode>();
    if (block == nullptr) return;
    for (char c : block->name_hint) add(c);
    add('\0');
  });
  return hash;
}

}  // namespace treadle::tir
