// SPDX-License-Identifier: Apache-2.0
// The compiler's part: libmyaccel.so, a plug-in for `treadle compile --plugin libmyaccel.so --external myaccel`.
#include <treadle/base/error.h>
#include <treadle/external/codegen.h>
#include <treadle/external/region.h>
#include <treadle/ops/attrs/transform.h>
#include <treadle/runtime/plugin.h>
#include <treadle/runtime/registry.h>

#include "program.h"

namespace myaccel {

using treadle::DataType;
using treadle::Error;
using treadle::GetRef;
using treadle::StrCat;
using treadle::external::Codegen;
using treadle::external::Region;
using treadle::external::RegionNode;
using treadle::external::Tensor;
using treadle::external::TensorOf;
using treadle::relay::CallNode;

namespace {

// --- 1. What the accelerator takes -----------------------------------------------------------------------------------

bool Matrix(const Tensor& tensor) {
  return tensor.shape.size() == 2 && tensor.shape[0] >= 1 && tensor.shape[0] <= kMaxDim && tensor.shape[1] >= 1 &&
         tensor.shape[1] <= kMaxDim;
}

bool TakesDense(const CallNode* call, std::string* reason) {
  const Tensor a = TensorOf(call->args[0]), b = TensorOf(call->args[1]),
               out = TensorOf(GetRef<treadle::relay::Call>(call));
  if (a.dtype != DataType::Int(8) || b.dtype != DataType::Int(8) || out.dtype != DataType::Int(32)) {
    *reason = StrCat("multiplies int8 into int32, not ", a.dtype, " and ", b.dtype, " into ", out.dtype);
    return false;
  }
  if (Matrix(a) && Matrix(b)) return true;
  *reason = "only matrices of at most 16383 rows and columns";
  return false;
}

/// Operators on int32 matrices.
bool TakesWide(const CallNode* call, std::string* reason) {
  const Tensor a = TensorOf(call->args[0]), out = TensorOf(GetRef<treadle::relay::Call>(call));
  if (a.dtype == DataType::Int(32) && Matrix(a) && a.shape == out.shape) return true;
  *reason = "only matrices of int32";
  return false;
}

bool TakesAdd(const CallNode* call, std::string* reason) {
  if (!TakesWide(call, reason)) return false;
  const Tensor a = TensorOf(call->args[0]), b = TensorOf(call->args[1]);
  const bool row = (b.shape.size() == 1 || (b.shape.size() == 2 && b.shape[0] == 1)) && b.shape.back() == a.shape[1];
  if (row || b.shape == a.shape) return true;
  *reason = "adds matrices of one shape, or a row to each row";
  return false;
}

bool TakesShift(const CallNode* call, std::string* reason) {
  if (!TakesWide(call, reason)) return false;
  const auto* amount = call->args[1].as<treadle::relay::ConstantNode>();
  if (amount != nullptr && amount->data.size() == 1 && amount->data.dtype() == DataType::Int(32) &&
      *amount->data.Data<int32_t>() >= 0 && *amount->data.Data<int32_t>() < 32) {
    return true;
  }
  *reason = "shifts by a constant from 0 to 31";
  return false;
}

/// Limits, which the accelerator applies when it narrows to int8: [-128, 127] or [0, 127].
bool TakesClip(const CallNode* call, std::string* reason) {
  if (!TakesWide(call, reason)) return false;
  const auto* attrs = call->attrs_as<treadle::ops::ClipAttrs>();
  if (attrs->a_max == 127 && (attrs->a_min == -128 || attrs->a_min == 0)) return true;
  *reason = "limits to -128 .. 127 or 0 .. 127";
  return false;
}

/// Narrowing of what was limited before: without that, int8 would wrap around, and the accelerator doesn't.
bool TakesCast(const CallNode* call, std::string* reason) {
  const Tensor in = TensorOf(call->args[0]), out = TensorOf(GetRef<treadle::relay::Call>(call));
  const auto* clip = call->args[0].as<CallNode>();
  const auto* op = clip == nullptr ? nullptr : clip->op.as<treadle::OpNode>();
  std::string unused;
  if (in.dtype == DataType::Int(32) && out.dtype == DataType::Int(8) && op != nullptr && op->name == "clip" &&
      TakesClip(clip, &unused)) {
    return true;
  }
  *reason = "narrows int32 to int8 after it was limited";
  return false;
}

// --- 2. From a region to instructions --------------------------------------------------------------------------------

class Compiler {
 public:
  explicit Compiler(const treadle::relay::Function& function) : region_(function), line_(region_.nodes.size(), 0) {}

