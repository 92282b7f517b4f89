// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/argument_table.h"

#include <unordered_map>

#include "tir/passes/pass_util.h"
#include "tir/passes/passes.h"
#include "tir/passes/return_values.h"
#include "tir/passes/split_host_device.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/runtime/unpack_arguments.h"

namespace treadle::tir {
namespace {

bool IsPlain(const Buffer& buffer) {
  return buffer->strides.empty() && !(buffer->elem_offset.defined() && buffer->elem_offset.as<VarNode>());
}

/// How a scalar is passed; nothing for types that are rare.
std::optional<int64_t> KindOf(DataType dtype) {
  if (dtype.is_handle()) return kTreadleArgPointer;
  if (!dtype.is_scalar() || dtype.is_bool()) return std::nullopt;
  const bool known_float = dtype.is_float() && dtype.bits() >= 32;
  if (dtype.is_floating()) return known_float ? std::optional<int64_t>(kTreadleArgFloat) : std::nullopt;
  return kTreadleArgInt;
}

}  // namespace

std::pair<const VarNode*, int64_t> MultipleOfVar(const PrimExpr& size) {
  if (AsConstInt(size) != nullptr) return {nullptr, 0};
  const PrimExpr e = size.as<VarNode>() != nullptr ? size : arith::Analyzer().Simplify(size);
  if (const auto* var = e.as<VarNode>()) return {var, 1};
  const auto* product = e.as<MulNode>();
  if (product == nullptr) return {nullptr, 0};
  const bool second = AsConstInt(product->b) != nullptr;
  const auto* var = (second ? product->a : product->b).as<VarNode>();
  const int64_t* multiple = AsConstInt(second ? product->b : product->a);
  if (var == nullptr || multiple == nullptr || *multiple < 1) return {nullptr, 0};
  return {var, *multiple};
}

std::optional<ArgumentTable> DescribeArguments(const PrimFunc& func) {
  if (func->GetAttr<Map<Var, String>>(kCustomTypes) || ReturnsValue(func)) return std::nullopt;
  if (auto type = func->GetAttr<IntImm>(kDeviceType); type && (*type)->value != kDLCPU) return std::nullopt;
  ArgumentTable table;
  table.names = (*func->GetAttr<String>(treadle::attr::kGlobalSymbol)).str() + "\n";
  table.numbers.push_back(static_cast<int64_t>(func->params.size()));
  std::unordered_map<const Object*, int64_t> slots;
  std::string scalars;
  const auto slot_of = [&](const VarNode* var) {
    const auto [found, is_new] = slots.emplace(var, static_cast<int64_t>(slots.size()));
    if (is_new) scalars += var->name_hint + "\n";
    return found->second;
  };
  for (const Var& param : func->params) {
    if (param->name_hint.find('\n') != std::string::npos) return std::nullopt;
    if (!func->buffer_map.Get(param)) slot_of(param.get());
  }
  for (const Var& param : func->params) {
    const auto buffer = func->buffer_map.Get(param);
    if (!buffer) {
      const auto kind = KindOf(param.dtype());
      if (!kind) return std::nullopt;
      table.numbers.push_back(*kind);
      continue;
    }
    const DataType dtype = (*buffer)->dtype;
    if (!IsPlain(*buffer) || (*buffer)->name.find('\n') != std::string::npos) return std::nullopt;
    const auto rank = static_cast<int64_t>((*buffer)->shape.size());
    table.numbers.insert(table.numbers.end(), {kTreadleArgTensor, dtype.code(), dtype.bits(), dtype.lanes(), rank});
    table.names += (*buffer)->name + "\n";
    for (const PrimExpr& dim : (*buffer)->shape) {
      if (const int64_t* size = AsConstInt(dim); size != nullptr && *size >= 0) {
        table.numbers.push_back(*size);
        continue;
      }
      const auto [var, multiple] = MultipleOfVar(dim);
      if (var == nullptr || var->name_hint.find('\n') != std::string::npos) return std::nullopt;
      const int64_t slot = slot_of(var);
      if (slot >= kTreadleArgMultiple || multiple > INT32_MAX) return std::nullopt;
      table.numbers.push_back(-1 - slot - (multiple - 1) * kTreadleArgMultiple);
    }
  }
  table.names += scalars;
  return table;
}

}  // namespace treadle::tir
