// SPDX-License-Identifier: Apache-2.0
// The calling convention: argument checks, binding of symbolic dimensions to the arguments' shapes, and the split of
// a function into its body and what checks the arguments.
#include "tir/passes/argument_table.h"
#include "tir/passes/pass_util.h"
#include "tir/passes/return_values.h"
#include "tir/passes/split_host_device.h"
#include "treadle/runtime/c_types.h"

namespace treadle::tir {
namespace {

const DataType kInt32 = DataType::Int(32);
const DataType kInt64 = DataType::Int(64);
const DataType kPointer = DataType::Handle();

PrimExpr Field(const Var& handle, StructField field, DataType dtype) {
  return CallIntrin(dtype, "tir.tvm_struct_get", {handle, IntImm(kInt32, 0), IntImm(kInt32, static_cast<int>(field))});
}
PrimExpr IsNull(const PrimExpr& pointer) { return CallIntrin(DataType::Bool(), "tir.isnullptr", {pointer}); }

/// Writes the packed function: a list of bindings and checks around the call of the body.
class ArgBinder {
 public:
  ArgBinder(const PrimFunc& func, std::string name) : func_(func), name_(std::move(name)) {
    if (auto type = func->GetAttr<IntImm>(kDeviceType)) device_type_ = static_cast<int>((*type)->value);
  }

  SplitFunction Run(bool with_packed) {
    SplitFunction result;
    result.name = name_;
    Var args("args", PointerType(PrimType(kInt64))), codes("type_codes", PointerType(PrimType(kInt32)));
    Var num_args("num_args", kInt32), ret("ret", kPointer), ret_code("ret_code", kPointer),
        resource("resource", kPointer);
    codes_ = Buffer(codes, kInt32, {IntImm(kInt32, static_cast<int64_t>(func_->params.size()))}, {}, PrimExpr(),
                    "type_codes");
    const auto count = static_cast<int64_t>(func_->params.size());
    Assert(equal(num_args, IntImm(kInt32, count)), StrCat(name_, ": num_args should be ", count));
    Array<PrimExpr> call_args;
    Array<Var> params;
    for (size_t i = 0; i < func_->params.size(); ++i) {
      const Var& param = func_->params[i];
      PrimExpr value = CallIntrin(
          param.dtype(), "tir.tvm_struct_get",
          {args, IntImm(kInt32, static_cast<int64_t>(i)), IntImm(kInt32, static_cast<int>(StructField::kValue))});
      CheckCode(i, param.dtype());
      Let(param, value);
      auto buffer = func_->buffer_map.Get(param);
      if (!buffer) {
        scalars_.push_back(param);
        known_.insert(param.get());
      } else {
        tensors_.push_back({i, param, *buffer});
      }
    }
    for (const Tensor& tensor : tensors_) BindTensor(tensor);
    CheckDeferred();
    if (device_type_ != kDLCPU) SetDevice();
    for (const Tensor& tensor : tensors_) {
      params.push_back(tensor.buffer->data);
      call_args.push_back(tensor.buffer->data);
      result.buffers.push_back(tensor.buffer);
    }
    for (const Var& scalar : scalars_) {
      params.push_back(scalar);
      call_args.push_back(scalar);
      result.scalars.push_back(scalar);
    }
    DictAttrs attrs = func_->attrs;
    Stmt compute = func_->body;
    if (ReturnsValue(func_)) {
      Var value("ret_value", PointerType(PrimType(kInt64))), code("ret_code", PointerType(PrimType(kInt32)));
      compute = StoreReturnValues(compute, value, code);
      for (const Var& pointer : {value, code}) params.push_back(pointer);
      for (const Var& pointer : {ret, ret_code}) call_args.push_back(pointer);
      result.returns_value = true;
    }
    result.compute = PrimFunc(params, compute, PrimType(kInt32), {}, attrs);
    if (!with_packed) return result;
    Stmt body = Evaluate(ReturnValue(Call(kInt32, GlobalVar(name_ + "__compute"), call_args)));
    for (size_t i = wrappers_.size(); i-- > 0;) body = wrappers_[i](body);
    result.packed = PrimFunc({args, codes, num_args, ret, ret_code, resource}, body, PrimType(kInt32), {}, attrs);
    return result;
  }

 private:
  struct Tensor {
    size_t index;
    Var handle;
    Buffer buffer;
  };
  struct Deferred {
    PrimExpr expected, actual;
    std::string message, what;
  };

