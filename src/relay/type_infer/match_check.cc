// SPDX-License-Identifier: Apache-2.0
// Which values no clause of a match takes (after Maranget, "Warnings for pattern matching", JFP 2007).
#include <algorithm>
#include <string>
#include <vector>

#include "relay/type_infer/infer.h"
#include "treadle/base/stack_guard.h"

namespace treadle::relay {
namespace {

using Row = std::vector<Pattern>;          // null: matches anything
using Witness = std::vector<std::string>;  // one uncovered pattern for each column

class Checker {
 public:
  explicit Checker(const IRModule& module) : module_(module) {}

  std::vector<Witness> Uncovered(const std::vector<Row>& rows, size_t columns) {
    return WithEnoughStack([&]() -> std::vector<Witness> {
      if (++steps_ > kMaxSteps)
        throw Error("can't tell whether the match handles all cases: there are too many (use match? instead)");
      if (columns == 0) return rows.empty() ? std::vector<Witness>{{}} : std::vector<Witness>();
      for (const Row& row : rows) {
        if (std::none_of(row.begin(), row.end(), [](const Pattern& p) { return p.defined(); })) return {};
      }
      const PatternConstructorNode* constructor = nullptr;
      const PatternTupleNode* tuple = nullptr;
      for (const Row& row : rows) {
        if (constructor == nullptr) constructor = row[0].as<PatternConstructorNode>();
        if (tuple == nullptr) tuple = row[0].as<PatternTupleNode>();
      }
      if (tuple != nullptr) return SplitTuple(rows, columns, tuple->patterns.size());
      if (constructor != nullptr) return SplitConstructors(rows, columns, constructor->constructor);
      std::vector<Row> rest;
      for (const Row& row : rows) rest.emplace_back(row.begin() + 1, row.end());
      return Prefix(Uncovered(rest, columns - 1), 0, "_", "", "");
    });
  }

 private:
  static constexpr int kMaxSteps = 100000;
  static constexpr size_t kMaxWitnesses = 16;

  /// Joins the first `arity` parts of each witness into one: name(part, ..).
  static std::vector<Witness> Prefix(std::vector<Witness> witnesses, size_t arity, const std::string& name,
                                     const std::string& open, const std::string& close) {
    if (witnesses.size() > kMaxWitnesses) witnesses.resize(kMaxWitnesses);
    for (Witness& witness : witnesses) {
      std::string head = name + open;
      for (size_t i = 0; i < arity; ++i) head += (i ? ", " : "") + witness[i];
      head += close;
      witness.erase(witness.begin(), witness.begin() + static_cast<std::ptrdiff_t>(arity));
      witness.insert(witness.begin(), head);
    }
    return witnesses;
  }

  static Row Expand(const Row& row, const Array<Pattern>* inner, size_t arity) {
    Row result;
    for (size_t i = 0; i < arity; ++i) result.push_back(inner != nullptr ? (*inner)[i] : Pattern());
    result.insert(result.end(), row.begin() + 1, row.end());
    return result;
  }

  std::vector<Witness> SplitTuple(const std::vector<Row>& rows, size_t columns, size_t arity) {
    std::vector<Row> rest;
    for (const Row& row : rows) {
      const auto* tuple = row[0].as<PatternTupleNode>();
      if (tuple != nullptr && tuple->patterns.size() != arity) continue;
      rest.push_back(Expand(row, tuple != nullptr ? &tuple->patterns : nullptr, arity));
    }
    return Prefix(Uncovered(rest, columns - 1 + arity), arity, "", "(", arity == 1 ? ",)" : ")");
  }

  std::vector<Witness> SplitConstructors(const std::vector<Row>& rows, size_t columns, const Constructor& seen) {
    std::vector<Witness> all;
    TypeData data = LookupTypeData(module_, seen->belong_to);
    Array<Constructor> constructors = data.defined() ? data->constructors : Array<Constructor>{seen};
    for (const Constructor& constructor : constructors) {
      size_t arity = constructor->inputs.size();
      std::vector<Row> rest;
      for (const Row& row : rows) {
        const auto* head = row[0].as<PatternConstructorNode>();
        if (head != nullptr && (head->constructor->tag != constructor->tag || head->patterns.size() != arity)) continue;
        rest.push_back(Expand(row, head != nullptr ? &head->patterns : nullptr, arity));
      }
      auto found = Prefix(Uncovered(rest, columns - 1 + arity), arity, constructor->name_hint, arity ? "(" : "",
                          arity ? ")" : "");
      all.insert(all.end(), found.begin(), found.end());
      if (all.size() > kMaxWitnesses) break;
    }
    return all;
  }

  const IRModule& module_;
  int steps_ = 0;
};

/// Patterns that match anything become null.
Pattern Normalize(const Pattern& pattern) {
  return pattern->IsInstance<PatternConstructorNode>() || pattern->IsInstance<PatternTupleNode>() ? pattern : Pattern();
}
Pattern NormalizeDeep(const Pattern& pattern) {
  return WithEnoughStack([&]() -> Pattern {
    Pattern p = Normalize(pattern);
    if (const auto* constructor = p.as<PatternConstructorNode>()) {
      return PatternConstructor(constructor->constructor, constructor->patterns.Map(NormalizeDeep));
    }
    if (const auto* tuple = p.as<PatternTupleNode>()) return PatternTuple(tuple->patterns.Map(NormalizeDeep));
    return p;
  });
}

}  // namespace

TypeData LookupTypeData(const IRModule& module, const GlobalTypeVar& header) {
  if (!module.defined()) return TypeData();
  auto data = module->type_definitions.Get(header);
  if (data) return *data;
  auto known = module->global_type_vars.Get(header->name_hint);
  return known ? module->LookupTypeDef(*known) : TypeData();
}

std::vector<std::string> UnmatchedCases(const Match& match, const IRModule& module) {
  std::vector<Row> rows;
  for (const Clause& clause : match->clauses) rows.push_back({NormalizeDeep(clause->lhs)});
  std::vector<std::string> cases;
  for (const Witness& witness : Checker(module).Uncovered(rows, 1)) cases.push_back(witness[0]);
  return cases;
}

}  // namespace treadle::relay
