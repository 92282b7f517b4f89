// SPDX-License-Identifier: Apache-2.0
// Expressions in C.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tir/passes/passes.h"
#include "treadle/runtime/c_types.h"
#include "treadle/runtime/scalar.h"
#include "treadle/targets/c_writer.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::targets {

using tir::CallNode;
using tir::StructField;

namespace {

bool IsSmallFloat(DataType t) { return t.is_floating() && t.bits() < 32; }
/// Formats of which the prelude has conversions, by their names.
bool IsByteFloat(DataType t) { return t.is_float8() && runtime::SmallFloatFormat(t.element_of()).has_value(); }

std::string FloatText(double value, const char* suffix) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "(-INFINITY)";
  std::string text;
  if (value == std::trunc(value) && std::fabs(value) < 1e6) {
    text = FixedText(value, 1);
  } else {
    text = GeneralText(value, 9);
    // Decimal where it says the same, else exact.
    const bool same = *suffix != 0 ? ParseFloat(text) == static_cast<float>(value) : ParseDouble(text) == value;
    if (!same) {
      text = HexFloatText(value);
    } else if (text.find_first_of(".e") == std::string::npos) {
      text += ".0";
    }
  }
  text += suffix;
  return std::signbit(value) ? "(" + text + ")" : text;
}

}  // namespace

bool InParentheses(const std::string& text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return false;
  int depth = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return false;
  }
  return true;
}

std::string CSuffix(DataType t) {
  if (t.is_bool()) return "u8";
  const char* kind = t.is_float() ? "f" : t.is_bfloat16() ? "bf" : t.is_uint() ? "u" : "i";
  return StrCat(kind, t.bits() < 8 ? 8 : t.bits());
}

std::string CValueType(DataType t) {
  if (!t.is_scalar()) throw TargetError(StrCat("C has no vectors (", t, "): lower for target c"));
  if (t.is_handle()) return "void*";
  if (t.is_bool()) return "bool";
  if (t.is_float() && t.bits() == 32) return "float";
  if (t.is_float() && t.bits() == 64) return "double";
  if (t.is_float16() || t.is_bfloat16()) return "uint16_t";
  if (t.is_float8() || t.code() == kDLFloat4_e2m1fn) return "uint8_t";  // its bits
  if (t.is_integral()) return StrCat(t.is_uint() ? "u" : "", "int", t.bits() < 8 ? 8 : t.bits(), "_t");
  throw TargetError(StrCat("C can't compute with dtype ", t));
}

std::string CMemoryType(DataType t) { return t.is_bool() ? "uint8_t" : CValueType(t.element_of()); }

std::string CWriter::VisitExpr(const PrimExpr& e) {
  if (e.as<tir::VarNode>() || e.as<IntImmNode>() || e.as<FloatImmNode>() || e->use_count() <= 1) {
    return ExprBase::VisitExpr(e);
  }
  for (auto memo = memos_.rbegin(); memo != memos_.rend(); ++memo) {
    if (auto it = memo->find(e.get()); it != memo->end()) return it->second;
  }
  std::string text = ExprBase::VisitExpr(e);
  const auto* call = e.as<CallNode>();
  if (e.dtype().is_void() || (call != nullptr && text.empty())) return text;
  std::string name = Temporary(e.dtype(), text);
  memos_.back()[e.get()] = name;
  known_.push_back(e);
  return name;
}

std::string CWriter::VisitExpr_(const IntImmNode* op) {
  if (op->dtype.is_bool()) return op->value != 0 ? "true" : "false";
  if (op->dtype.bits() == 64) {
    if (op->dtype.is_uint()) return StrCat("UINT64_C(", static_cast<uint64_t>(op->value), ")");
    if (op->value == INT64_MIN) return "INT64_MIN";
    return StrCat(op->value < 0 ? "(" : "", "INT64_C(", op->value, ")", op->value < 0 ? ")" : "");
  }
  if (op->dtype.is_uint()) return StrCat(op->value, "u");
  if (op->value == INT32_MIN) return "INT32_MIN";
  return op->value < 0 ? StrCat("(", op->value, ")") : StrCat(op->value);
}

std::string CWriter::VisitExpr_(const FloatImmNode* op) {
  if (IsSmallFloat(op->dtype)) return FromFloat(FloatText(op->value, "f"), op->dtype);
  return FloatText(op->value, op->dtype.bits() == 32 ? "f" : "");
}

