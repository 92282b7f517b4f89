// SPDX-License-Identifier: Apache-2.0
// Sums of integer multiples of products of atoms: the normal form of index arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "treadle/arith/analyzer.h"

namespace treadle::arith {

/// coeff * product of factors. An atom is an integer expression that isn't a sum, multiple or constant.
struct Term {
  int64_t coeff = 0;
  std::vector<PrimExpr> factors;  ///< at least one
};

struct LinearForm {
  DataType dtype = DataType::Int(32);
  int64_t constant = 0;
  std::vector<Term> terms;  ///< distinct products, coefficients not zero, in order of first occurrence
  bool overflow = false;    ///< a coefficient didn't fit: the form is of no use

  bool is_const() const { return terms.empty(); }
  static LinearForm Const(DataType dtype, int64_t value);
  static LinearForm Atom(const PrimExpr& atom);
  /// this += other * scale
  void Add(const LinearForm& other, int64_t scale = 1);
  void AddTerm(const Term& term, int64_t scale = 1);
  void Scale(int64_t scale);
  /// Product; nothing where it would get too large.
  static std::optional<LinearForm> Product(const LinearForm& a, const LinearForm& b);
  PrimExpr ToExpr() const;
};

bool SameFactors(const Term& a, const Term& b);

}  // namespace treadle::arith
