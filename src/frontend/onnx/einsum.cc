// SPDX-License-Identifier: Apache-2.0
// Einstein summation: operands as batches of matrix products, one after the other; single ones and those that broadcast
// by multiplying and summing.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/compose.h"
#include "frontend/onnx/matmul.h"
#include "frontend/onnx/rules.h"
#include "treadle/ir/structural.h"

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

/// Sizes by label, int64 scalars.
using Sizes = std::map<char, Term>;

std::vector<Term> Dims(NodeImport& n, const Sizes& sizes, const std::string& labels, const std::string& have) {
  std::vector<Term> dims;
  for (char label : labels) dims.push_back(have.find(label) == std::string::npos ? IntNum(n, 1) : sizes.at(label));
  return dims;
}

/// x with its dimensions in the order of `labels`; those that it lacks become 1.
Term Aligned(const Term& x, const std::string& have, const std::string& labels) {
  Ints order;
  Term y = x;
  for (char label : labels) {
    size_t at = have.find(label);
    if (at != std::string::npos) order.push_back(static_cast<int64_t>(at));
  }
  y = y.Permute(order);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (have.find(labels[i]) == std::string::npos) y = y.Expand(static_cast<int>(i));
  }
  return y;
}

Term SizeOf(NodeImport& n, const Sizes& sizes, const std::string& labels) {
  Term size = IntNum(n, 1);
  for (char label : labels) size = size * sizes.at(label);
  return size;
}

/// The operand with the size of each label of `unrelated`, where it may have 1; any other size is refused when it runs.
Term Spread(const Term& x, const std::string& labels, const Sizes& sizes, const std::set<char>& unrelated) {
  NodeImport& n = x.node();
  std::vector<Term> dims;
  Array<PrimExpr> known;
  bool spreads = false;
  for (int d = 0; d < x.rank(); ++d) {
    const char label = labels[static_cast<size_t>(d)];
    const int64_t* own = AsConstInt(x.shape()[static_cast<size_t>(d)]);
    if (own != nullptr || unrelated.count(label) == 0) {
      dims.push_back(DimOf(x, d));
      known.push_back(PrimExpr(own != nullptr && *own > 0 ? *own : int64_t{-1}));
      continue;
    }
    spreads = true;
    const Term& size = sizes.at(label);
    const auto stated = n.KnownElements(size);
    known.push_back(PrimExpr(stated && (*stated)[0] > 0 ? (*stated)[0] : int64_t{-1}));
    dims.push_back({n, CheckedValues(n, size, "broadcast", DimOf(x, d), "size of a label")});
  }
  if (!spreads) return x;
  return x.Op("dyn.broadcast_to", Stack(dims), {{"shape", ObjectRef(known)}, {"dtype", x.dtype()}});
}

/// Two operands that broadcast nowhere: batch x (left x contracted) times batch x (contracted x right).
Term Product(NodeImport& n, const Equation& e, const std::vector<Term>& operands, const Sizes& sizes) {
  std::string batch, contracted, left, right;
  for (char label : e.inputs[0]) {
    bool in_right = e.inputs[1].find(label) != std::string::npos;
    bool in_out = e.output.find(label) != std::string::npos;
    (in_right && in_out ? batch : in_right ? contracted : left) += label;
  }
  for (char label : e.inputs[1]) {
    if (e.inputs[0].find(label) == std::string::npos) right += label;
  }
  Term a = Aligned(operands[0], e.inputs[0], batch + left + contracted);
  Term b = Aligned(operands[1], e.inputs[1], batch + contracted + right);
  const std::string labels = batch + left + right;
  Term product = a;
  if (left.size() == 1 && contracted.size() == 1 && right.size() == 1) {
    product = {n, MatMulAnyRank(n, a, b)};
  } else {
    a = ReshapeTo(a, {SizeOf(n, sizes, batch), SizeOf(n, sizes, left), SizeOf(n, sizes, contracted)});
    b = ReshapeTo(b, {SizeOf(n, sizes, batch), SizeOf(n, sizes, contracted), SizeOf(n, sizes, right)});
    product = {n, n.Call("nn.batch_matmul", {a, b}, {{"transpose_a", false}, {"transpose_b", false}})};
    product = ReshapeTo(product, Dims(n, sizes, labels, labels));
  }
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
  if (!summed.empty()) product = product.Sum(summed);
  return Aligned(product, rest, e.output);
}

/// The labels of the product of the first operand and operand `next` that another operand or the result has.
std::string Kept(const std::vector<std::string>& inputs, size_t next, const std::string& output) {
  std::string needed = output, kept;
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (i != next) needed += inputs[i];
  }
  for (const char label : inputs[0] + inputs[next]) {
    const bool is_new = kept.find(label) == std::string::npos;
    if (is_new && needed.find(label) != std::string::npos) kept += label;
  }
  return kept;
}

