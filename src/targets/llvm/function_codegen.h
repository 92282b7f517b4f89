// SPDX-License-Identifier: Apache-2.0
// From one function in low-level form to LLVM IR.
#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "targets/free_vars.h"
#include "tir/passes/argument_table.h"
#include "tir/passes/passes.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/targets/target_spec.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::targets {

/// What the functions of one LLVM module share.
class ModuleBuilder {
 public:
  ModuleBuilder(llvm::Module* module, const Target& target, const CodegenOptions& options);

  /// Adds name__compute, name__raw and name (as the options say).
  void AddFunction(const tir::PrimFunc& lowered);

  llvm::LLVMContext& context() const { return module_->getContext(); }
  llvm::Module* module() const { return module_; }
  const CodegenOptions& options() const { return options_; }
  const TargetFeatures& features() const { return features_; }
  /// Whether sums may be reordered and NaN and infinity be left out of account: target option -fast-math.
  bool fast_math() const { return target_->GetIntAttr("fast-math", 0) != 0; }
  /// Whether a sum with a product in it is given to LLVM as one multiply-add. Its selection of instructions finds these
  /// by itself, but not where it goes instruction by instruction (opt_level 1).
  bool multiply_adds() const { return options_.opt_level == 1 && features_.fma && !fast_math(); }
  /// Whether intrinsics for arithmetic on bytes are written out, for tests of what uses them: -emulate-intrinsics.
  bool EmulatesIntrinsics() const { return target_->GetIntAttr("emulate-intrinsics", 0) != 0; }
  /// Whether the machine sums products of bfloat16 in float32 with one instruction.
  bool HasBFloat16Dot() const { return has_bfloat16_dot_; }
  /// Whether gathering elements of 32 bits is faster than loading them one by one: see GatherFeatures.
  bool HasFastGather() {
    return features_.vector_bits == 512 && HasFeature("fast-gather") && !HasFeature("prefer-no-gather");
  }
  /// Whether LLVM's view of the target has a feature, by LLVM's name for it ("avx512vbmi").
  bool HasFeature(const char* name);
  /// Describes a function for debuggers and profilers, where the target has -debug-info; else null. Its name is what
  /// they show; kernels have no lines.
  llvm::DISubprogram* Describe(llvm::Function* function);
  /// To be called when all functions are there.
  void FinishDebugInfo();
  /// Type of a value; bools are i1, 16- and 8-bit floats but float16 are integers of their bits.
  llvm::Type* ValueType(DataType dtype) const;
  /// Type of one lane in memory: as ValueType, at least a byte.
  llvm::Type* MemoryType(DataType dtype) const;
  /// A call to a function of the runtime (such as "TreadleBackendParallelLaunch"), through its pointer variable.
  llvm::Value* CallRuntime(llvm::IRBuilder<>* builder, const std::string& name, llvm::FunctionType* type,
                           const std::vector<llvm::Value*>& args);
  /// A private constant, zero-terminated.
  llvm::Value* StringConstant(const std::string& text);
  llvm::Function* NewFunction(llvm::FunctionType* type, const std::string& name, bool exported);
  std::vector<std::string> exported;

 private:
  void AddRawWrapper(const tir::SplitFunction& func, llvm::Function* compute);
  /// The body of `packed`: the runtime checks its arguments.
  void UnpackByTable(const tir::SplitFunction& func, const tir::ArgumentTable& table, llvm::Function* compute,
                     llvm::Function* packed);
  /// The arguments of name__compute from arrays of data pointers and of scalars, which have 64 bits each.
  std::vector<llvm::Value*> LoadArguments(llvm::IRBuilder<>* builder, const tir::SplitFunction& func, llvm::Value* data,
                                          llvm::Value* scalars);
  llvm::Constant* TableConstant(const std::vector<int64_t>& numbers);