std::string CWriter::VisitExpr_(const tir::CastNode* op) {
  return Convert(VisitExpr(op->value), op->value.dtype(), op->dtype);
}

std::string CWriter::Arithmetic(const PrimExpr& ea, const PrimExpr& eb, DataType t, const char* symbol) {
  std::string a = VisitExpr(ea), b = VisitExpr(eb);
  if (IsSmallFloat(t)) return FromFloat(StrCat("(", ToFloat(a, t), " ", symbol, " ", ToFloat(b, t), ")"), t);
  if (t.is_floating() || in_index_ > 0) return StrCat("(", a, " ", symbol, " ", b, ")");
  // Signed overflow isn't defined in C; unsigned wraps.
  const char* u = t.bits() == 64 ? "uint64_t" : "uint32_t";
  return LowBits(StrCat("(", CValueType(t), ")((", u, ")", a, " ", symbol, " (", u, ")", b, ")"), t);
}
std::string CWriter::VisitExpr_(const tir::AddNode* op) { return Arithmetic(op->a, op->b, op->dtype, "+"); }
std::string CWriter::VisitExpr_(const tir::SubNode* op) { return Arithmetic(op->a, op->b, op->dtype, "-"); }
std::string CWriter::VisitExpr_(const tir::MulNode* op) { return Arithmetic(op->a, op->b, op->dtype, "*"); }

std::string CWriter::Helper(const char* name, DataType t, const PrimExpr& a, const PrimExpr& b) {
  std::string x = VisitExpr(a), y = VisitExpr(b);
  return LowBits(StrCat("treadle_", name, "_", CSuffix(t), "(", x, ", ", y, ")"), t);
}
std::string CWriter::VisitExpr_(const tir::DivNode* op) {
  if (op->dtype.is_floating()) return Arithmetic(op->a, op->b, op->dtype, "/");
  return Helper("div", op->dtype, op->a, op->b);
}
std::string CWriter::VisitExpr_(const tir::ModNode* op) { return Helper("mod", op->dtype, op->a, op->b); }
std::string CWriter::VisitExpr_(const tir::FloorDivNode* op) { return Helper("floordiv", op->dtype, op->a, op->b); }
std::string CWriter::VisitExpr_(const tir::FloorModNode* op) { return Helper("floormod", op->dtype, op->a, op->b); }

std::string CWriter::MinMax(const PrimExpr& ea, const PrimExpr& eb, bool is_max) {
  const DataType t = ea.dtype();
  const char* name = is_max ? "max" : "min";
  if (t.is_float() && t.bits() >= 32) return Helper(name, t, ea, eb);
  std::string a = Temporary(t, VisitExpr(ea)), b = Temporary(t, VisitExpr(eb));
  if (IsSmallFloat(t)) {
    return FromFloat(StrCat("treadle_", name, "_f32(", ToFloat(a, t), ", ", ToFloat(b, t), ")"), t);
  }
  return StrCat("(", a, is_max ? " > " : " < ", b, " ? ", a, " : ", b, ")");
}
std::string CWriter::VisitExpr_(const tir::MinNode* op) { return MinMax(op->a, op->b, false); }
std::string CWriter::VisitExpr_(const tir::MaxNode* op) { return MinMax(op->a, op->b, true); }

std::string CWriter::Compare(const PrimExpr& ea, const PrimExpr& eb, const char* symbol) {
  const DataType t = ea.dtype();
  std::string a = VisitExpr(ea), b = VisitExpr(eb);
  if (IsSmallFloat(t)) {
    a = ToFloat(a, t);
    b = ToFloat(b, t);
  }
  return StrCat("(", a, " ", symbol, " ", b, ")");
}

std::string CWriter::VisitExpr_(const tir::SelectNode* op) {
  std::string c = VisitExpr(op->condition), x = VisitExpr(op->true_value), y = VisitExpr(op->false_value);
  return StrCat("(", c, " ? ", x, " : ", y, ")");
}

std::string CWriter::VisitExpr_(const tir::LetNode* op) {
  std::string value = VisitExpr(op->value);
  // Under another Let of the variable in this statement its name is taken, and what was computed there is of no use.
  const bool again = std::any_of(memos_.begin(), memos_.end(), [&](const auto& m) { return m.count(op->var.get()); });
  std::vector<std::unordered_map<const Object*, std::string>> outer;
  if (again) {
    outer = std::exchange(memos_, {{}});
    names_.erase(op->var.get());
  }
  const std::string name = memos_.back()[op->var.get()] = Name(op->var);
  Line(StrCat("const ", CValueType(op->var.dtype()), " ", name, " = ", value, ";"));
  ++temporaries_;
  std::string result = VisitExpr(op->body);
  if (again) memos_ = std::move(outer);
  return result;
}