  treadle::runtime::Module Compile() {
    treadle::Array<treadle::String> constants;
    for (size_t i = 0; i < region_.nodes.size(); ++i) {
      const RegionNode& node = region_.nodes[i];
      line_[i] = Allocate(node.type);
      if (node.kind == RegionNode::kInput) program_.inputs.push_back(PlaceOf(i));
      if (node.kind == RegionNode::kConstant) {
        program_.constants.push_back(PlaceOf(i));
        constants.push_back(StrCat(region_.symbol, "_const_", node.index));
      }
      if (node.kind == RegionNode::kCall) Emit(static_cast<int>(i));
    }
    for (int output : region_.outputs) program_.outputs.push_back(PlaceOf(static_cast<size_t>(output)));
    Encode(Instruction{}, &program_.code);  // halt
    // As bytes with their number: as text it would end at its first zero.
    const std::string program = WriteProgram(program_);
    const TreadleByteArray bytes{program.data(), program.size()};
    return treadle::runtime::Registry::Require("runtime.module.create_myaccel")(region_.symbol, &bytes, constants)
        .As<treadle::runtime::Module>();
  }

 private:
  uint32_t Allocate(const Tensor& type) {
    const uint32_t line = program_.lines;
    program_.lines += static_cast<uint32_t>((type.size() * type.dtype.bytes() + kLineBytes - 1) / kLineBytes);
    return line;
  }
  Place PlaceOf(size_t i) const {
    return {region_.nodes[i].type.shape, region_.nodes[i].type.dtype == DataType::Int(32), line_[i]};
  }
  const RegionNode& Node(int i) const { return region_.nodes[static_cast<size_t>(i)]; }

  void Emit(int index) {
    const RegionNode& node = Node(index);
    Instruction i;
    i.dst = line_[static_cast<size_t>(index)];
    i.a = line_[static_cast<size_t>(node.inputs[0])];
    i.m = static_cast<uint32_t>(node.type.shape[0]);
    i.n = static_cast<uint32_t>(node.type.shape[1]);
    const std::string& op = node.op();
    if (op == "nn.dense") {
      i.op = Op::kDense;
      i.b = line_[static_cast<size_t>(node.inputs[1])];
      i.k = static_cast<uint32_t>(Node(node.inputs[0]).type.shape[1]);
    } else if (op == "add") {
      i.op = Op::kAdd;
      i.b = line_[static_cast<size_t>(node.inputs[1])];
      i.immediate = Node(node.inputs[1]).type.shape != node.type.shape;
    } else if (op == "nn.relu") {
      i.op = Op::kRelu;
    } else if (op == "right_shift") {
      i.op = Op::kShift;
      i.immediate = static_cast<uint8_t>(*Node(node.inputs[1]).data.Data<int32_t>());
    } else if (op == "clip") {
      // Done by the instruction that narrows: this one is a copy, that is a sum with nothing.
      i.op = Op::kShift;
    } else if (op == "cast") {
      i.op = Op::kNarrow;
      i.immediate = Node(node.inputs[0]).call->attrs_as<treadle::ops::ClipAttrs>()->a_min == 0;
    } else {
      throw Error(StrCat("the accelerator has no operator ", op));
    }
    Encode(i, &program_.code);
  }

  const Region region_;
  std::vector<uint32_t> line_;  ///< by node
  Program program_;
};

/// Why a region can't go to the accelerator although each of its operators can. Limits are only applied on the way to
/// int8, so what is limited must be narrowed and nothing else may see it.
std::string Refuse(const treadle::relay::Function& function) {
  const Region region(function);
  for (size_t i = 0; i < region.nodes.size(); ++i) {
    const RegionNode& node = region.nodes[i];
    if (node.kind != RegionNode::kCall || node.op() != "clip") continue;
    int narrowed = 0;
    for (const RegionNode& user : region.nodes) {
      if (user.kind == RegionNode::kCall && user.op() == "cast" && user.inputs[0] == static_cast<int>(i)) ++narrowed;
    }
    if (narrowed != node.uses) return "a limited value is used otherwise than to be narrowed to int8";
  }
  return "";
}

// --- 3. Registration -------------------------------------------------------------------------------------------------

void RequireRuntime() {
  std::string problem;
  if (treadle::runtime::Registry::Get("runtime.module.create_myaccel")) return;
  if (!treadle::runtime::LoadRuntimeOfKind("myaccel", &problem)) {
    throw treadle::TargetError(StrCat("its run-time library can't be loaded: ", problem));
  }
}

void RegisterAccelerator() {
  Codegen codegen;
  codegen.name = "myaccel";
  codegen.doc = "products of int8 matrices and what follows, on the (simulated) accelerator";
  codegen.ops = {{"nn.dense", &TakesDense},    {"add", &TakesAdd},   {"nn.relu", &TakesWide},
                 {"right_shift", &TakesShift}, {"clip", &TakesClip}, {"cast", &TakesCast}};
  codegen.refuse = &Refuse;
  codegen.compile = [](const treadle::relay::Function& region) {
    RequireRuntime();
    return Compiler(region).Compile();
  };
  codegen.require = &RequireRuntime;
  treadle::external::RegisterCodegen(std::move(codegen));
}

}  // namespace
}  // namespace myaccel

TREADLE_PLUGIN("myaccel", myaccel::RegisterAccelerator)
