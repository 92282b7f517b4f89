// SPDX-License-Identifier: Apache-2.0
// Code of the interpreter of graph IR: each function becomes blocks of instructions over numbered slots.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "treadle/ir/module.h"
#include "treadle/relay/expr.h"

namespace treadle::driver {

struct Instruction {
  enum class Kind {
    kConstant,    ///< dst = object
    kGlobal,      ///< dst = the function, operator or constructor `object`
    kTuple,       ///< dst = (args)
    kField,       ///< dst = args[0].index
    kOperator,    ///< dst = operator of the call `object` on args
    kConstruct,   ///< dst = constructor of the call `object` on args
    kCallGlobal,  ///< dst = global function of the call `object` on args
    kCall,        ///< dst = args[0] on args[1..]
    kClosure,     ///< dst = function literal `index` with what it captures
    kIf,          ///< dst = block `index` or `index` + 1, by args[0]
    kMatch,       ///< dst = the arm of `object` that takes args[0]; arms are blocks from `index` on
    kRefCreate,
    kRefRead,
    kRefWrite,
  };
  Kind kind;
  int dst = 0;
  int index = 0;
  std::vector<int> args;
  relay::Expr object;
};

struct Block {
  std::vector<Instruction> instructions;
  int result = 0;  ///< slot
};

struct Code {
  relay::Function source;
  int slots = 0;
  int self = -1;  ///< slot of the closure itself, where a function that a let binds calls itself
  std::vector<int> params;
  std::vector<std::pair<int, int>> captures;            ///< slot outside, slot inside
  std::vector<Block> blocks;                            ///< [0]: the body
  std::unordered_map<const Object*, int> pattern_vars;  ///< identity of a variable -> slot
};

/// All code of an interpreter; grows as functions are first called.
class CodeTable {
 public:
  /// Adds the code of a closed function and of the function literals in it; returns its number.
  int Add(const relay::Function& func);
  const Code& operator[](int i) const { return *codes_[static_cast<size_t>(i)]; }

 private:
  friend class CodeBuilder;
  std::vector<std::unique_ptr<Code>> codes_;
};

}  // namespace treadle::driver
