// SPDX-License-Identifier: Apache-2.0
// What random programs are made with.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "targets/random_programs.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/error.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::testing_random {

using tir::Var;
using Indices = Array<Var>;

inline const DataType kI32 = DataType::Int(32);

inline PrimExpr I(int64_t v) { return PrimExpr(static_cast<int32_t>(v)); }
inline PrimExpr Number(DataType t, int v) { return tir::make_const(t, v); }
inline tir::IterVar Over(const PrimExpr& n, const char* name) { return te::ReduceAxis(tir::Range(n), name); }
inline tir::IterVar Over(int n, const char* name) { return Over(I(n), name); }

/// Collects a program's parameters with random contents.
class Maker {
 public:
  /// `grows`: values may become larger than what floats of 16 bits hold exactly.
  Maker(std::string kind, Random& random, bool grows = false) : random_(random) {
    program_.kind = std::move(kind);
    type = random.Of(Types());
    if (!grows && random.Chance(8)) type = random.Chance(2) ? DataType::Float(16) : DataType::BFloat(16);
    symbolic_ = random.Chance(4);
    if (random.Chance(8)) index_ = DataType::Int(64);
    empty_ = random.Chance(24) && std::getenv("TREADLE_TEST_EMPTY") != nullptr;
  }
  static const std::vector<DataType>& Types() {
    static const std::vector<DataType> types = {kI32,
                                                kI32,
                                                kI32,
                                                DataType::Float(32),
                                                DataType::Float(32),
                                                DataType::Float(64),
                                                DataType::Int(64),
                                                DataType::Int(8),
                                                DataType::Int(16),
                                                DataType::UInt(8),
                                                DataType::UInt(16),
                                                DataType::UInt(32),
                                                DataType::UInt(64)};
    return types;
  }
  /// A dimension of extent `n`: that number or, in one program of four, a variable, which inputs must have. Some
  /// programs count in 64 bits; with TREADLE_TEST_EMPTY in the environment, few have dimensions without elements.
  PrimExpr Dim(int n, const char* name) {
    if (empty_ && random_.Chance(3)) n = 0;
    if (!symbolic_) return IntImm(index_, n);
    Var var(name, index_);
    values_.Set(var, IntImm(index_, n));
    return var;
  }
  /// Of elements, so that sums of a few dozen products of two stay exact.
  int Limit() const { return type.is_bfloat16() ? 1 : type.is_float16() ? 3 : 9; }
  te::Tensor Input(const Array<PrimExpr>& shape, const char* name) {
    return Input(shape, name, type, type.is_uint() ? 0 : -Limit(), Limit());
  }
  te::Tensor Input(const Array<PrimExpr>& shape, const char* name, DataType dtype, int low, int high) {
    te::Tensor t = te::Placeholder(shape, dtype, name);
    program_.params.push_back(t);
    program_.args.push_back(random_.Tensor(Values(shape), dtype, low, high));
    return t;
  }
  Program Output(const Array<te::Tensor>& results) {
    for (const te::Tensor& result : results) {
      program_.params.push_back(result);
      program_.args.push_back(random_.Tensor(Values(result->shape), result->dtype, 0, 9));
    }
    program_.outputs = results.size();
    program_.func = te::CreatePrimFunc(program_.params, "f");
    return program_;
  }
  Program Output(const te::Tensor& result) { return Output(Array<te::Tensor>{result}); }
  DataType type;

 private:
  std::vector<int64_t> Values(const Array<PrimExpr>& shape) const {
    arith::Analyzer analyzer;
    std::vector<int64_t> result;
    for (const PrimExpr& e : shape) result.push_back(*AsConstInt(analyzer.Simplify(tir::Substitute(e, values_))));
    return result;
  }

  Random& random_;
  Program program_;
  bool symbolic_, empty_;
  DataType index_ = kI32;
  Map<Var, PrimExpr> values_;
};

/// Programs of special forms: masks, casts, transposed convolutions, nested gathers, scattering, several outputs ..
const std::vector<Program (*)(Random&)>& SpecialPrograms();

}  // namespace treadle::testing_random
