// SPDX-License-Identifier: Apache-2.0
// Stages: what each computation of a kernel is for. A kernel's tensor expressions say so in their attributes, which
// become annotations of the blocks; schedules find blocks by them, however names change.
#pragma once

#include <map>
#include <string>

#include "treadle/ir/attrs.h"
#include "treadle/schedule/plan.h"
#include "treadle/te/stage.h"
#include "treadle/tir/schedule.h"

namespace treadle::schedule {

using te::AnchorAttrs;
using te::StageAttrs;

/// The stage that a block is; empty texts where it is none.
struct Stage {
  std::string kernel, role;
  std::string problem;  ///< JSON; of anchors only
  bool is_anchor() const { return !problem.empty() || role == te::kAnchor; }
};
Stage StageOf(const tir::Schedule& sch, const tir::BlockRV& block);

/// The stages of one kernel around its anchor.
class Stages {
 public:
  /// Follows producers and consumers of the same kernel from `anchor`.
  Stages(tir::Schedule& sch, const tir::BlockRV& anchor);
  const tir::BlockRV& anchor() const { return anchor_; }
  bool Has(const std::string& role) const { return blocks_.count(role) != 0; }
  /// The block of that role; null where there is none.
  tir::BlockRV Find(const std::string& role) const;
  /// The block of that role, which must exist.
  const tir::BlockRV& At(const std::string& role) const;
  /// Says that the kernel schedules this block, too: what follows its last stage.
  void Take(const tir::BlockRV& block) { blocks_[block->name] = block; }
  /// All blocks that the kernel schedules.
  const std::map<std::string, tir::BlockRV>& blocks() const { return blocks_; }

 private:
  tir::BlockRV anchor_;
  std::map<std::string, tir::BlockRV> blocks_;
};

}  // namespace treadle::schedule
