// SPDX-License-Identifier: Apache-2.0
// Compiles one graph function to instructions of the virtual machine.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/vm/equal_sizes.h"
#include "driver/vm/function_builder.h"
#include "driver/vm/symbolic_kernel.h"
#include "driver/vm/vm_codegen.h"
#include "treadle/arith/analyzer.h"
#include "treadle/driver/dim_range.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/size_forms.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/vm/values.h"

namespace treadle::driver {

/// What the functions of one program share.
class VmProgramBuilder {
 public:
  VmProgramBuilder(IRModule module, const DeclareKernel& declare, bool has_devices)
      : module(std::move(module)), has_devices(has_devices), declare_(declare) {}

  VmProgram Run();
  /// Index of a global function, which is compiled when it is first asked for.
  int GlobalFunction(const GlobalVar& var);
  /// Index of a new function that takes `captured`, then the parameters of `func`. `self` (may be null) is the variable
  /// that `func` is bound to: its own name inside.
  int AddClosure(const relay::Function& func, const Array<relay::Var>& captured, const relay::Var& self);
  int Constant(const runtime::NDArray& value);
  int String(const std::string& text);
  struct KernelRef {
    int index;
    int device_type;
  };
  KernelRef Kernel(const relay::Function& func, uint32_t tensors, uint32_t outputs);

  IRModule module;
  bool has_devices;  ///< kernels run elsewhere than on the CPU

 private:
  struct Pending {
    relay::Function func;
    Array<relay::Var> captured;
    relay::Var self = relay::Var(ObjectPtr<Object>());
    std::string name;
  };
  int AddPending(Pending pending);

  const DeclareKernel& declare_;
  VmProgram result_;
  std::vector<Pending> pending_;
  std::unordered_map<std::string, int> globals_, strings_, kernels_;
  std::unordered_map<const Object*, int> constants_;
};

inline constexpr int kUnknownDevice = 0;

/// A value while a function is compiled.
struct VmValue {
  Type type;                         ///< dimensions are constants or expressions that EmitInt computes
  int reg = -1;                      ///< -1: not in a register (yet)
  int device_type = kUnknownDevice;  ///< of a tensor in a register
  std::map<int, int> copies;         ///< registers of what was copied, by device type
  bool is_tuple = false;
  std::vector<std::shared_ptr<VmValue>> fields;  ///< of a tuple
  std::vector<PrimExpr> elements;                ///< of an integer tensor whose elements are known as expressions
  bool has_elements = false;
  runtime::NDArray constant = runtime::NDArray(ObjectPtr<Object>());  ///< of a constant
  int function = -1;  ///< of a function that is known: its index, `fields` are captured
  bool is_function = false;
};
using VmValuePtr = std::shared_ptr<VmValue>;

class VmFunctionCompiler {
 public:
  VmFunctionCompiler(VmProgramBuilder* program, size_t num_params) : program_(program), out_(num_params) {}

  /// `self`: the variable (may be null) that stands for the function itself, of index `index`.
  runtime::vm::Function Compile(const relay::Function& func, const Array<relay::Var>& captured, const relay::Var& self,
                                int index, const std::string& name);

 private:
  /// Instructions that are written meanwhile are of these nodes; "": of none.
  class OriginScope {
   public:
    OriginScope(VmFunctionCompiler* compiler, const std::string& nodes);
    ~OriginScope() { out_->SetOrigin(before_); }
    OriginScope(const OriginScope&) = delete;
    OriginScope& operator=(const OriginScope&) = delete;

   private:
    VmFunctionBuilder* out_;
    int before_;
  };

  // ---- Expressions.
  VmValuePtr Visit(const relay::Expr& e);
  VmValuePtr Compute(const relay::Expr& e);
  VmValuePtr VisitDataFlow(const relay::Expr& root);
  VmValuePtr VisitCall(const relay::CallNode* call);
  VmValuePtr VisitLet(const relay::LetNode* let, bool tail);
  VmValuePtr VisitFunction(const relay::Function& func, const relay::Var& self);
  VmValuePtr VisitItem(const relay::TupleGetItemNode* item);
  VmValuePtr VisitConstant(const relay::ConstantNode* constant);
  /// Compiles `e` and returns its value from the function.
  void Tail(const relay::Expr& e);
  void TailCall(const relay::CallNode* call);
  VmValuePtr Inline(const relay::FunctionNode* func, const std::vector<VmValuePtr>& args, bool tail);
  std::vector<VmValuePtr> VisitAll(const Array<relay::Expr>& exprs);

