// SPDX-License-Identifier: Apache-2.0
#include "driver/evaluate/op_evaluator.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>

#include "driver/lower/lower_te.h"
#include "targets/stackvm/stackvm.h"
#include "tir/passes/passes.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/type_infer.h"
#include "treadle/runtime/scalar.h"

namespace treadle::driver {
namespace {

using relay::Expr;
using runtime::NDArray;
using Shape = std::vector<int64_t>;

constexpr size_t kMaxPrograms = 4096;

/// An operator compiled for argument types.
struct OpProgram {
  targets::VmProgram program;
  std::vector<std::pair<Shape, DataType>> outputs;
  bool is_tuple = false;
};

Type TypeOf(const NDArray& tensor) { return TensorType(tensor.shape(), tensor.dtype()); }

/// A scalar operand of `op` as a double.
double ScalarValue(const NDArray& tensor, const std::string& op) {
  if (tensor.size() != 1)
    throw ShapeError(StrCat(op, ": a scalar operand has shape ", runtime::ShapeString(tensor.shape())));
  if (!runtime::IsNumber(tensor.dtype())) {
    throw DTypeError(StrCat(op, ": no support for operands of dtype ", tensor.dtype()));
  }
  return runtime::ToDoubles(tensor)[0];
}

/// The call with its arguments as parameters p0, p1, ...; typed.
relay::Function MakeKernelFunction(const Op& op, const Attrs& attrs, const Array<Type>& types) {
  Array<relay::Var> params;
  Array<Expr> args;
  auto param = [&](const Type& type) {
    params.push_back(relay::Var("p" + std::to_string(params.size()), type));
    return params.back();
  };
  for (const Type& type : types) {
    if (const auto* tuple = type.as<TupleTypeNode>()) {
      Array<Expr> fields;
      for (const Type& field : tuple->fields) fields.push_back(param(field));
      args.push_back(relay::Tuple(fields));
    } else {
      args.push_back(param(type));
    }
  }
  relay::Function func(params, relay::Call(op, args, attrs));
  return Downcast<relay::Function>(relay::InferType(func));
}

std::shared_ptr<const OpProgram> Compile(const Op& op, const Attrs& attrs, const Array<Type>& types) {
  relay::Function func = MakeKernelFunction(op, attrs, types);
  auto result = std::make_shared<OpProgram>();
  const Type& type = func->ret_type;
  std::vector<Type> outputs;
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    result->is_tuple = true;
    outputs.assign(tuple->fields.begin(), tuple->fields.end());
  } else {
    outputs.push_back(type);
  }
  for (const Type& output : outputs) {
    const auto* tensor = output.as<TensorTypeNode>();
    if (tensor == nullptr) throw UnsupportedOpError(StrCat("results of '", op->name, "' aren't tensors"), {op->name});
    if (!IsStatic(tensor)) {
      throw UnsupportedOpError(StrCat("the result shape of '", op->name, "' depends on more than is known"),
                               {op->name});
    }
    result->outputs.emplace_back(StaticShape(tensor, op->name), tensor->dtype);
  }
  TensorFunction tensors = LowerToTensors(func);
  Array<te::Tensor> all = tensors.inputs;
  for (const te::Tensor& output : tensors.outputs) all.push_back(output);
  tir::PrimFunc program = te::CreatePrimFunc(all, tensors.name);
  // A reduction over nothing has no first step in which it could initialise its result.
  bool empty = false;
  for (const te::Tensor& input : tensors.inputs) {
    for (const PrimExpr& dim : input->shape) {
      const int64_t* size = AsConstInt(dim);
      empty = empty || (size != nullptr && *size == 0);
    }
  }
  if (empty) program = tir::LowerInit(program, {});
  result->program = targets::CompileToVm(program);
  return result;
}

/// Programs by operator, attributes and argument types.
class ProgramCache {
 public:
  std::shared_ptr<const OpProgram> Get(const Op& op, const Attrs& attrs, const Operands& operands) {
    const uint64_t hash = Hash(op, attrs, operands);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto [begin, end] = programs_.equal_range(hash);
      for (auto it = begin; it != end; ++it) {
        if (Matches(it->second, op, attrs, operands)) return it->second.program;
      }
    }
    Entry entry{op, attrs, operands.fields, {}, nullptr};
    for (const NDArray& tensor : operands.tensors) entry.tensors.emplace_back(tensor.shape(), tensor.dtype());
    entry.program = Compile(op, attrs, operands.Types());
    std::lock_guard<std::mutex> lock(mutex_);
    if (programs_.size() >= kMaxPrograms) programs_.clear();
    return programs_.emplace(hash, std::move(entry))->second.program;
  }