  void Let(const Var& var, const PrimExpr& value) {
    wrappers_.push_back([=](const Stmt& body) { return LetStmt(var, value, body); });
  }
  void Assert(const PrimExpr& condition, const std::string& message) {
    wrappers_.push_back([=](const Stmt& body) { return AssertStmt(condition, StringImm(message), body); });
  }

  void CheckCode(size_t i, DataType dtype) {
    PrimExpr code = BufferLoad(codes_, {IntImm(kInt32, static_cast<int64_t>(i))});
    auto is = [&](int value) { return equal(code, IntImm(kInt32, value)); };
    const std::string expect = StrCat(name_, ": Expect arg[", i, "] to be ");
    if (dtype.is_handle()) {
      Assert(is(kTreadleHandle) || is(kTreadleDLTensor) || is(kTreadleNDArray) || is(kTreadleNull), expect + "pointer");
    } else if (dtype.is_floating()) {
      Assert(is(kTreadleFloat), expect + "float");
    } else {
      Assert(is(kTreadleInt), expect + "int");
    }
  }

  /// The dimension is bound by its first use as a variable or a multiple of one; every other use is a check.
  void BindValue(const PrimExpr& expected, const PrimExpr& actual, const std::string& what) {
    if (const auto [var, multiple] = MultipleOfVar(expected); var != nullptr && known_.insert(var).second) {
      Var symbol = GetRef<Var>(var);
      Let(symbol, cast(symbol.dtype(), multiple == 1 ? actual : floordiv(actual, IntImm(actual.dtype(), multiple))));
      scalars_.push_back(symbol);
      if (multiple == 1) return;
    }
    std::string value;
    if (const int64_t* constant = AsConstInt(expected)) {
      value = std::to_string(*constant);
    } else if (const auto* var = expected.as<VarNode>()) {
      value = var->name_hint;
    } else {
      value = "a dimension computed from other arguments";
    }
    deferred_.push_back({expected, actual, StrCat(name_, ": ", what, " is expected to equal ", value, about_), what});
  }

  void CheckDeferred() {
    for (const Deferred& check : deferred_) {
      std::unordered_set<const Object*> used;
      CollectVars(check.expected, &used);
      for (const Object* var : used) {
        if (known_.count(var) == 0) {
          throw Error(StrCat(name_, ": ", check.what, ": no argument's shape gives the value of ",
                             static_cast<const VarNode*>(var)->name_hint));
        }
      }
      Assert(equal(cast(kInt64, check.expected), check.actual), check.message);
    }
  }

  /// The type that arguments are expected to have.
  DataType ElementType(const Tensor& tensor) const {
    auto types = func_->GetAttr<Map<Var, String>>(kCustomTypes);
    auto custom = types ? types->Get(tensor.handle) : std::nullopt;
    return custom ? DataType::FromString(*custom) : tensor.buffer->dtype;
  }