  // ---- Branches.
  VmValuePtr VisitIf(const relay::IfNode* op, bool tail);
  VmValuePtr VisitMatch(const relay::MatchNode* op, bool tail);
  /// Jumps that are taken where the value doesn't match; binds the pattern's variables.
  void MatchPattern(const relay::Pattern& pattern, const VmValuePtr& value, std::vector<size_t>* fail);
  /// Registers that receive a value of the type from several branches, and moves into them.
  VmValuePtr JoinTarget(const Type& type);
  void MoveInto(const VmValuePtr& target, const VmValuePtr& value);
  void FinishJoin(const VmValuePtr& target);

  // ---- Kernels.
  VmValuePtr CallKernel(const relay::Function& func, const std::vector<VmValuePtr>& args);
  /// A size of what `func` returns for the operands. The run checks that it isn't negative where that isn't known.
  PrimExpr SizeOfResult(const relay::Function& func, const PrimExpr& dim, const std::vector<VmValuePtr>& operands);
  SizeForm FormForOne(const SymbolicKernel& kernel, const OpAttrKey<ops::FFormForOne>& key);
  void EmitKernel(const SymbolicKernel& kernel, const std::vector<int>& operands, size_t outputs);
  VmValuePtr EmitExpansion(const SymbolicKernel& kernel, const std::vector<VmValuePtr>& tensors,
                           std::vector<int> operands, size_t expanded, const TensorType& result);
  VmValuePtr CallOperator(const relay::CallNode* call, const std::vector<VmValuePtr>& args);
  VmValuePtr CallRows(const relay::CallNode* call, const std::vector<VmValuePtr>& args);
  VmValuePtr EmitDeviceCopy(const VmValuePtr& input, int device_type);
  VmValuePtr EmitReshape(const VmValuePtr& input, const TensorType& type);
  VmValuePtr TryElements(const SymbolicKernel& kernel, const std::vector<VmValuePtr>& tensors);
  PrimExpr ElementOf(const VmValuePtr& tensor, int64_t index);

  // ---- Values.
  /// The object register of a value.
  int Register(const VmValuePtr& value);
  /// The register of a tensor that is on a device: another one than Register's where it was copied.
  int RegisterOn(const VmValuePtr& value, int device_type);
  int HostRegister(const VmValuePtr& value) { return RegisterOn(value, kDLCPU); }
  std::vector<int> Registers(const std::vector<VmValuePtr>& values);
  /// A value that is in a register, with dimensions that only its type's constants tell.
  VmValuePtr FromRegister(int reg, const Type& type);
  VmValuePtr TensorValue(int reg, const Type& type);
  VmValuePtr MakeTuple(std::vector<VmValuePtr> fields);
  VmValuePtr Field(const VmValuePtr& tuple, int index);
  static void FlattenTensors(const VmValuePtr& value, std::vector<VmValuePtr>* out);
  VmValuePtr Unflatten(const Type& type, const std::vector<VmValuePtr>& tensors, size_t* next);

  // ---- Integers.
  int EmitInt(const PrimExpr& e);
  int EmitIntNode(const PrimExpr& e);
  bool CanEmit(const PrimExpr& e);
  tir::Var BindDim(int int_register);
  /// Long expressions are given a name, so that they don't grow; equal ones the same, so that they are seen to be
  /// equal.
  PrimExpr Shorten(const PrimExpr& e);
  DimRange RangeOf(const std::string& name) const;
  PrimExpr MultipleOf(const tir::Var& var, const DimRange& range);
  void EmitSizeRules(const relay::Function& func);
  TensorType BindParamDims(int reg, const TensorType& type, const std::string& name);

  // ---- Scopes: what is computed within a branch isn't there after it.
  size_t OpenScope() { return undo_.size(); }
  void CloseScope(size_t mark);

  VmProgramBuilder* program_;
  VmFunctionBuilder out_;
  arith::Analyzer analyzer_;
  std::unordered_map<relay::Expr, VmValuePtr, ObjectPtrHash, ObjectPtrEqual> memo_;
  std::unordered_map<const Object*, VmValuePtr> vars_;  ///< by Id
  std::unordered_map<PrimExpr, int, StructuralHashFn, StructuralEqualFn> ints_;
  std::unordered_map<PrimExpr, tir::Var, StructuralHashFn, StructuralEqualFn> names_;  ///< of long dimensions
  std::vector<std::function<void()>> undo_;
  Map<String, ObjectRef> dim_ranges_;  ///< of main, kDimRanges
  int fresh_dims_ = 0;
};

}  // namespace treadle::driver
