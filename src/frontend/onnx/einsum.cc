// SPDX-License-Identifier: Apache-2.0
// Einstein summation: two operands as a batch of matrix products, others by broadcasting and summing.
#include <algorithm>
#include <map>
#include <set>

#include "frontend/onnx/matmul.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// Labels of operands and result. Dimensions that an ellipsis stands for have the labels '0', '1', ... from the last.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

std::string ExpandEllipsis(NodeImport& n, const std::string& term, int rank) {
  size_t dots = term.find("...");
  if (dots == std::string::npos) {
    if (static_cast<int>(term.size()) != rank)
      n.Invalid(StrCat("term ", QuoteName(term), " is for another rank than ", rank));
    return term;
  }
  int missing = rank - static_cast<int>(term.size() - 3);
  if (missing < 0 || missing > 9) n.Invalid(StrCat("term ", QuoteName(term), " doesn't fit rank ", rank));
  std::string labels;
  for (int i = missing; i-- > 0;) labels += static_cast<char>('0' + i);
  return term.substr(0, dots) + labels + term.substr(dots + 3);
}

Equation Parse(NodeImport& n) {
  std::string text;
  for (char c : n.Str("equation")) {
    if (c != ' ') text += c;
  }
  for (char c : text) {
    bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ',' || c == '.' || c == '-' || c == '>';
    if (!ok) n.Invalid(StrCat("the equation is ", QuoteName(text)));
  }
  size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Equation result;
  size_t widest = 0;
  for (size_t begin = 0, i = 0; begin <= left.size(); ++i) {
    size_t end = std::min(left.find(',', begin), left.size());
    result.inputs.push_back(ExpandEllipsis(n, left.substr(begin, end - begin), n.Rank(i)));
    auto digits = std::count_if(result.inputs.back().begin(), result.inputs.back().end(),
                                [](char c) { return c >= '0' && c <= '9'; });
    widest = std::max(widest, static_cast<size_t>(digits));
    begin = end + 1;
  }
  if (result.inputs.size() != n.num_inputs()) n.Invalid("the equation has another number of operands than the node");
  std::string dots;
  for (size_t i = widest; i-- > 0;) dots += static_cast<char>('0' + i);
  if (arrow != std::string::npos) {
    result.output = text.substr(arrow + 2);
    size_t at = result.output.find("...");
    if (at != std::string::npos) result.output.replace(at, 3, dots);
  } else {  // labels that occur once, in alphabetical order
    std::map<char, int> count;
    for (const std::string& term : result.inputs) {
      for (char c : term) count[c] += c >= '0' && c <= '9' ? 0 : 1;
    }
    result.output = dots;
    for (const auto& [label, times] : count) {
      if (times == 1) result.output += label;
    }
  }
  return result;
}

/// x with its dimensions in the order of `labels`; those that it lacks become 1.
Expr Aligned(NodeImport& n, const Expr& x, const std::string& have, const std::string& labels) {
  Ints order, shape;
  Ints dims = n.StaticShapeOf(x);
  for (char label : labels) {
    size_t at = have.find(label);
    if (at != std::string::npos) order.push_back(static_cast<int64_t>(at));
    shape.push_back(at == std::string::npos ? 1 : dims[at]);
  }
  return n.Reshape(n.Transpose(x, order), shape);
}

int64_t SizeOf(const std::map<char, int64_t>& sizes, const std::string& labels) {
  int64_t size = 1;
  for (char label : labels) size *= sizes.at(label);
  return size;
}

/// Two operands that broadcast nowhere: batch x (left x contracted) times batch x (contracted x right).
Expr Product(NodeImport& n, const Equation& e, const std::map<char, int64_t>& sizes) {
  std::string batch, contracted, left, right;
  for (char label : e.inputs[0]) {
    bool in_right = e.inputs[1].find(label) != std::string::npos;
    bool in_out = e.output.find(label) != std::string::npos;
    (in_right && in_out ? batch : in_right ? contracted : left) += label;
  }
  for (char label : e.inputs[1]) {
    if (e.inputs[0].find(label) == std::string::npos) right += label;
  }
  Expr a = Aligned(n, n.In(0), e.inputs[0], batch + left + contracted);
  Expr b = Aligned(n, n.In(1), e.inputs[1], batch + contracted + right);
  a = n.Reshape(a, {SizeOf(sizes, batch), SizeOf(sizes, left), SizeOf(sizes, contracted)});
  b = n.Reshape(b, {SizeOf(sizes, batch), SizeOf(sizes, contracted), SizeOf(sizes, right)});
  Expr product = n.Call("nn.batch_matmul", {a, b}, {{"transpose_a", false}, {"transpose_b", false}});
  Ints shape;
  std::string labels = batch + left + right;
  for (char label : labels) shape.push_back(sizes.at(label));
  product = n.Reshape(product, shape);
  // Labels of one operand only that the result doesn't have are summed over.
  Ints summed;
  std::string rest;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (e.output.find(labels[i]) == std::string::npos) {
      summed.push_back(static_cast<int64_t>(i));
    } else {
      rest += labels[i];
    }
  }
  if (!summed.empty()) product = n.Call("sum", {product}, {{"axis", summed}, {"keepdims", false}});
  return Aligned(n, product, rest, e.output);
}

Expr ImportEinsum(NodeImport& n) {
  Equation e = Parse(n);
  std::map<char, int64_t> sizes;
  std::string labels = e.output;
  bool broadcasts = false;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    std::set<char> seen;
    Ints shape = n.StaticShape(i);
    for (size_t d = 0; d < shape.size(); ++d) {
      char label = e.inputs[i][d];
      if (!seen.insert(label).second) n.Unsupported("a label twice in one operand (a diagonal) isn't implemented");
      auto [it, inserted] = sizes.emplace(label, shape[d]);
      broadcasts |= !inserted && it->second != shape[d];
      if (it->second != shape[d] && it->second != 1 && shape[d] != 1) {
        n.Invalid(StrCat("label ", std::string(1, label), " is both ", it->second, " and ", shape[d]));
      }
      it->second = std::max(it->second, shape[d]);
      if (labels.find(label) == std::string::npos) labels += label;
    }
  }
  std::set<char> outputs(e.output.begin(), e.output.end());
  if (outputs.size() != e.output.size()) n.Invalid("a label is twice in the result");
  for (char label : e.output) {
    if (!sizes.count(label)) n.Invalid("the result has a label that no operand has");
  }
  if (e.inputs.size() == 2 && !broadcasts) return Product(n, e, sizes);
  Expr product;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    Expr x = Aligned(n, n.In(i), e.inputs[i], labels);
    product = product.defined() ? n.Call("multiply", {product, x}) : x;
  }
  Ints summed;
  for (size_t i = e.output.size(); i < labels.size(); ++i) summed.push_back(static_cast<int64_t>(i));
  if (summed.empty()) return product;
  return n.Call("sum", {product}, {{"axis", summed}, {"keepdims", false}});
}

}  // namespace

void RegisterEinsumRules(RuleTable& table) { table.Add1("Einsum", {12, 28}, ImportEinsum); }

}  // namespace treadle::onnx
