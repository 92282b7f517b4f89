// SPDX-License-Identifier: Apache-2.0
#include "external/c/emit.h"

#include <cmath>
#include <limits>
#include <map>

#include "treadle/base/error.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/transform.h"

namespace treadle::external {
namespace {

/// Expressions of one element; "a" and "b" stand for the operands, F(name) for the function of the element type.
const std::map<std::string, const char*>& UnaryOps() {
  static const std::map<std::string, const char*> ops = {
      {"nn.relu", "a < 0 ? 0 : a"},
      {"negative", "-a"},
      {"abs", "a < 0 ? -a : a"},
      {"exp", "F(exp)(a)"},
      {"log", "F(log)(a)"},
      {"sqrt", "F(sqrt)(a)"},
      {"rsqrt", "1 / F(sqrt)(a)"},
      {"tanh", "F(tanh)(a)"},
      {"erf", "F(erf)(a)"},
      {"sigmoid", "1 / (1 + F(exp)(-a))"},
      {"floor", "F(floor)(a)"},
      {"ceil", "F(ceil)(a)"},
      {"sin", "F(sin)(a)"},
      {"cos", "F(cos)(a)"},
      {"atan", "F(atan)(a)"},
      {"copy", "a"},
      {"clip", ""},
      {"nn.leaky_relu", ""},
  };
  return ops;
}

const std::map<std::string, const char*>& BinaryOps() {
  // The greater and the lesser are NaN if either operand is.
  static const std::map<std::string, const char*> ops = {
      {"add", "a + b"},
      {"subtract", "a - b"},
      {"multiply", "a * b"},
      {"divide", "a / b"},
      {"power", "F(pow)(a, b)"},
      {"maximum", "a > b || a != a ? a : b"},
      {"minimum", "a < b || a != a ? a : b"},
      {"nn.bias_add", "a + b"},
  };
  return ops;
}

const std::vector<DataType>& Types() {
  static const std::vector<DataType> types = {DataType::Float(32), DataType::Float(64), DataType::Int(8),
                                              DataType::Int(16),   DataType::Int(32),   DataType::Int(64),
                                              DataType::UInt(8)};
  return types;
}

bool NeedsFloat(const std::string& op) {
  static const std::vector<std::string> integral = {"add",     "subtract", "multiply", "maximum", "minimum",
                                                    "nn.relu", "negative", "abs",      "copy",    "nn.bias_add"};
  for (const std::string& name : integral) {
    if (name == op) return false;
  }
  return UnaryOps().count(op) != 0 || BinaryOps().count(op) != 0;
}

/// `text` with F(name) replaced by C's name of the function for the type.
std::string ForType(std::string text, DataType dtype) {
  for (size_t at = text.find("F("); at != std::string::npos; at = text.find("F(")) {
    size_t close = text.find(')', at);
    text = text.substr(0, at) + text.substr(at + 2, close - at - 2) + (dtype.bits() == 32 ? "f" : "") +
           text.substr(close + 1);
  }
  return text;
}

std::string Number(double value, DataType dtype) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
  std::string result = GeneralText(value, dtype.bits() == 32 ? 9 : 17);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result + (dtype.bits() == 32 ? "f" : "");
}

std::string Replace(std::string text, char letter, const std::string& with) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    auto part_of_word = [&](size_t k) { return k < text.size() && (std::isalnum(text[k]) != 0 || text[k] == '_'); };
    bool alone = text[i] == letter && !part_of_word(i + 1) && (i == 0 || !part_of_word(i - 1));
    result += alone ? with : std::string(1, text[i]);
  }
  return result;
}

std::string UnaryExpression(const RegionNode& node) {
  const DataType dtype = node.type.dtype;
  if (node.op() == "clip") {
    const auto* attrs = node.call->attrs_as<ops::ClipAttrs>();
    return StrCat("a < ", Number(attrs->a_min, dtype), " ? ", Number(attrs->a_min, dtype), " : a > ",
                  Number(attrs->a_max, dtype), " ? ", Number(attrs->a_max, dtype), " : a");
  }
  if (node.op() == "nn.leaky_relu") {
    return StrCat("a < 0 ? ", Number(node.call->attrs_as<ops::LeakyReluAttrs>()->alpha, dtype), " * a : a");
  }
  return ForType(UnaryOps().at(node.op()), dtype);
}

