// SPDX-License-Identifier: Apache-2.0
// C whose parallel loops run on the runtime's threads.
#pragma once

#include <sstream>
#include <string>

#include "treadle/targets/c_writer.h"

namespace treadle::targets {

/// Each parallel loop becomes a static function that runs a range of its iterations, which the runtime calls from
/// several threads; without a runtime it is called once, for all. Loops inside of parallel ones are serial.
class ThreadedCWriter final : public CWriter {
 public:
  /// `name`: what the functions' names begin with.
  explicit ThreadedCWriter(std::string name) : name_(std::move(name)) {}
  std::string functions() const override { return functions_.str(); }

 protected:
  using CWriter::VisitStmt_;
  std::string Declare(const tir::Var& v, bool restrict_pointer) override;
  void VisitStmt_(const tir::ForNode* op) override;

 private:
  std::string name_;
  std::ostringstream functions_;
  int loops_ = 0;
  std::unordered_set<const tir::VarNode*> restrict_;
};

}  // namespace treadle::targets