std::string CWriter::VisitExpr_(const tir::BufferLoadNode* op) {
  std::string element = Element(op->buffer, op->indices);
  return op->dtype.is_bool() ? StrCat("(", element, " != 0)") : LowBits(element, op->dtype);
}

std::string CWriter::Branch(const PrimExpr& e, std::string* lines) {
  TextStream text;
  std::swap(text, out_);
  std::string value;
  const int before = temporaries_;
  Indented([&] { value = VisitExpr(e); });
  temporaries_ = before;
  std::swap(text, out_);
  *lines = text.str();
  return value;
}

std::string CWriter::Conditional(const PrimExpr& condition, const PrimExpr& yes, const PrimExpr& no) {
  std::string c = VisitExpr(condition), yes_lines, no_lines;
  std::string x = Branch(yes, &yes_lines), y = Branch(no, &no_lines);
  if (yes_lines.empty() && no_lines.empty()) return StrCat("(", c, " ? ", x, " : ", y, ")");
  ++temporaries_;
  std::string name = StrCat("t", counter_++);
  Line(StrCat(CValueType(yes.dtype()), " ", name, ";"));
  Line(StrCat("if (", c, ") {"));
  out_ << yes_lines;
  Indented([&] { Line(StrCat(name, " = ", x, ";")); });
  Line("} else {");
  out_ << no_lines;
  Indented([&] { Line(StrCat(name, " = ", y, ";")); });
  Line("}");
  return name;
}

std::string CWriter::Logic(const PrimExpr& a, const PrimExpr& b, bool is_and) {
  std::string x = VisitExpr(a), lines;
  std::string y = Branch(b, &lines);
  if (lines.empty()) return StrCat("(", x, is_and ? " && " : " || ", y, ")");
  ++temporaries_;
  std::string name = StrCat("t", counter_++);
  Line(StrCat("bool ", name, " = ", x, ";"));
  Line(StrCat("if (", is_and ? "" : "!", name, ") {"));
  out_ << lines;
  Indented([&] { Line(StrCat(name, " = ", y, ";")); });
  Line("}");
  return name;
}

std::string CWriter::ToFloat(const std::string& x, DataType t) const {
  if (t.is_bfloat16()) return StrCat("treadle_from_bf16(", x, ")");
  if (t.is_float16()) return StrCat("treadle_from_f16(", x, ")");
  if (IsByteFloat(t)) return StrCat("treadle_from_", t.element_of(), "(", x, ")");
  throw TargetError(StrCat("the ", Language(), " backend can't compute with dtype ", t));
}
std::string CWriter::FromFloat(const std::string& x, DataType t) const {
  if (t.is_bfloat16()) return StrCat("treadle_to_bf16(", x, ")");
  if (t.is_float16()) return StrCat("treadle_to_f16(", x, ")");
  if (IsByteFloat(t)) return StrCat("treadle_to_", t.element_of(), "(", x, ")");
  throw TargetError(StrCat("the ", Language(), " backend can't compute with dtype ", t));
}
std::string CWriter::Convert(const std::string& x, DataType from, DataType to) const {
  if (from == to) return x;
  if (IsSmallFloat(from)) return Convert(ToFloat(x, from), DataType::Float(32), to);
  if (IsSmallFloat(to)) return FromFloat(Convert(x, from, DataType::Float(32)), to);
  if (to.is_bool()) return StrCat("(", x, " != 0)");
  if (from.is_floating() && to.is_integral()) {
    const std::string suffix = to.bits() < 8 ? StrCat(to.is_uint() ? "u" : "i", to.bits()) : CSuffix(to);
    return StrCat("treadle_to_", suffix, "((double)", x, ")");
  }
  return LowBits(StrCat("((", CValueType(to), ")", x, ")"), to);
}
std::string CWriter::LowBits(const std::string& x, DataType t) {
  if (!t.is_integral() || t.is_bool() || t.bits() >= 8) return x;
  const int mask = (1 << t.bits()) - 1, sign = 1 << (t.bits() - 1);
  if (t.is_uint()) return StrCat("((", CValueType(t), ")(", x, " & ", mask, "))");
  return StrCat("((", CValueType(t), ")(((", x, " & ", mask, ") ^ ", sign, ") - ", sign, "))");
}