std::string Signature(const std::string& name, DataType dtype, size_t operands) {
  const std::string type = CTypeName(dtype);
  std::string text = StrCat("static void ", name, "(const ", type, "* in_a, ");
  if (operands > 1) text += StrCat("const ", type, "* in_b, ");
  return StrCat(text, type, "* out) {\n");
}

/// Where an operand broadcast to `shape` has the element at (i0, i1, ..): an index expression. `axis` >= 0: the operand
/// is a vector along that dimension.
std::string Index(const Tensor& operand, const std::vector<int64_t>& shape, int axis) {
  if (axis >= 0) return StrCat("i", axis);
  std::string text;
  int64_t stride = 1;
  for (size_t k = operand.shape.size(); k-- > 0;) {
    const size_t dim = shape.size() - operand.shape.size() + k;
    if (operand.shape[k] != 1) {
      std::string term = stride == 1 ? StrCat("i", dim) : StrCat("i", dim, " * ", stride);
      text = text.empty() ? term : StrCat(term, " + ", text);
    }
    stride *= operand.shape[k];
  }
  return text.empty() ? "0" : text;
}

std::string EmitBinary(const std::string& name, const RegionNode& node, const std::vector<Tensor>& inputs) {
  const auto& shape = node.type.shape;
  std::string expression = ForType(BinaryOps().at(node.op()), node.type.dtype);
  const bool same = inputs[0].shape == shape && inputs[1].shape == shape;
  const bool arithmetic = node.op() == "add" || node.op() == "subtract" || node.op() == "multiply";
  if (same && arithmetic && (shape.size() == 1 || shape.size() == 2)) {
    std::string dims;
    for (int64_t dim : shape) dims += StrCat(", ", dim);
    return StrCat("CSOURCE_BINARY_OP_", shape.size(), "D(", name, ", ", expression.substr(2, 1), dims, ", ",
                  CTypeName(node.type.dtype), ")\n");
  }
  int axis = -1;
  if (node.op() == "nn.bias_add") {
    axis = node.call->attrs_as<ops::BiasAddAttrs>()->axis;
    if (axis < 0) axis += static_cast<int>(shape.size());
  }
  std::string text = Signature(name, node.type.dtype, 2), indent = "  ";
  if (same) {
    text += StrCat("  for (int64_t i = 0; i < ", node.type.size(), "; ++i) {\n");
    return StrCat(text, "    out[i] = ", Replace(Replace(expression, 'b', "in_b[i]"), 'a', "in_a[i]"), ";\n  }\n}\n");
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    text += StrCat(indent, "for (int64_t i", d, " = 0; i", d, " < ", shape[d], "; ++i", d, ") {\n");
    indent += "  ";
  }
  const std::string b = StrCat("in_b[", Index(inputs[1], shape, axis), "]");
  const std::string a = StrCat("in_a[", Index(inputs[0], shape, -1), "]");
  text +=
      StrCat(indent, "out[", Index(node.type, shape, -1), "] = ", Replace(Replace(expression, 'b', b), 'a', a), ";\n");
  for (size_t d = shape.size(); d-- > 0;) {
    indent.resize(indent.size() - 2);
    text += indent + "}\n";
  }
  return text + "}\n";
}

