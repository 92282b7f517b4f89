// SPDX-License-Identifier: Apache-2.0
#include "passes/byoc/annotated_regions.h"

#include <numeric>

#include "passes/pass_util.h"
#include "treadle/ops/attrs/annotation.h"

namespace treadle::relay {
namespace {

constexpr const char* kBegin = "annotation.compiler_begin";
constexpr const char* kEnd = "annotation.compiler_end";

Expr Annotate(const char* op, const Expr& expr, const std::string& compiler) {
  Expr call =
      ops::CallOp(op, {expr}, MakeAttrs<ops::CompilerAttrs>([&](auto& a) { a.compiler = compiler; }), expr->span);
  return WithTypeOf(call, expr.get());
}

}  // namespace

bool IsCompilerBegin(const Expr& expr) { return AsCallOf(expr, kBegin) != nullptr; }
bool IsCompilerEnd(const Expr& expr) { return AsCallOf(expr, kEnd) != nullptr; }
const std::string& CompilerOf(const Expr& annotation) {
  return annotation.as<CallNode>()->attrs_as<ops::CompilerAttrs>()->compiler;
}
Expr MakeCompilerBegin(const Expr& expr, const std::string& compiler) { return Annotate(kBegin, expr, compiler); }
Expr MakeCompilerEnd(const Expr& expr, const std::string& compiler) { return Annotate(kEnd, expr, compiler); }

AnnotatedRegions::AnnotatedRegions(const Expr& body) {
  std::vector<Expr> order;
  std::unordered_map<const Object*, int> index;
  PostOrderVisit(body, [&](const Expr& e) {
    index[e.get()] = static_cast<int>(order.size());
    order.push_back(e);
  });
  std::vector<int> parent(order.size());
  std::iota(parent.begin(), parent.end(), 0);
  auto find = [&](int i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  auto unite = [&](const Expr& a, const Expr& b) { parent[find(index.at(a.get()))] = find(index.at(b.get())); };
  for (const Expr& expr : order) {
    // Scopes and variables don't belong to regions, nor does what is called.
    bool data_flow = expr.as<CallNode>() || expr.as<TupleNode>() || expr.as<TupleGetItemNode>();
    if (!data_flow || IsCompilerBegin(expr)) continue;
    std::vector<Expr> children;
    CollectChildren(expr, &children);
    for (size_t i = expr.as<CallNode>() ? 1 : 0; i < children.size(); ++i) {
      const Expr& child = children[i];
      if (!IsCompilerEnd(child) && (child.as<CallNode>() || child.as<TupleNode>() || child.as<TupleGetItemNode>())) {
        unite(child, expr);
      }
    }
  }
  std::unordered_map<int, int> numbers;  // root -> region
  for (const Expr& expr : order) {
    bool begin = IsCompilerBegin(expr);
    if (!begin && !IsCompilerEnd(expr)) continue;
    auto [it, inserted] = numbers.emplace(find(index.at(expr.get())), static_cast<int>(regions.size()));
    if (inserted) regions.push_back({CompilerOf(expr), {}, {}});
    AnnotatedRegion& region = regions[static_cast<size_t>(it->second)];
    if (region.compiler != CompilerOf(expr)) {
      throw Error(StrCat(expr->span.defined() ? expr->span.str() + ": " : "", "a region annotated for '",
                         region.compiler, "' meets an annotation for '", CompilerOf(expr), "'"));
    }
    (begin ? region.begins : region.ends).push_back(expr);
  }
  for (const Expr& expr : order) {
    auto it = numbers.find(find(index.at(expr.get())));
    if (it != numbers.end()) region_of_[expr.get()] = it->second;
  }
}

int AnnotatedRegions::Find(const Expr& expr) const {
  auto it = region_of_.find(expr.get());
  return it == region_of_.end() ? -1 : it->second;
}

}  // namespace treadle::relay