/// Operands that broadcast nowhere, multiplied one after the other: what no later operand and not the result has is
/// summed as soon as possible. An operand that shares no label is left for later: such products are as large as both
/// operands together.
Term ProductOfAll(NodeImport& n, const Equation& e, std::vector<Term> operands, const Sizes& sizes) {
  std::vector<std::string> inputs = e.inputs;
  while (operands.size() > 1) {
    size_t next = 1;
    while (next + 1 < inputs.size() && inputs[next].find_first_of(inputs[0]) == std::string::npos) ++next;
    if (inputs[next].find_first_of(inputs[0]) == std::string::npos) next = 1;
    const Equation step{{inputs[0], inputs[next]}, operands.size() == 2 ? e.output : Kept(inputs, next, e.output)};
    operands[0] = Product(n, step, {operands[0], operands[next]}, sizes);
    inputs[0] = step.output;
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(next));
    inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(next));
  }
  return operands[0];
}

/// The elements where all dimensions with the same label, which are of one size, have the same index, along the first
/// of them.
Term Diagonals(Term x, std::string& labels) {
  for (size_t j = 0; j < labels.size(); ++j) {
    const size_t i = labels.find(labels[j]);
    if (i == j) continue;
    const int rank = x.rank(), first = static_cast<int>(i), second = static_cast<int>(j);
    CheckSameSize(x, first, x, second, "dimensions with the same label");
    const bool known = AsConstInt(x.shape()[i]) != nullptr && AsConstInt(x.shape()[j]) != nullptr;
    const Term size =
        known ? DimOf(x, first) : EqualTo(DimOf(x, second), DimOf(x, first), "dimension with the label of another");
    auto along = [&](int axis) {
      Term index = Iota(size);
      return axis + 1 < rank ? index.Expand(1, rank - 1 - axis) : index;
    };
    x = (along(first) == along(second)).Select(x, 0).Sum({static_cast<int64_t>(j)});
    labels.erase(j--, 1);
  }
  return x;
}

Expr ImportEinsum(NodeImport& n) {
  Equation e = Parse(n);
  Sizes sizes;
  std::map<char, int64_t> known;  // -1: symbolic
  std::string labels = e.output;
  std::map<char, PrimExpr> dims;
  std::set<char> unrelated;  // two operands have them, and it isn't known whether one broadcasts
  bool broadcasts = false;
  std::vector<Term> operands;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    operands.push_back(Diagonals(In(n, i), e.inputs[i]));
    const Term& x = operands.back();
    for (int d = 0; d < x.rank(); ++d) {
      const char label = e.inputs[i][static_cast<size_t>(d)];
      const PrimExpr& dim = x.shape()[static_cast<size_t>(d)];
      const int64_t* constant = AsConstInt(dim);
      const int64_t size = constant != nullptr ? *constant : -1;
      if (labels.find(label) == std::string::npos) labels += label;
      if (known.emplace(label, size).second) {
        sizes.emplace(label, DimOf(x, d));
        dims.emplace(label, dim);
        continue;
      }
      int64_t& before = known[label];
      if (before >= 0 && size >= 0 && before != size && before != 1 && size != 1) {
        n.Invalid(StrCat("label ", std::string(1, label), " is both ", before, " and ", size));
      }
      broadcasts = broadcasts || (before == 1) != (size == 1);
      const PrimExpr& other = dims.at(label);
      const bool same = size >= 0 ? size == before : !IsAnyDim(dim) && StructuralEqual(dim, other);
      if (!same) unrelated.insert(label);
      if (before == 1 || (before < 0 && size > 1)) {
        before = size;
        sizes.insert_or_assign(label, DimOf(x, d));
      } else if (before < 0 && size < 0 && !same) {
        const Term& left = sizes.at(label);
        sizes.insert_or_assign(label, (left == 1.0).Select(DimOf(x, d), left));
      }
    }
  }
  std::set<char> outputs(e.output.begin(), e.output.end());
  if (outputs.size() != e.output.size()) n.Invalid("a label is twice in the result");
  for (char label : e.output) {
    if (!sizes.count(label)) n.Invalid("the result has a label that no operand has");
  }
  if (e.inputs.size() > 1 && !broadcasts) {
    for (size_t i = 0; i < operands.size(); ++i) operands[i] = Spread(operands[i], e.inputs[i], sizes, unrelated);
    return ProductOfAll(n, e, operands, sizes);
  }
  std::optional<Term> product;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    Term x = Aligned(operands[i], e.inputs[i], labels);
    product = product ? *product * x : x;
  }
  Ints summed;
  for (size_t i = e.output.size(); i < labels.size(); ++i) summed.push_back(static_cast<int64_t>(i));
  return summed.empty() ? *product : product->Sum(summed);
}

}  // namespace

void RegisterEinsumRules(RuleTable& table) { table.Add1("Einsum", {12, 28}, ImportEinsum); }

}  // namespace treadle::onnx