/// Products of matrices: (batch of) a of (m, k) and b of (k, n), each maybe transposed.
std::string EmitMatmul(const std::string& name, const RegionNode& node, const std::vector<Tensor>& inputs) {
  const auto [transpose_a, transpose_b] = TransposedOperands(node);
  const auto& a = inputs[0].shape;
  const auto& b = inputs[1].shape;
  const size_t rank = a.size();
  const int64_t n = node.type.shape.back(), k = a[rank - (transpose_a ? 2 : 1)];
  // nn.dense takes any number of rows in front.
  const bool batched = node.op() == "nn.batch_matmul";
  const int64_t m = batched || transpose_a ? a[rank - (transpose_a ? 1 : 2)] : inputs[0].size() / k;
  const int64_t batch = batched ? node.type.shape[0] : 1;
  std::string text = Signature(name, node.type.dtype, 2);
  text += StrCat("  const int64_t batch = ", batch, ", m = ", m, ", n = ", n, ", k = ", k, ";\n");
  text += "  for (int64_t s = 0; s < batch; ++s) {\n";
  text += StrCat("    const ", CTypeName(node.type.dtype), "* a = in_a + ", batched && a[0] != 1 ? "s * m * k" : "0",
                 ";\n");
  text += StrCat("    const ", CTypeName(node.type.dtype), "* b = in_b + ", batched && b[0] != 1 ? "s * k * n" : "0",
                 ";\n");
  text += StrCat("    ", CTypeName(node.type.dtype), "* c = out + s * m * n;\n");
  const std::string a_at = transpose_a ? "a[p * m + i]" : "a[i * k + p]";
  text += "    for (int64_t i = 0; i < m; ++i) {\n";
  if (transpose_b) {
    text += StrCat("      for (int64_t j = 0; j < n; ++j) {\n        ", CTypeName(node.type.dtype),
                   " sum = 0;\n        for (int64_t p = 0; p < k; ++p) sum += ", a_at,
                   " * b[j * k + p];\n        c[i * n + j] = sum;\n      }\n");
  } else {
    text += "      for (int64_t j = 0; j < n; ++j) c[i * n + j] = 0;\n";
    text += StrCat("      for (int64_t p = 0; p < k; ++p) {\n        for (int64_t j = 0; j < n; ++j) c[i * n + j] += ",
                   a_at, " * b[p * n + j];\n      }\n");
  }
  return text + "    }\n  }\n}\n";
}

bool IsMatmul(const std::string& op) { return op == "nn.dense" || op == "nn.matmul" || op == "nn.batch_matmul"; }

bool IsReshapeName(const std::string& op) {
  return op == "reshape" || op == "squeeze" || op == "expand_dims" || op == "nn.batch_flatten";
}

}  // namespace

std::vector<std::string> COperators() {
  std::vector<std::string> names = {"nn.dense", "nn.matmul",   "nn.batch_matmul", "reshape",
                                    "squeeze",  "expand_dims", "nn.batch_flatten"};
  for (const auto& [name, text] : UnaryOps()) names.push_back(name);
  for (const auto& [name, text] : BinaryOps()) names.push_back(name);
  return names;
}

bool CTakes(const relay::CallNode* call, std::string* reason) {
  const std::string& op = call->op.as<OpNode>()->name;
  if (!CheckTensors(call, Types(), reason)) return false;
  const DataType dtype = TensorOf(GetRef<relay::Expr>(call)).dtype;
  if (NeedsFloat(op) && !dtype.is_float()) {
    *reason = StrCat("only of float32 and float64, not ", dtype);
    return false;
  }
  if (op == "nn.batch_matmul" && TensorOf(call->args[0]).shape.size() != 3) {
    *reason = "only batches of matrices";
    return false;
  }
  return true;
}

bool IsReshape(const RegionNode& node) { return IsReshapeName(node.op()); }

std::string CTypeName(DataType dtype) {
  if (dtype.is_float()) return dtype.bits() == 32 ? "float" : "double";
  return StrCat(dtype.is_uint() ? "u" : "", "int", dtype.bits(), "_t");
}

std::string CLiterals(const runtime::NDArray& data, const Tensor& type) {
  std::string text;
  auto add = [&](const auto* values) {
    for (int64_t i = 0; i < type.size(); ++i) {
      text += i == 0 ? "" : ", ";
      if (type.dtype.is_float()) {
        text += Number(static_cast<double>(values[i]), type.dtype);
      } else if (type.dtype.bits() == 64 && static_cast<int64_t>(values[i]) == std::numeric_limits<int64_t>::min()) {
        text += "INT64_MIN";
      } else {
        text += std::to_string(static_cast<int64_t>(values[i]));
      }
    }
  };
  const DataType dtype = type.dtype;
  if (dtype == DataType::Float(32)) add(data.Data<float>());
  if (dtype == DataType::Float(64)) add(data.Data<double>());
  if (dtype == DataType::Int(8)) add(data.Data<int8_t>());
  if (dtype == DataType::Int(16)) add(data.Data<int16_t>());
  if (dtype == DataType::Int(32)) add(data.Data<int32_t>());
  if (dtype == DataType::Int(64)) add(data.Data<int64_t>());
  if (dtype == DataType::UInt(8)) add(data.Data<uint8_t>());
  return text;
}