  llvm::Module* module_;
  Target target_;
  bool has_bfloat16_dot_;
  TargetFeatures features_;
  CodegenOptions options_;
  std::unordered_map<std::string, llvm::Value*> strings_;
  std::map<std::string, bool> has_feature_;
  std::unique_ptr<llvm::DIBuilder> debug_;
  llvm::DIFile* debug_file_ = nullptr;
};

/// Writes the body of one function.
class FunctionCodegen : public tir::ExprFunctor<llvm::Value*(const PrimExpr&)>,
                        public tir::StmtFunctor<void(const tir::Stmt&)> {
 public:
  FunctionCodegen(ModuleBuilder* module, llvm::Function* function);
  /// `function`'s arguments are bound to `params` in order.
  void Run(const std::vector<tir::Var>& params, const tir::Stmt& body);

 protected:
  using ExprBase = tir::ExprFunctor<llvm::Value*(const PrimExpr&)>;
  using StmtBase = tir::StmtFunctor<void(const tir::Stmt&)>;
  using Value = llvm::Value;

  // Expressions.
  Value* VisitExpr(const PrimExpr& e) override;
  Value* VisitExpr_(const tir::VarNode* op) override;
  Value* VisitExpr_(const IntImmNode* op) override;
  Value* VisitExpr_(const FloatImmNode* op) override;
  Value* VisitExpr_(const tir::StringImmNode* op) override;
  Value* VisitExpr_(const tir::CastNode* op) override;
  Value* VisitExpr_(const tir::AddNode* op) override;
  Value* VisitExpr_(const tir::SubNode* op) override;
  Value* VisitExpr_(const tir::MulNode* op) override;
  Value* VisitExpr_(const tir::DivNode* op) override;
  Value* VisitExpr_(const tir::ModNode* op) override;
  Value* VisitExpr_(const tir::FloorDivNode* op) override;
  Value* VisitExpr_(const tir::FloorModNode* op) override;
  Value* VisitExpr_(const tir::MinNode* op) override;
  Value* VisitExpr_(const tir::MaxNode* op) override;
  Value* VisitExpr_(const tir::EQNode* op) override;
  Value* VisitExpr_(const tir::NENode* op) override;
  Value* VisitExpr_(const tir::LTNode* op) override;
  Value* VisitExpr_(const tir::LENode* op) override;
  Value* VisitExpr_(const tir::GTNode* op) override;
  Value* VisitExpr_(const tir::GENode* op) override;
  Value* VisitExpr_(const tir::AndNode* op) override;
  Value* VisitExpr_(const tir::OrNode* op) override;
  Value* VisitExpr_(const tir::NotNode* op) override;
  Value* VisitExpr_(const tir::SelectNode* op) override;
  Value* VisitExpr_(const tir::RampNode* op) override;
  Value* VisitExpr_(const tir::BroadcastNode* op) override;
  Value* VisitExpr_(const tir::ShuffleNode* op) override;
  Value* VisitExpr_(const tir::LetNode* op) override;
  Value* VisitExpr_(const tir::CallNode* op) override;
  Value* VisitExpr_(const tir::BufferLoadNode* op) override;

  // Statements.
  void VisitStmt_(const tir::LetStmtNode* op) override;
  void VisitStmt_(const tir::AttrStmtNode* op) override;
  void VisitStmt_(const tir::AssertStmtNode* op) override;
  void VisitStmt_(const tir::BufferStoreNode* op) override;
  void VisitStmt_(const tir::AllocateNode* op) override;
  void VisitStmt_(const tir::SeqStmtNode* op) override;
  void VisitStmt_(const tir::IfThenElseNode* op) override;
  void VisitStmt_(const tir::EvaluateNode* op) override;
  void VisitStmt_(const tir::ForNode* op) override;
  void VisitStmt_(const tir::WhileNode* op) override;

 private:
  /// Values computed in a region of code that dominates the present position.
  using Memo = std::unordered_map<const Object*, Value*>;
  struct Workspace {
    Value* pointer;
    Value* device;  ///< DLPack type and number
    Value* device_id;
  };

  llvm::LLVMContext& context() const { return module_->context(); }
  llvm::Type* ValueType(DataType dtype) const { return module_->ValueType(dtype); }
  llvm::IntegerType* Int32() { return b_.getInt32Ty(); }
  llvm::IntegerType* Int64() { return b_.getInt64Ty(); }
  llvm::BasicBlock* NewBlock(const char* name) { return llvm::BasicBlock::Create(context(), name, function_); }

  /// The integer index `e` as int64, computed as if without overflow. Scalar.
  Value* Index64(const PrimExpr& e);
  bool IsNonNegative(const PrimExpr& e) const;
  Value* IntDivide(const PrimExpr& a, const PrimExpr& b, bool floor, bool remainder);
  Value* SafeDivisor(DataType dtype, Value* a, Value* b, Value** is_zero);
  Value* VectorQuotient(DataType dtype, Value* a, Value* b);
  Value* Sum(const tir::AddNode* op);
  /// a + b or a - b; with ModuleBuilder::multiply_adds one instruction where an operand is a product.
  Value* FloatSum(const PrimExpr& ea, Value* a, const PrimExpr& eb, Value* b, bool subtract);
  /// product + sum, or sum - product. `product` is erased.
  Value* MultiplyAdd(llvm::BinaryOperator* product, bool negate, Value* sum);
  Value* MinMax(const PrimExpr& a, const PrimExpr& b, bool is_max);
  Value* Compare(const PrimExpr& a, const PrimExpr& b, llvm::CmpInst::Predicate float_predicate,
                 llvm::CmpInst::Predicate signed_predicate, llvm::CmpInst::Predicate unsigned_predicate);
  /// Neighbouring 64-bit numbers compared with a limit, where that takes several registers, by their places, which are
  /// small; null where they aren't that.
  Value* CompareRamp(const PrimExpr& lanes, const PrimExpr& limit, llvm::CmpInst::Predicate predicate);
  Value* ShortCircuit(const PrimExpr& a, const PrimExpr& b, bool is_and);
  Value* Convert(Value* value, DataType from, DataType to);
  bool ConvertsLongLanes();
  llvm::Value* TruncateByWords(llvm::Value* value, llvm::Type* to);
  llvm::Value* LongLanesToDouble(llvm::Value* value, bool is_signed);
  Value* TruncateLanes(Value* value, DataType to);
  /// float32 `value` at a conversion from or to float16; vectors are behind a fence where the machine only converts:
  /// LLVM would make operations between conversions ones of float16, and then compute lane by lane.
  Value* KeepWide(Value* value);
  Value* SmallFloatToFloat32(Value* value, DataType from);
  Value* Float32ToSmallFloat(Value* value, DataType to);
  Value* Splat(Value* scalar, int lanes);
  llvm::Constant* IntConstant(DataType dtype, uint64_t value);

  // Memory.
  Value* ElementPointer(const tir::Buffer& buffer, const PrimExpr& index);
  Value* LoadElements(const tir::Buffer& buffer, Value* pointer, int lanes);
  void StoreElements(const tir::Buffer& buffer, Value* pointer, Value* value, int lanes);
  Value* ToMemory(Value* value, DataType dtype);
  Value* FromMemory(Value* value, DataType dtype);
  /// Element numbers of the lanes of a vector index.
  std::vector<Value*> LaneOffsets(const PrimExpr& index);
  /// Makes, for lane i of a vector of indices, the pointer to its element (vectors of elements where the buffer has
  /// such).
  std::function<Value*(int)> LanePointers(const tir::Buffer& buffer, const PrimExpr& index);
  Value* LoadLanes(const tir::BufferLoadNode* op, Value* mask, Value* otherwise);
  /// The same by instructions that gather.
  Value* GatherLanes(const tir::BufferLoadNode* op, Value* mask, Value* otherwise);
  /// `count` lanes of a vector from `first` on.
  Value* LanesOf(Value* vector, int first, int count);
  void StoreLanes(const tir::Buffer& buffer, const PrimExpr& index, Value* value, int lanes, Value* mask);
  llvm::Align BufferAlign(const tir::Buffer& buffer) const;

  // Accesses under a mask (masked_codegen.cc).
  /// Calls `part` for pieces of a vector that a register holds: masked accesses of wider vectors are made of them. LLVM
  /// 19 splits those wrongly where the mask of one half is known to be off: it loads all its lanes, or ends the
  /// process.
  void ForPartsOfRegisters(DataType dtype, const std::function<void(int first, int count)>& part);
  Value* LoadMasked(DataType dtype, Value* pointer, llvm::Align align, Value* mask, Value* pass);
  void StoreMasked(DataType dtype, Value* value, Value* pointer, llvm::Align align, Value* mask);
  /// Whether the machine has them for elements of that type. LLVM tests lane by lane where it hasn't.
  bool HasMaskedAccess(DataType dtype) const;
  /// The same by other instructions: all lanes at once, none, or each run of neighbours that are on.
  Value* LoadRuns(llvm::FixedVectorType* type, Value* from, Value* mask, Value* pass);
  void StoreRuns(Value* value, Value* to, Value* mask);
  /// Copies the elements whose bit is set; at least one is.
  void CopyRuns(llvm::Type* element, Value* from, Value* to, Value* bits, int lanes);
  /// Copies `count` elements, fewer than `most`.
  void CopyFew(llvm::Type* element, Value* from, Value* to, Value* count, int most);
  Value* LaneAt(llvm::Type* element, Value* pointer, int lane);
  /// A place on the stack.
  Value* Spilled(llvm::Type* type);
  /// A mask as the low bits of an integer.
  Value* BitsOf(Value* mask);

  // Calls (calls.cc).
  Value* IfThenElseExpr(const tir::CallNode* op);
  /// `yes` in lanes where the condition holds, else `no`, which is computed only where some lane needs it.
  Value* LikelyLanes(Value* condition, const PrimExpr& yes, const PrimExpr& no);
  Value* BitCall(const std::string& name, const tir::CallNode* op);
  Value* CallLlvmIntrinsic(const tir::CallNode* op);
  Value* FloatCall(const std::string& name, const tir::CallNode* op);
  /// The remainder of float64, lane by lane.
  Value* Fmod(Value* x, Value* y);

  // Arithmetic on bytes (byte_codegen.cc).
  Value* ByteCall(const std::string& name, const tir::CallNode* op);
  /// `sum + dot` in one instruction where `dot` is a dot product of words and the machine has one; else null.
  Value* AddDotBytes(const PrimExpr& sum, const PrimExpr& dot);
  Value* PackWord(const tir::CallNode* op);
  Value* DotWords(Value* sum, Value* a, Value* b, int lanes, bool of_shorts);
  /// `dot` of the lower and of the upper half of the lanes, concatenated; null if it gives null.
  Value* DotOfHalves(Value* sum, Value* a, Value* b, int lanes,
                     const std::function<Value*(Value* sum, Value* a, Value* b)>& dot);
  Value* DotOfRegister(Value* sum, Value* a, Value* b, int lanes, bool of_shorts);
  Value* DotOfPackedBytes(Value* sum, const tir::CallNode* dot);
  Value* DotOfPairs(Value* a, Value* b, int lanes);
  Value* InOrder(Value* sum);
  Value* WordPointer(const tir::Buffer& buffer, const PrimExpr& index);
  Value* DotOfArm(Value* sum, Value* a, Value* b);
  Value* MultiplyPairs(Value* a, Value* b, int lanes);
  Value* MultiplyBytes(Value* a, Value* b);
  Value* DotOfTwoWords(Value* sum, const tir::CallNode* dot);
  Value* RoundClamped(const tir::CallNode* op);
  Value* ClampedQuotient(const PrimExpr& of, Value* low, Value* high);
  Value* ClampedValue(const tir::CallNode* op);
  Value* RefinedQuotient(Value* x, Value* d, Value* reciprocal, Value* near);
  Value* QuotientByNumber(Value* x, Value* d);
  Value* ValueOfAllLanes(const PrimExpr& e);
  Value* RoundToInt(Value* x, int lanes);
  Value* LoadByBytes(const tir::BufferLoadNode* op);
  Value* LookUpByPermutation(Value* table, Value* index, int lanes);
  Value* LookUpByShuffles(Value* table, Value* index, int lanes);

  // Products of bfloat16 (pair_codegen.cc).
  /// The words of two neighbours, and dot products, where the machine has instructions for them; else null.
  Value* PairCall(const std::string& name, const tir::CallNode* op);
  /// A float32 rounded to bfloat16 by one instruction; null where the machine has none for as many lanes.
  Value* RoundPairHalf(const tir::CallNode* op);
  /// `sum + dot` in one instruction where `dot` is a dot product of pairs and the machine has one; else null.
  Value* AddDotPairs(const PrimExpr& sum, const PrimExpr& dot);
  Value* DotPairs(Value* sum, Value* a, Value* b, int lanes);

  /// A product of tiles (tile_codegen.cc): by AMX, or written out; null for other calls.
  Value* TileCall(const tir::CallNode* op);

  Value* StructGet(const tir::CallNode* op);
  Value* CallExternFunction(const tir::CallNode* op);
  Value* CallPackedFunction(const tir::CallNode* op);
  Value* CallModuleFunction(const tir::CallNode* op, const GlobalVarNode* callee);
  Value* TensorArgument(const tir::CallNode* op);
  Value* PackedArgument(const PrimExpr& e, Value* slot, int* code);

  /// Bytes of an allocation on the stack; nothing where it has to be in a workspace.
  std::optional<int64_t> StackBytes(const tir::AllocateNode* op);
  /// Allocates the buffer, of which nothing but the address is used unless `is_used` (null: always).
  void AllocateWorkspace(const tir::AllocateNode* op, Value* is_used);
  /// Frees what was allocated last.
  void FreeWorkspace();
  /// Allocates the workspaces of a loop's body once for all iterations, where their sizes are the same. Returns how
  /// many there are to be freed.
  size_t AllocateForAll(const tir::Stmt& body, const tir::Var& var, Value* begin, Value* end);

  // Control flow.
  void Loop(const tir::Var& var, Value* begin, Value* end, const tir::Stmt& body,
            const Map<String, ObjectRef>& annotations);
  void ParallelLoop(const tir::ForNode* op);
  void Fail(const std::string& message);
  /// Leaves the function with `code`, after freeing what is allocated.
  void Return(Value* code);
  /// Continues where `condition` holds and fails with `message` otherwise.
  void Check(Value* condition, const std::string& message);
  void Bind(const tir::Var& var, Value* value, Value* wide = nullptr);
  /// Runs `f`; what it computes isn't known afterwards.
  template <typename F>
  void InScope(F&& f) {
    memos_.emplace_back();
    f();
    memos_.pop_back();
  }

  ModuleBuilder* module_;
  llvm::Function* function_;
  llvm::IRBuilder<> b_;
  std::unordered_map<const Object*, Value*> vars_;
  std::unordered_map<const Object*, Value*> wide_vars_;  ///< int64 form of index variables
  std::unordered_map<const Object*, llvm::Align> aligns_;
  std::unordered_set<const Object*> non_negative_;
  std::vector<Memo> memos_;
  /// The words that are read of an entry of a list (tir::attr::kListLength), of the first row that was met.
  struct ListWord {
    tir::Buffer buffer;
    PrimExpr index;
    Value* pointer;
    llvm::BasicBlock* block;
  };
  std::vector<ListWord> list_words_;
  Map<tir::Var, PrimExpr> list_lets_;  ///< values of variables that indices of those words name
  bool in_list_ = false;
  std::vector<PrimExpr> known_;  ///< what memos know by address: some is made on the way
  std::vector<Workspace> workspaces_;
  std::unordered_set<const Object*> allocated_;  ///< Allocate nodes whose memory a loop has for all of its iterations
  bool in_parallel_ = false;
};

}  // namespace treadle::targets
