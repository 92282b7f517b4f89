// SPDX-License-Identifier: Apache-2.0
#include "treadle/schedule/stage.h"

#include <vector>

namespace treadle::schedule {
namespace {

std::string TextOf(const tir::Block& block, const char* key) {
  auto value = block->annotations.Get(key);
  const auto* text = value ? value->as<StringNode>() : nullptr;
  return text != nullptr ? text->value : "";
}

}  // namespace

Stage StageOf(const tir::Schedule& sch, const tir::BlockRV& block) {
  const tir::Block node = sch.Get(block);
  return {TextOf(node, te::kStageKernel), TextOf(node, te::kStageRole), TextOf(node, te::kStageProblem)};
}

Stages::Stages(tir::Schedule& sch, const tir::BlockRV& anchor) : anchor_(anchor) {
  const Stage own = StageOf(sch, anchor);
  blocks_.emplace(own.role, anchor);
  std::vector<tir::BlockRV> work{anchor};
  while (!work.empty()) {
    const tir::BlockRV block = work.back();
    work.pop_back();
    std::vector<tir::BlockRV> next = sch.GetProducers(block);
    for (const tir::BlockRV& consumer : sch.GetConsumers(block)) next.push_back(consumer);
    for (const tir::BlockRV& other : next) {
      const Stage stage = StageOf(sch, other);
      // Another anchor is another problem of the same kernel.
      if (stage.kernel != own.kernel || stage.is_anchor()) continue;
      if (blocks_.emplace(stage.role, other).second) work.push_back(other);
    }
  }
}

tir::BlockRV Stages::Find(const std::string& role) const {
  auto it = blocks_.find(role);
  return it == blocks_.end() ? tir::BlockRV() : it->second;
}

const tir::BlockRV& Stages::At(const std::string& role) const {
  auto it = blocks_.find(role);
  TREADLE_ICHECK(it != blocks_.end()) << "a kernel without its stage '" << role << "'";
  return it->second;
}

}  // namespace treadle::schedule