std::string EmitFunction(const std::string& name, const RegionNode& node, const std::vector<Tensor>& inputs) {
  if (IsMatmul(node.op())) return EmitMatmul(name, node, inputs);
  if (BinaryOps().count(node.op()) != 0) return EmitBinary(name, node, inputs);
  if (UnaryOps().count(node.op()) == 0) throw Error(StrCat("there is no C for operator ", node.op()));
  return StrCat(Signature(name, node.type.dtype, 1), "  for (int64_t i = 0; i < ", node.type.size(),
                "; ++i) {\n    out[i] = ", Replace(UnaryExpression(node), 'a', "in_a[i]"), ";\n  }\n}\n");
}

std::string CHeader() {
  return R"(/* Generated by Treadle's external code generator c. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "treadle/runtime/c_types.h"

#define CSOURCE_BINARY_OP_1D(p_ID_, p_OP_, p_DIM1_, p_DTYPE)                                 \
  static void p_ID_(const p_DTYPE* a, const p_DTYPE* b, p_DTYPE* out) {                      \
    for (int64_t i = 0; i < p_DIM1_; ++i) {                                                  \
      out[i] = a[i] p_OP_ b[i];                                                              \
    }                                                                                        \
  }

#define CSOURCE_BINARY_OP_2D(p_ID_, p_OP_, p_DIM1_, p_DIM2_, p_DTYPE)                        \
  static void p_ID_(const p_DTYPE* a, const p_DTYPE* b, p_DTYPE* out) {                      \
    for (int64_t i = 0; i < p_DIM1_; ++i) {                                                  \
      for (int64_t j = 0; j < p_DIM2_; ++j) {                                                \
        int64_t k = i * p_DIM2_ + j;                                                         \
        out[k] = a[k] p_OP_ b[k];                                                            \
      }                                                                                      \
    }                                                                                        \
  }

/* Set by the loader. */
__attribute__((weak)) void (*__TreadleBackendSetLastError)(const char* message) = 0;

static int treadle_fail(const char* message) {
  if (__TreadleBackendSetLastError) __TreadleBackendSetLastError(message);
  return -1;
}

static void* treadle_data(const TreadleValue* args, int i) {
  const DLTensor* tensor = (const DLTensor*)args[i].v_handle;
  return (char*)tensor->data + tensor->byte_offset;
}

/* Whether argument i is a compact tensor of this type and shape. */
static int treadle_check(const TreadleValue* args, const int* codes, int i, int code, int bits, int ndim,
                         const int64_t* shape) {
  if (codes[i] != kTreadleDLTensor && codes[i] != kTreadleNDArray) return 0;
  const DLTensor* tensor = (const DLTensor*)args[i].v_handle;
  if (tensor->ndim != ndim || tensor->dtype.code != code || tensor->dtype.bits != bits) return 0;
  int64_t stride = 1;
  for (int d = ndim - 1; d >= 0; --d) {
    if (tensor->shape[d] != shape[d]) return 0;
    if (tensor->strides != 0 && shape[d] != 1 && tensor->strides[d] != stride) return 0;
    stride *= shape[d];
  }
  return 1;
}

)";
}

std::string CEntry(const std::string& symbol, const std::vector<Tensor>& types, const std::string& arguments) {
  std::string text =
      StrCat("\nTREADLE_API int ", symbol,
             "(TreadleValue* args, int* type_codes, int num_args, TreadleValue* ret, int* ret_code,\n",
             "    void* resource) {\n  (void)ret, (void)ret_code, (void)resource;\n  if (num_args != ", types.size(),
             ") return treadle_fail(\"", symbol, ": num_args should be ", types.size(), "\");\n");
  for (size_t i = 0; i < types.size(); ++i) {
    std::string dims;
    for (int64_t dim : types[i].shape) dims += StrCat(dims.empty() ? "" : ", ", dim);
    text += StrCat("  static const int64_t shape", i, "[] = {", dims.empty() ? "1" : dims, "};\n");
    text +=
        StrCat("  if (!treadle_check(args, type_codes, ", i, ", ", types[i].dtype.code(), ", ", types[i].dtype.bits(),
               ", ", types[i].shape.size(), ", shape", i, ")) {\n    return treadle_fail(\"", symbol, ": argument ", i,
               " should be a compact ", types[i].dtype, " tensor of shape (", dims, ")\");\n  }\n");
  }
  return StrCat(text, "  return ", symbol, "_(", arguments, ");\n}\n");
}

}  // namespace treadle::external