std::string CWriter::Element(const tir::Buffer& buffer, const Array<PrimExpr>& indices) {
  TREADLE_ICHECK(indices.size() <= 1) << "buffer " << buffer->name << " isn't flattened";
  ++in_index_;
  std::string index = indices.empty() ? "0" : VisitExpr(indices[0]);
  --in_index_;
  std::string data = VisitExpr(buffer->data);
  const auto* pointer = buffer->data->type_annotation.as<PointerTypeNode>();
  const auto* element = pointer != nullptr ? pointer->element_type.as<PrimTypeNode>() : nullptr;
  if (element == nullptr || element->dtype != buffer->dtype) {
    data = StrCat("((", PointerTo(buffer->data, CMemoryType(buffer->dtype)), ")", data, ")");
  }
  if (InParentheses(index)) index = index.substr(1, index.size() - 2);  // the brackets do
  return StrCat(data, "[", index, "]");
}

std::string CWriter::StructGet(const CallNode* op) {
  static const std::unordered_map<int, const char*> fields = {
      {static_cast<int>(StructField::kData), "data"},
      {static_cast<int>(StructField::kShape), "shape"},
      {static_cast<int>(StructField::kStrides), "strides"},
      {static_cast<int>(StructField::kNDim), "ndim"},
      {static_cast<int>(StructField::kTypeCode), "dtype.code"},
      {static_cast<int>(StructField::kTypeBits), "dtype.bits"},
      {static_cast<int>(StructField::kTypeLanes), "dtype.lanes"},
      {static_cast<int>(StructField::kByteOffset), "byte_offset"},
      {static_cast<int>(StructField::kDeviceId), "device.device_id"},
      {static_cast<int>(StructField::kDeviceType), "device.device_type"}};
  const DataType t = op->dtype;
  const int field = static_cast<int>(tir::as_int(op->args[2], "field"));
  std::string base = VisitExpr(op->args[0]), index = VisitExpr(op->args[1]);
  if (field == static_cast<int>(StructField::kValue)) {
    const char* member = t.is_handle() ? "v_handle" : t.is_floating() ? "v_float64" : "v_int64";
    std::string value = StrCat("((TreadleArg*)", base, ")[", index, "].", member);
    if (t.is_handle()) return value;
    return Convert(value, t.is_floating() ? DataType::Float(64) : DataType::Int(64), t);
  }
  std::string value = StrCat("((TreadleTensor*)", base, ")[", index, "].", fields.at(field));
  return t.is_handle() ? value : StrCat("((", CValueType(t), ")", value, ")");
}

std::string CWriter::Reinterpret(const CallNode* op) {
  const DataType from = op->args[0].dtype(), t = op->dtype;
  std::string x = VisitExpr(op->args[0]);
  if (from.is_floating() == t.is_floating() || IsSmallFloat(from) || IsSmallFloat(t)) {
    return LowBits(StrCat("((", CValueType(t), ")", x, ")"), t);
  }
  return StrCat("treadle_bits_", CSuffix(from), "_", CSuffix(t), "(", x, ")");
}

std::string CWriter::BitCall(const std::string& name, const CallNode* op) {
  const DataType t = op->dtype, from = op->args.empty() ? t : op->args[0].dtype();
  if (name == "shift_left") return Helper("shl", t, op->args[0], op->args[1]);
  if (name == "shift_right") return Helper("shr", t, op->args[0], op->args[1]);
  static const std::unordered_map<std::string, const char*> bits = {
      {"bitwise_and", "&"}, {"bitwise_or", "|"}, {"bitwise_xor", "^"}};
  if (auto it = bits.find(name); it != bits.end()) {
    std::string a = VisitExpr(op->args[0]);
    return StrCat("(", CValueType(t), ")(", a, " ", it->second, " ", VisitExpr(op->args[1]), ")");
  }
  if (name == "bitwise_not") {
    return t.is_bool() ? StrCat("!", VisitExpr(op->args[0]))
                       : LowBits(StrCat("(", CValueType(t), ")(~", VisitExpr(op->args[0]), ")"), t);
  }
  if (name == "popcount" || name == "clz") {
    const DataType bits = DataType::UInt(from.bits());
    std::string x = StrCat("(uint64_t)", LowBits(StrCat("(", CValueType(bits), ")", VisitExpr(op->args[0])), bits));
    if (name == "popcount") return StrCat("((", CValueType(t), ")treadle_popcount(", x, "))");
    return StrCat("((", CValueType(t), ")treadle_clz(", x, ", ", from.bits(), "))");
  }
  if (name == "fabs" && from.is_integral()) {
    std::string x = Temporary(from, VisitExpr(op->args[0]));
    if (from.is_uint()) return x;
    const char* u = from.bits() == 64 ? "uint64_t" : "uint32_t";
    return StrCat("(", CValueType(t), ")(", x, " < 0 ? (", u, ")0 - (", u, ")", x, " : (", u, ")", x, ")");
  }
  return "";
}