  void BindTensor(const Tensor& tensor) {
    const Var& handle = tensor.handle;
    const Buffer& buffer = tensor.buffer;
    const std::string arg = StrCat("arg", tensor.index);
    about_ = StrCat(" (tensor ", buffer->name, ")");
    const auto rank = static_cast<int64_t>(buffer->shape.size());
    Assert(!IsNull(handle), StrCat(name_, ": ", arg, " is expected to be a tensor, not null", about_));
    Assert(equal(Field(handle, StructField::kNDim, kInt32), IntImm(kInt32, rank)),
           StrCat(name_, ": ", arg, ".ndim is expected to equal ", rank, about_));
    const DataType dtype = ElementType(tensor);
    PrimExpr code = Field(handle, StructField::kTypeCode, kInt32), bits = Field(handle, StructField::kTypeBits, kInt32);
    PrimExpr same = equal(code, IntImm(kInt32, dtype.code())) && equal(bits, IntImm(kInt32, dtype.bits()));
    if (dtype.is_bool()) {  // bools come as DLPack's own kind or as bytes of 0 and 1
      same = same || (equal(code, IntImm(kInt32, kDLBool)) && equal(bits, IntImm(kInt32, 8)));
    }
    Assert(same && equal(Field(handle, StructField::kTypeLanes, kInt32), IntImm(kInt32, dtype.lanes())),
           StrCat(name_, ": ", arg, ".dtype is expected to be ", dtype, about_));
    Var shape(arg + "_shape", PointerType(PrimType(kInt64))), strides(arg + "_strides", PointerType(PrimType(kInt64)));
    Buffer shape_buffer(shape, kInt64, {IntImm(kInt32, rank)}, {}, PrimExpr(), arg + "_shape");
    Buffer stride_buffer(strides, kInt64, {IntImm(kInt32, rank)}, {}, PrimExpr(), arg + "_strides");
    Let(shape, Field(handle, StructField::kShape, kPointer));
    Let(strides, Field(handle, StructField::kStrides, kPointer));
    for (int64_t k = 0; k < rank; ++k) {
      BindValue(buffer->shape[static_cast<size_t>(k)], BufferLoad(shape_buffer, {IntImm(kInt32, k)}),
                StrCat(arg, ".shape[", k, "]"));
    }
    if (buffer->strides.empty()) {
      CheckCompact(tensor, strides, shape_buffer, stride_buffer, arg);
    } else {
      Assert(!IsNull(strides), StrCat(name_, ": ", arg, ".strides: expected not to be null", about_));
      for (int64_t k = 0; k < rank; ++k) {
        BindValue(buffer->strides[static_cast<size_t>(k)], BufferLoad(stride_buffer, {IntImm(kInt32, k)}),
                  StrCat(arg, ".strides[", k, "]"));
      }
    }
    Assert(equal(Field(handle, StructField::kDeviceType, kInt32), IntImm(kInt32, device_type_)),
           StrCat(name_, ": ", arg, ".device_type is expected to be ", device_type_, about_));
    if (buffer->elem_offset.defined() && buffer->elem_offset.as<VarNode>()) {
      const int64_t size = std::max<int64_t>(1, dtype.bytes()) * dtype.lanes();
      BindValue(buffer->elem_offset, floordiv(Field(handle, StructField::kByteOffset, kInt64), IntImm(kInt64, size)),
                StrCat(arg, ".byte_offset"));
    } else {
      Assert(equal(Field(handle, StructField::kByteOffset, kInt64), IntImm(kInt64, 0)),
             StrCat(name_, ": ", arg, ".byte_offset is expected to equal 0", about_));
    }
    Let(buffer->data, Field(handle, StructField::kData, kPointer));
  }

  /// Launches go to the device that the arguments are on, which must be one.
  void SetDevice() {
    if (tensors_.empty()) return;
    PrimExpr first = Field(tensors_[0].handle, StructField::kDeviceId, kInt32);
    for (size_t i = 1; i < tensors_.size(); ++i) {
      Assert(equal(Field(tensors_[i].handle, StructField::kDeviceId, kInt32), first),
             StrCat(name_, ": arg", tensors_[i].index, ".device_id is expected to be that of arg", tensors_[0].index));
    }
    Stmt set = Evaluate(CallPacked(kPointer, "__tvm_set_device", {IntImm(kInt32, device_type_), first}));
    wrappers_.push_back([=](const Stmt& body) { return SeqStmt::Flatten({set, body}); });
  }

  /// Strides may be absent; a dimension of extent 1 may have any.
  void CheckCompact(const Tensor& tensor, const Var& strides, const Buffer& shape_buffer, const Buffer& stride_buffer,
                    const std::string& arg) {
    const size_t rank = tensor.buffer->shape.size();
    if (rank == 0) return;
    PrimExpr expected = IntImm(kInt64, 1), compact = make_bool(true), empty = make_bool(false);
    for (size_t k = rank; k-- > 0;) {
      PrimExpr position = IntImm(kInt32, static_cast<int64_t>(k));
      PrimExpr extent = BufferLoad(shape_buffer, {position});
      compact = compact && (equal(extent, IntImm(kInt64, 1)) || equal(BufferLoad(stride_buffer, {position}), expected));
      empty = empty || equal(extent, IntImm(kInt64, 0));
      expected = expected * extent;
    }
    Assert(IsNull(strides) || empty || compact,
           StrCat(name_, ": ", arg, ".strides: expected to be compact array", about_));
  }

  const PrimFunc& func_;
  std::string name_;
  std::string about_;  ///< whose argument messages are about
  int device_type_ = kDLCPU;
  Buffer codes_;
  std::vector<std::function<Stmt(const Stmt&)>> wrappers_;
  std::vector<Tensor> tensors_;
  std::vector<Var> scalars_;
  std::vector<Deferred> deferred_;
  std::unordered_set<const Object*> known_;
};

}  // namespace

SplitFunction MakePackedApi(const PrimFunc& func, bool with_packed) {
  auto name = func->GetAttr<String>(treadle::attr::kGlobalSymbol);
  if (!name) throw Error("a function that is to be compiled needs the attribute global_symbol, its name");
  return ArgBinder(func, name->str()).Run(with_packed);
}

}  // namespace treadle::tir