 private:
  struct Entry {
    Op op;
    Attrs attrs;
    std::vector<int> fields;
    std::vector<std::pair<Shape, DataType>> tensors;
    std::shared_ptr<const OpProgram> program;
  };

  static uint64_t Hash(const Op& op, const Attrs& attrs, const Operands& operands) {
    uint64_t hash = std::hash<const Object*>()(op.get());
    auto mix = [&](uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29); };
    if (attrs.defined()) mix(StructuralHash(attrs));
    for (int field : operands.fields) mix(static_cast<uint64_t>(field));
    for (const NDArray& tensor : operands.tensors) {
      const DataType t = tensor.dtype();
      mix(static_cast<uint64_t>(t.code()) << 32 | static_cast<uint64_t>(t.bits()) << 16 | t.lanes());
      for (int64_t dim : tensor.shape()) mix(static_cast<uint64_t>(dim));
    }
    return hash;
  }

  static bool Matches(const Entry& entry, const Op& op, const Attrs& attrs, const Operands& operands) {
    if (!entry.op.same_as(op) || entry.fields != operands.fields) return false;
    if (entry.tensors.size() != operands.tensors.size()) return false;
    for (size_t i = 0; i < entry.tensors.size(); ++i) {
      if (entry.tensors[i].second != operands.tensors[i].dtype()) return false;
      if (entry.tensors[i].first != operands.tensors[i].shape()) return false;
    }
    return entry.attrs.same_as(attrs) || StructuralEqual(entry.attrs, attrs);
  }

  std::mutex mutex_;
  std::unordered_multimap<uint64_t, Entry> programs_;
};

NDArray Compact(const NDArray& tensor) {
  return tensor.IsCompact() && tensor.device().device_type == runtime::Cpu().device_type ? tensor : tensor.Copy();
}

/// Coordinates of the nonzero elements, one row each.
NDArray Argwhere(const NDArray& input) {
  NDArray data = Compact(input);
  const size_t bytes = static_cast<size_t>(runtime::ElementBytes(data.dtype()));
  const size_t rank = data.shape().size();
  const std::vector<char> zero(bytes, 0);
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < data.size(); ++i) {
    const char* element = data.Data<char>() + static_cast<size_t>(i) * bytes;
    bool is_zero = std::memcmp(element, zero.data(), bytes) == 0;
    if (!is_zero && (data.dtype().is_floating())) {
      // -0 is a zero too: all bits but the sign.
      std::vector<char> copy(element, element + bytes);
      copy[bytes - 1] = static_cast<char>(copy[bytes - 1] & 0x7f);
      is_zero = std::memcmp(copy.data(), zero.data(), bytes) == 0;
    }
    if (is_zero) continue;
    std::vector<int32_t> row(rank);
    int64_t rest = i;
    for (size_t axis = rank; axis-- > 0;) {
      row[axis] = static_cast<int32_t>(rest % data.shape()[axis]);
      rest /= data.shape()[axis];
    }
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const int64_t count = rank == 0 ? 0 : static_cast<int64_t>(rows.size() / rank);
  return NDArray::FromBytes(rows.data(), {count, static_cast<int64_t>(rank)}, DataType::Int(32));
}