std::string CWriter::FloatCall(const std::string& name, const CallNode* op) {
  const DataType t = op->dtype, from = op->args.empty() ? t : op->args[0].dtype();
  const bool small = IsSmallFloat(from);
  auto argument = [&](size_t i) {
    std::string x = VisitExpr(op->args[i]);
    return small ? ToFloat(x, from) : x;
  };
  if (name == "isnan") {
    std::string x = Temporary(small ? DataType::Float(32) : from, argument(0));
    return StrCat("(", x, " != ", x, ")");
  }
  static const std::unordered_map<std::string, const char*> math = {
      {"sqrt", "sqrt"}, {"floor", "floor"},       {"ceil", "ceil"},           {"trunc", "trunc"}, {"fabs", "fabs"},
      {"fma", "fma"},   {"copysign", "copysign"}, {"nearbyint", "nearbyint"}, {"fmod", "fmod"}};
  auto it = math.find(name);
  if (it == math.end() || !from.is_floating()) return "";
  std::string text = StrCat(it->second, from.bits() == 64 ? "" : "f", "(");
  for (size_t i = 0; i < op->args.size(); ++i) text += (i == 0 ? "" : ", ") + argument(i);
  text += ")";
  return small ? FromFloat(text, t) : text;
}

std::string CWriter::ExternCall(const CallNode* op) {
  const std::string& name = Downcast<tir::StringImm>(op->args[0])->value;
  std::string text = name + "(", types;
  for (size_t i = 1; i < op->args.size(); ++i) {
    const PrimExpr& e = op->args[i];
    std::string type = CValueType(e.dtype());
    const auto* address = e.as<CallNode>();
    const auto* load = address != nullptr && tir::IsCallTo(address, "tir.address_of")
                           ? address->args[0].as<tir::BufferLoadNode>()
                           : nullptr;
    if (e.as<tir::StringImmNode>()) type = "const char*";
    if (load != nullptr) type = CMemoryType(load->buffer->dtype) + std::string("*");
    text += (i == 1 ? "" : ", ") + VisitExpr(e);
    types += (i == 1 ? "" : ", ") + type;
  }
  externs_[name] = StrCat(CValueType(op->dtype), " ", name, "(", types.empty() ? "void" : types, ");");
  return text + ")";
}

std::string CWriter::PackedCall(const CallNode* op) {
  if (std::string(Language()) != "c") {
    throw TargetError(StrCat("the ", Language(), " backend can't call registered functions within kernels"));
  }
  const std::string id = StrCat(counter_++);
  const std::string args = "args" + id, codes = "codes" + id, callee = "callee" + id;
  const size_t count = op->args.size() - 1;
  Line(StrCat("TreadleArg ", args, "[", count + 1, "];"));
  Line(StrCat("int ", codes, "[", count + 1, "];"));
  Line(StrCat("void* ", callee, " = NULL;"));
  ++temporaries_;
  for (size_t i = 0; i < count; ++i) {
    const PrimExpr& e = op->args[i + 1];
    const auto* tensor = e.as<CallNode>();
    std::string member = "v_int64", value;
    int code = kTreadleInt;
    if (const auto* text = e.as<tir::StringImmNode>()) {
      member = "v_handle", value = "(void*)(uintptr_t)" + Quote(text->value), code = kTreadleStr;
    } else if (tensor != nullptr && tir::IsCallTo(tensor, "tir.tvm_stack_make_array")) {
      const DataType t = tensor->args[1].dtype();
      const std::string name = StrCat("tensor", id, "_", i);
      const size_t rank = tensor->args.size() - 2;
      Line(StrCat("int64_t ", name, "_shape[", std::max<size_t>(rank, 1), "];"));
      for (size_t d = 0; d < rank; ++d) {
        Line(StrCat(name, "_shape[", d, "] = ", VisitExpr(tensor->args[d + 2]), ";"));
      }
      Line(StrCat("TreadleTensor ", name, ";"));
      Line(StrCat("memset(&", name, ", 0, sizeof(", name, "));"));
      Line(StrCat(name, ".data = ", VisitExpr(tensor->args[0]), ";"));
      Line(StrCat(name, ".device.device_type = 1;"));
      Line(StrCat(name, ".ndim = ", rank, ";"));
      Line(StrCat(name, ".dtype.code = ", static_cast<int>(t.code()), ";"));
      Line(StrCat(name, ".dtype.bits = ", static_cast<int>(t.bits()), ";"));
      Line(StrCat(name, ".dtype.lanes = 1;"));
      Line(StrCat(name, ".shape = ", name, "_shape;"));
      member = "v_handle", value = "&" + name, code = kTreadleDLTensor;
    } else if (e.dtype().is_handle()) {
      member = "v_handle", value = VisitExpr(e), code = kTreadleHandle;
    } else if (e.dtype().is_floating()) {
      member = "v_float64", value = Convert(VisitExpr(e), e.dtype(), DataType::Float(64)), code = kTreadleFloat;
    } else {
      value = StrCat("(int64_t)", VisitExpr(e));
    }
    Line(StrCat(args, "[", i, "].", member, " = ", value, ";"));
    Line(StrCat(codes, "[", i, "] = ", code, ";"));
  }
  Line(StrCat(args, "[", count, "].v_int64 = 0;"));
  Line(StrCat(codes, "[", count, "] = ", static_cast<int>(kTreadleNull), ";"));
  const std::string& name = Downcast<tir::StringImm>(op->args[0])->value;
  calls_packed_ = true;
  Line(StrCat("if (treadle_call_packed(", Quote(name), ", &", callee, ", ", args, ", ", codes, ", ", count,
              ") != 0) {"));
  Indented([&] { Return("-1"); });
  Line("}");
  if (op->dtype.is_handle()) return StrCat(args, "[", count, "].v_handle");
  if (op->dtype.is_floating()) {
    return Convert(StrCat(args, "[", count, "].v_float64"), DataType::Float(64), op->dtype);
  }
  return Convert(StrCat(args, "[", count, "].v_int64"), DataType::Int(64), op->dtype);
}

std::string CWriter::OwnIntrinsic(const std::string&, const CallNode*, bool* known) {
  *known = false;
  return "";
}

std::string CWriter::VisitExpr_(const CallNode* op) {
  if (const auto* callee = op->op.as<GlobalVarNode>()) {
    std::string text = callee->name_hint + "(";
    for (size_t i = 0; i < op->args.size(); ++i) text += (i == 0 ? "" : ", ") + VisitExpr(op->args[i]);
    return text + ")";
  }
  const auto* intrinsic = op->op.as<OpNode>();
  TREADLE_ICHECK(intrinsic != nullptr) << "call of an unknown function";
  const std::string name = intrinsic->name.substr(4);
  bool known = true;
  std::string own = OwnIntrinsic(name, op, &known);
  if (known) return own;
  if (name == "if_then_else") return Conditional(op->args[0], op->args[1], op->args[2]);
  if (name == "likely") return VisitExpr(op->args[0]);
  if (name == "assume" || name == "prefetch") return "";
  if (name == "isnullptr") return StrCat("(", VisitExpr(op->args[0]), " == NULL)");
  if (name == "ret") {
    Return(VisitExpr(op->args[0]));
    return "";
  }
  if (name == "reinterpret") return Reinterpret(op);
  if (name == "tvm_struct_get") return StructGet(op);
  if (name == "call_extern" || name == "call_pure_extern") return ExternCall(op);
  if (name == "tvm_call_packed") return PackedCall(op);
  if (name == "address_of") {
    const auto* load = op->args[0].as<tir::BufferLoadNode>();
    if (load != nullptr) return StrCat("((void*)&", Element(load->buffer, load->indices), ")");
  }
  std::string text = BitCall(name, op);
  if (text.empty()) text = FloatCall(name, op);
  if (!text.empty()) return text;
  if (const PrimExpr plain = tir::ExpandByteOp(op); plain.defined()) return VisitExpr(plain);
  throw TargetError(StrCat("the ", Language(), " backend doesn't know the intrinsic tir.", name, " of ", op->dtype));
}

}  // namespace treadle::targets