/// The distinct elements of a vector; see UniqueAttrs.
template <typename T>
std::vector<NDArray> UniqueOf(const NDArray& data, const ops::UniqueAttrs* attrs) {
  const T* x = data.Data<T>();
  std::vector<T> values;
  std::vector<int32_t> first, inverse, counts;
  for (int64_t i = 0; i < data.size(); ++i) {
    size_t k = 0;
    while (k < values.size() && values[k] != x[i]) ++k;
    if (k == values.size()) {
      values.push_back(x[i]);
      first.push_back(static_cast<int32_t>(i));
      counts.push_back(0);
    }
    ++counts[k];
    inverse.push_back(static_cast<int32_t>(k));
  }
  if (attrs->sorted) {
    std::vector<int32_t> order(values.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return values[a] < values[b]; });
    std::vector<int32_t> place(order.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int32_t>(i);
    auto permute = [&](auto& items) {
      auto copy = items;
      for (size_t i = 0; i < order.size(); ++i) items[i] = copy[order[i]];
    };
    permute(values);
    permute(first);
    permute(counts);
    for (int32_t& k : inverse) k = place[k];
  }
  const auto n = static_cast<int64_t>(values.size());
  const std::vector<int32_t> number = {static_cast<int32_t>(n)};
  std::vector<NDArray> result = {NDArray::FromBytes(values.data(), {n}, data.dtype()),
                                 NDArray::FromBytes(first.data(), {n}, DataType::Int(32)),
                                 NDArray::FromBytes(inverse.data(), {data.size()}, DataType::Int(32)),
                                 NDArray::FromBytes(number.data(), {1}, DataType::Int(32))};
  if (attrs->return_counts) result.push_back(NDArray::FromBytes(counts.data(), {n}, DataType::Int(32)));
  return result;
}

std::vector<NDArray> Unique(const NDArray& input, const ops::UniqueAttrs* attrs) {
  NDArray data = Compact(input);
  const DataType t = data.dtype();
  if (t == DataType::Int(64)) return UniqueOf<int64_t>(data, attrs);
  if (t == DataType::Int(32)) return UniqueOf<int32_t>(data, attrs);
  if (t == DataType::Float(32)) return UniqueOf<float>(data, attrs);
  if (t == DataType::Float(64)) return UniqueOf<double>(data, attrs);
  throw DTypeError(StrCat("unique: no support for dtype ", t));
}

/// arange's result has the length that its operands give.
Attrs ArangeWithBounds(const Attrs& attrs, const Operands& operands) {
  if (operands.tensors.size() != 3) throw ShapeError("arange takes start, stop and step");
  auto copy = MakeObject<ops::ArangeAttrs>(*static_cast<const ops::ArangeAttrs*>(attrs.get()));
  copy->start = ScalarValue(operands.tensors[0], "arange");
  copy->stop = ScalarValue(operands.tensors[1], "arange");
  copy->step = ScalarValue(operands.tensors[2], "arange");
  return Attrs(ObjectPtr<Object>(copy));
}

}  // namespace

Array<Type> Operands::Types() const {
  Array<Type> types;
  size_t next = 0;
  for (int count : fields) {
    if (count < 0) {
      types.push_back(TypeOf(tensors[next++]));
      continue;
    }
    Array<Type> tuple;
    for (int i = 0; i < count; ++i) tuple.push_back(TypeOf(tensors[next++]));
    types.push_back(TupleType(tuple));
  }
  return types;
}

bool HasComputeRule(const Op& op) {
  if (op->name == "argwhere" || op->name == "unique") return true;
  // Shapes that operands' values give are made static first.
  return op.GetAttr(ops::kCompute) != nullptr && op->name.compare(0, 4, "dyn.") != 0;
}

OpResults EvaluateOp(const Op& op, const Attrs& attrs, const Operands& operands) {
  if (op->name == "argwhere" && operands.tensors.size() == 1) return {{Argwhere(operands.tensors[0])}, false};
  if (op->name == "unique" && operands.tensors.size() == 1 && attrs.as<ops::UniqueAttrs>()) {
    return {Unique(operands.tensors[0], attrs.as<ops::UniqueAttrs>()), true};
  }
  static ProgramCache* cache = new ProgramCache;  // outlives what destructors of other static data may compute
  const bool is_arange = op->name == "arange" && attrs.as<ops::ArangeAttrs>() != nullptr;
  auto program = cache->Get(op, is_arange ? ArangeWithBounds(attrs, operands) : attrs, operands);
  std::vector<NDArray> buffers;
  for (const NDArray& tensor : operands.tensors) buffers.push_back(Compact(tensor));
  OpResults results;
  results.is_tuple = program->is_tuple;
  for (const auto& [shape, dtype] : program->outputs) {
    results.tensors.push_back(NDArray::Empty(shape, dtype));
    buffers.push_back(results.tensors.back());
  }
  program->program.Run(buffers);
  return results;
}

}  // namespace treadle::driver
