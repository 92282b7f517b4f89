// SPDX-License-Identifier: Apache-2.0
#include "targets/llvm/codegen.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/RegAllocRegistry.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include <mutex>
#include <new>
#include <set>

#include "targets/cpu/machine.h"
#include "targets/llvm/broadcast_operands.h"
#include "targets/llvm/function_codegen.h"
#include "targets/llvm/leak_on_unwind.h"
#include "targets/llvm/module_codegen.h"
#include "targets/llvm/target_machine.h"
#include "tir/in_place.h"
#include "tir/passes/passes.h"

// The library's own: a definition here would be found by the LLVM of an OpenCL driver in the same process, too.
extern template llvm::MachinePassRegistry<llvm::RegisterRegAlloc::FunctionPassCtor>
    llvm::RegisterRegAllocBase<llvm::RegisterRegAlloc>::Registry;

namespace treadle::targets {

// ---- ModuleBuilder ----

ModuleBuilder::ModuleBuilder(llvm::Module* module, const Target& target, const CodegenOptions& options)
    : module_(module),
      target_(target),
      has_bfloat16_dot_(targets::HasBFloat16Dot(*target.get())),
      features_(target->Features()),
      options_(options) {
  if (target->GetIntAttr("debug-info", 0) == 0) return;
  debug_ = std::make_unique<llvm::DIBuilder>(*module);
  debug_file_ = debug_->createFile(options.module_name + ".tir", ".");
  debug_->createCompileUnit(llvm::dwarf::DW_LANG_C99, debug_file_, "treadle", options.opt_level > 0, "", 0);
  module->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  module->addModuleFlag(llvm::Module::Warning, "Dwarf Version", 4);
}

bool ModuleBuilder::HasFeature(const char* name) {
  auto known = has_feature_.find(name);
  if (known == has_feature_.end()) {
    known = has_feature_.emplace(name, treadle::targets::HasFeature(ResolveLLVMTarget(target_), name)).first;
  }
  return known->second;
}

llvm::DISubprogram* ModuleBuilder::Describe(llvm::Function* function) {
  if (debug_ == nullptr) return nullptr;
  auto* type = debug_->createSubroutineType(debug_->getOrCreateTypeArray({}));
  llvm::DISubprogram* description =
      debug_->createFunction(debug_file_, function->getName(), function->getName(), debug_file_, 1, type, 1,
                             llvm::DINode::FlagPrototyped, llvm::DISubprogram::SPFlagDefinition);
  function->setSubprogram(description);
  return description;
}

void ModuleBuilder::FinishDebugInfo() {
  if (debug_ != nullptr) debug_->finalize();
}

llvm::Type* ModuleBuilder::ValueType(DataType dtype) const {
  llvm::Type* scalar = nullptr;
  if (dtype.is_void()) return llvm::Type::getVoidTy(context());
  if (dtype.is_handle()) {
    scalar = llvm::PointerType::get(context(), 0);
  } else if (dtype.is_float() && dtype.bits() == 32) {
    scalar = llvm::Type::getFloatTy(context());
  } else if (dtype.is_float() && dtype.bits() == 64) {
    scalar = llvm::Type::getDoubleTy(context());
  } else {
    scalar = llvm::IntegerType::get(context(), static_cast<unsigned>(dtype.bits()));
  }
  if (dtype.is_scalar()) return scalar;
  return llvm::FixedVectorType::get(scalar, static_cast<unsigned>(dtype.lanes()));
}

llvm::Type* ModuleBuilder::MemoryType(DataType dtype) const {
  if (!dtype.is_handle() && dtype.bits() < 8) dtype = DataType::Int(8, dtype.lanes());
  return ValueType(dtype);
}

llvm::Function* ModuleBuilder::NewFunction(llvm::FunctionType* type, const std::string& name, bool is_exported) {
  llvm::Function* function = module_->getFunction(name);
  // A declaration made by an earlier call is filled in; otherwise a name that is taken gets a suffix from LLVM.
  if (function == nullptr || !function->isDeclaration()) {
    function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module_);
  }
  function->setLinkage(is_exported ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  if (features_.arch == "x86_64") {
    function->addFnAttr("prefer-vector-width", std::to_string(features_.vector_bits));
  }
  if (is_exported) exported.push_back(name);
  return function;
}

llvm::Value* ModuleBuilder::StringConstant(const std::string& text) {
  llvm::Value*& value = strings_[text];
  if (value == nullptr) {
    llvm::Constant* data = llvm::ConstantDataArray::getString(context(), text);
    auto* global = new llvm::GlobalVariable(*module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data);
    global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    value = global;
  }
  return value;
}

llvm::Value* ModuleBuilder::CallRuntime(llvm::IRBuilder<>* builder, const std::string& name, llvm::FunctionType* type,
                                        const std::vector<llvm::Value*>& args) {
  if (options_.system_lib) return builder->CreateCall(module_->getOrInsertFunction(name, type), args);
  const std::string variable = "__" + name;
  llvm::GlobalVariable* global = module_->getNamedGlobal(variable);
  llvm::PointerType* pointer = builder->getPtrTy();
  if (global == nullptr) {
    global = new llvm::GlobalVariable(*module_, pointer, false, llvm::GlobalValue::WeakAnyLinkage,
                                      llvm::ConstantPointerNull::get(pointer), variable);
  }
  return builder->CreateCall(type, builder->CreateLoad(pointer, global), args);
}

llvm::Constant* ModuleBuilder::TableConstant(const std::vector<int64_t>& numbers) {
  llvm::Constant* data = llvm::ConstantDataArray::get(context(), numbers);
  auto* global = new llvm::GlobalVariable(*module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data);
  global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return global;
}

void ModuleBuilder::UnpackByTable(const tir::SplitFunction& func, const tir::ArgumentTable& table,
                                  llvm::Function* compute, llvm::Function* packed) {
  auto* pointer = llvm::PointerType::get(context(), 0);
  auto* int32 = llvm::Type::getInt32Ty(context());
  auto* int64 = llvm::Type::getInt64Ty(context());
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context(), "entry", packed));
  const auto array = [&](llvm::Type* type, size_t count) {
    return b.CreateAlloca(llvm::ArrayType::get(type, std::max<size_t>(count, 1)));
  };
  llvm::Value *data = array(pointer, func.buffers.size()), *scalars = array(int64, func.scalars.size());
  auto* type = llvm::FunctionType::get(int32, {pointer, pointer, int32, pointer, pointer, pointer, pointer}, false);
  llvm::Value* status = CallRuntime(&b, "TreadleBackendUnpackArguments", type,
                                    {packed->getArg(0), packed->getArg(1), packed->getArg(2),
                                     TableConstant(table.numbers), StringConstant(table.names), data, scalars});
  llvm::BasicBlock* right = llvm::BasicBlock::Create(context(), "right", packed);
  llvm::BasicBlock* wrong = llvm::BasicBlock::Create(context(), "wrong", packed);
  b.CreateCondBr(b.CreateICmpEQ(status, b.getInt32(0)), right, wrong);
  b.SetInsertPoint(wrong);
  b.CreateRet(status);
  b.SetInsertPoint(right);
  b.CreateRet(b.CreateCall(compute, LoadArguments(&b, func, data, scalars)));
}

std::vector<llvm::Value*> ModuleBuilder::LoadArguments(llvm::IRBuilder<>* builder, const tir::SplitFunction& func,
                                                       llvm::Value* data, llvm::Value* scalars) {
  auto* pointer = llvm::PointerType::get(context(), 0);
  auto* int64 = llvm::Type::getInt64Ty(context());
  llvm::IRBuilder<>& b = *builder;
  std::vector<llvm::Value*> args;
  for (size_t i = 0; i < func.buffers.size(); ++i) {
    args.push_back(b.CreateLoad(pointer, b.CreateConstInBoundsGEP1_64(pointer, data, i)));
  }
  for (size_t i = 0; i < func.scalars.size(); ++i) {
    const DataType dtype = func.scalars[i].dtype();
    llvm::Value* slot = b.CreateConstInBoundsGEP1_64(int64, scalars, i);
    if (dtype.is_float()) {
      llvm::Value* value = b.CreateLoad(b.getDoubleTy(), slot);
      args.push_back(dtype.bits() == 64 ? value : b.CreateFPTrunc(value, ValueType(dtype)));
    } else if (dtype.is_handle()) {
      args.push_back(b.CreateLoad(pointer, slot));
    } else {
      args.push_back(b.CreateTrunc(b.CreateLoad(int64, slot), ValueType(dtype)));
    }
  }
  return args;
}

void ModuleBuilder::AddRawWrapper(const tir::SplitFunction& func, llvm::Function* compute) {
  auto* pointer = llvm::PointerType::get(context(), 0);
  auto* int32 = llvm::Type::getInt32Ty(context());
  llvm::Function* raw =
      NewFunction(llvm::FunctionType::get(int32, {pointer, pointer}, false), func.name + "__raw", true);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context(), "entry", raw));
  b.CreateRet(b.CreateCall(compute, LoadArguments(&b, func, raw->getArg(0), raw->getArg(1))));
}

void ModuleBuilder::AddFunction(const tir::PrimFunc& lowered) {
  const auto table = options_.packed_api ? tir::DescribeArguments(lowered) : std::nullopt;
  const tir::SplitFunction func = tir::MakePackedApi(lowered, options_.packed_api && !table);
  std::vector<llvm::Type*> types;
  std::vector<tir::Var> params;
  for (const tir::Var& v : func.compute->params) {
    types.push_back(ValueType(v.dtype()));
    params.push_back(v);
  }
  auto* int32 = llvm::Type::getInt32Ty(context());
  llvm::Function* compute = NewFunction(llvm::FunctionType::get(int32, types, false), func.name + "__compute", false);
  compute->addFnAttr(llvm::Attribute::NoInline);
  bool noalias = true;
  if (auto attribute = func.compute->GetAttr<IntImm>(attr::kNoAlias)) noalias = (*attribute)->value != 0;
  const std::vector<bool> shared = tir::SharedParams(func.compute, func.buffers.size());
  for (unsigned i = 0; noalias && i < func.buffers.size(); ++i) {
    if (!shared[i]) compute->addParamAttr(i, llvm::Attribute::NoAlias);
  }
  FunctionCodegen(this, compute).Run(params, func.compute->body);
  if (options_.raw_api && !func.returns_value) AddRawWrapper(func, compute);
  if (options_.packed_api) {
    auto* pointer = llvm::PointerType::get(context(), 0);
    auto* type = llvm::FunctionType::get(int32, {pointer, pointer, int32, pointer, pointer, pointer}, false);
    llvm::Function* packed = NewFunction(type, func.name, true);
    // Straight-line checks gain nothing from optimisation, and there are many of them.
    packed->addFnAttr(llvm::Attribute::OptimizeNone);
    packed->addFnAttr(llvm::Attribute::NoInline);
    if (table) return UnpackByTable(func, *table, compute, packed);
    std::vector<tir::Var> packed_params(func.packed->params.begin(), func.packed->params.end());
    FunctionCodegen(this, packed).Run(packed_params, func.packed->body);
  }
}

// ---- Optimisation and emission ----

namespace {

/// The passes over each function. Kernels come scheduled: vectors, register tiles and hoisted index arithmetic are the
/// work of TIR's passes, and default<O3> repeats InstCombine, GVN, jump threading and the like on large unrolled blocks
/// for more time than code generation takes. What is left for LLVM: scalar loops are vectorized, short loops unrolled,
/// others of known extents in part, as far as the core's loop buffer holds them, and of the stores to one element of a
/// local buffer (an unrolled reduction) only the last stays.
constexpr const char* kKernelPasses =
    "function<eager-inv>("
    "simplifycfg<keep-loops>,sroa<modify-cfg>,early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-rotate<header-duplication>,licm<allowspeculation>),"
    "loop(indvars,loop-unroll-full),sroa<modify-cfg>,early-cse<memssa>,"
    "loop-vectorize,simplifycfg<no-keep-loops;hoist-common-insts;sink-common-insts>,"
    "loop-unroll<O3;no-runtime;partial>,instcombine<no-verify-fixpoint>,"
    "early-cse<memssa>,loop-mssa(licm<allowspeculation>),dse,simplifycfg<keep-loops>),"
    "globaldce";

/// The level of code that is soon replaced.
constexpr int kQuickLevel = 1;

/// What costs little and without which code would be several times as slow.
constexpr const char* kQuickPasses =
    "function<eager-inv>(simplifycfg<keep-loops>,sroa<modify-cfg>,early-cse<memssa>,loop-mssa(licm<allowspeculation>)),"
    "globaldce";

/// Whether an innermost loop computes addresses for which there is no room. Many values of which each stays what it is,
/// to which the loop's variable is added, are the rows of a register tile whose distances aren't constants: computed
/// anew for each load they leave too few registers. Beside few products of vectors, as tiles in 16 registers have, even
/// two or three are a quarter of what the core has to start in each step; vectors of 512 bits come with 32 registers.
bool HasManyAddresses(llvm::Function* function) {
  constexpr int kMany = 4, kFewProducts = 12;
  constexpr uint64_t kWideBits = 512;
  llvm::DominatorTree dominators(*function);
  const llvm::LoopInfo loops(dominators);
  for (const llvm::Loop* loop : loops.getLoopsInPreorder()) {
    if (!loop->isInnermost()) continue;
    int sums = 0, products = 0;
    for (const llvm::BasicBlock* block : loop->blocks()) {
      for (const llvm::Instruction& i : *block) {
        if (i.getOpcode() == llvm::Instruction::FMul && i.getType()->isVectorTy()) {
          const bool wide = i.getType()->getPrimitiveSizeInBits().getKnownMinValue() >= kWideBits;
          products += wide ? kFewProducts + 1 : 1;
        }
        if (i.getOpcode() != llvm::Instruction::Add && i.getOpcode() != llvm::Instruction::Or) continue;
        const llvm::Value *a = i.getOperand(0), *b = i.getOperand(1);
        if (loop->isLoopInvariant(b)) std::swap(a, b);
        const bool is_offset = loop->isLoopInvariant(a) && !loop->isLoopInvariant(b) && !llvm::isa<llvm::Constant>(a);
        if (is_offset && i.getType()->isIntegerTy(64)) ++sums;
      }
    }
    if (sums >= kMany || (sums > 0 && products > 0 && products <= kFewProducts)) return true;
  }
  return false;
}

/// Loop strength reduction takes a fifth of the time of compiling, and most kernels, whose index arithmetic is hoisted
/// before LLVM sees it, are as fast without (LeaveOutStrengthReduction).
void ReduceStrength(llvm::Module* module, llvm::PassBuilder& builder, llvm::FunctionAnalysisManager& functions) {
  LeakOnUnwind<llvm::FunctionPassManager> passes;
  llvm::Error problem = builder.parsePassPipeline(*passes, "loop(loop-reduce)");
  TREADLE_ICHECK(!problem) << llvm::toString(std::move(problem));
  for (llvm::Function& function : *module) {
    if (!function.isDeclaration() && HasManyAddresses(&function)) passes->run(function, functions);
  }
}

void Optimize(llvm::Module* module, llvm::TargetMachine* machine, int opt_level, bool has_imports) {
  LeakOnUnwind<llvm::LoopAnalysisManager> loops;
  LeakOnUnwind<llvm::FunctionAnalysisManager> functions;
  LeakOnUnwind<llvm::CGSCCAnalysisManager> components;
  LeakOnUnwind<llvm::ModuleAnalysisManager> modules;
  llvm::PipelineTuningOptions tuning;
  tuning.SLPVectorization = false;
  LeakOnUnwind<llvm::PassBuilder> builder(machine, tuning);
  // There is no C library: no loop may become a call of memset, no intrinsic a call of libm.
  functions->registerPass([&] {
    llvm::TargetLibraryInfoImpl library(llvm::Triple(module->getTargetTriple()));
    library.disableAllFunctions();
    return llvm::TargetLibraryAnalysis(library);
  });
  builder->registerModuleAnalyses(*modules);
  builder->registerCGSCCAnalyses(*components);
  builder->registerFunctionAnalyses(*functions);
  builder->registerLoopAnalyses(*loops);
  builder->crossRegisterProxies(*loops, *functions, *components, *modules);
  LeakOnUnwind<llvm::ModulePassManager> passes;
  if (opt_level == 0) {
    *passes = builder->buildO0DefaultPipeline(llvm::OptimizationLevel::O0);
  } else if (has_imports) {
    *passes =
        builder->buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3);  // users' functions are to be inlined
  } else {
    llvm::Error problem = builder->parsePassPipeline(*passes, opt_level == kQuickLevel ? kQuickPasses : kKernelPasses);
    TREADLE_ICHECK(!problem) << llvm::toString(std::move(problem));
  }
  passes->run(*module, *modules);
  if (opt_level > kQuickLevel && llvm::Triple(module->getTargetTriple()).isX86()) {
    ReduceStrength(module, *builder, *functions);
    FoldBroadcastOperands(module);
  }
}

/// The allocator of registers that LLVM asks for on this thread. It knows but one default for the whole process, where
/// other threads may be making code of other levels.
thread_local llvm::FunctionPass* (*register_allocator)() = llvm::createGreedyRegisterAllocator;

/// Sets it while there is one, for passes that are put together meanwhile.
class AllocatorOfLevel {
 public:
  explicit AllocatorOfLevel(int opt_level) {
    static std::once_flag once;
    std::call_once(
        once, [] { llvm::RegisterRegAlloc::setDefault([]() -> llvm::FunctionPass* { return register_allocator(); }); });
    // Tiles of code that is soon replaced leave registers over, and then it needs no search for the best.
    if (opt_level == 0) register_allocator = llvm::createFastRegisterAllocator;
    if (opt_level == kQuickLevel) register_allocator = llvm::createBasicRegisterAllocator;
  }
  ~AllocatorOfLevel() { register_allocator = llvm::createGreedyRegisterAllocator; }
  AllocatorOfLevel(const AllocatorOfLevel&) = delete;
  AllocatorOfLevel& operator=(const AllocatorOfLevel&) = delete;
};

/// As TargetMachine::addPassesToEmitFile, without scheduling of machine instructions. Whether the target can't.
bool AddQuickPasses(llvm::LLVMTargetMachine* machine, llvm::legacy::PassManager* passes,
                    llvm::raw_pwrite_stream* stream, llvm::CodeGenFileType kind) {
  auto* info = new llvm::MachineModuleInfoWrapperPass(machine);
  llvm::TargetPassConfig* config = machine->createPassConfig(*passes);
  config->disablePass(&llvm::MachineSchedulerID);
  passes->add(config);
  passes->add(info);
  if (config->addISelPasses()) return true;
  config->addMachinePasses();
  config->setInitialized();
  if (machine->addAsmPrinter(*passes, *stream, nullptr, kind, info->getMMI().getContext())) return true;
  passes->add(llvm::createFreeMachineFunctionPass());
  return false;
}

std::string Emit(llvm::Module* module, llvm::TargetMachine* machine, int opt_level, llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  LeakOnUnwind<llvm::legacy::PassManager> passes;
  const AllocatorOfLevel allocator(opt_level);
  const bool failed = opt_level == kQuickLevel
                          ? AddQuickPasses(static_cast<llvm::LLVMTargetMachine*>(machine), &*passes, &stream, kind)
                          : machine->addPassesToEmitFile(*passes, stream, nullptr, kind);
  TREADLE_ICHECK(!failed) << "target can't emit files";
  passes->run(*module);
  return std::string(bytes.data(), bytes.size());
}

/// Functions that come as text (pragma import_llvm) become part of the module, visible in it only. Whether there are
/// any.
bool LinkImported(llvm::Module* module, const std::vector<tir::PrimFunc>& lowered) {
  std::set<std::string> texts;
  for (const tir::PrimFunc& func : lowered) {
    auto imported = func->GetAttr<Array<String>>(tir::kImportLLVM);
    if (!imported) continue;
    for (const String& text : *imported) {
      if (!texts.insert(text.str()).second) continue;
      llvm::SMDiagnostic problem;
      auto part = llvm::parseIR(llvm::MemoryBufferRef(text.str(), "import_llvm"), problem, module->getContext());
      if (part == nullptr) {
        throw ModelFormatError(StrCat("import_llvm: line ", problem.getLineNo(), ": ", problem.getMessage().str(),
                                      " (LLVM ", LLVM_VERSION_MAJOR, " reads the text)"));
      }
      part->setTargetTriple(module->getTargetTriple());
      part->setDataLayout(module->getDataLayout());
      std::vector<std::string> names;
      for (llvm::Function& function : *part) {
        if (!function.isDeclaration()) names.push_back(function.getName().str());
      }
      if (llvm::Linker::linkModules(*module, std::move(part))) {
        throw ModelFormatError(StrCat("import_llvm: a module that begins with function ",
                                      names.empty() ? "?" : names[0], " can't be linked"));
      }
      for (const std::string& name : names) {
        llvm::Function* function = module->getFunction(name);
        if (function == nullptr) continue;
        function->setLinkage(llvm::GlobalValue::InternalLinkage);
        function->setComdat(nullptr);
      }
    }
  }
  return !texts.empty();
}

/// The module's functions tell the runtime their names when they are loaded, and when they go.
void RegisterInSystemLib(llvm::Module* module, const std::vector<std::string>& symbols) {
  llvm::LLVMContext& context = module->getContext();
  llvm::Type* nothing = llvm::Type::getVoidTy(context);
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  auto for_each = [&](const char* name, const char* callee) {
    auto* function = llvm::Function::Create(llvm::FunctionType::get(nothing, false), llvm::GlobalValue::InternalLinkage,
                                            name, module);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "entry", function));
    auto called = module->getOrInsertFunction(callee, llvm::FunctionType::get(nothing, {pointer, pointer}, false));
    for (const std::string& symbol : symbols) {
      if (symbol.size() > 5 && symbol.compare(symbol.size() - 5, 5, "__raw") == 0)
        continue;  // not the packed convention
      b.CreateCall(called, {b.CreateGlobalString(symbol), module->getFunction(symbol)});
    }
    b.CreateRetVoid();
    return function;
  };
  llvm::appendToGlobalCtors(*module, for_each("treadle_register", "TreadleBackendRegisterSystemLibSymbol"), 65535);
  llvm::appendToGlobalDtors(*module, for_each("treadle_forget", "TreadleBackendForgetSystemLibSymbol"), 65535);
}

}  // namespace

int LLVMVersionMajor() { return LLVM_VERSION_MAJOR; }

void BuildLLVMModule(llvm::Module* module, const std::vector<tir::PrimFunc>& lowered, const Target& target,
                     const CodegenOptions& options, llvm::TargetMachine* machine, std::vector<std::string>* symbols) {
  module->setTargetTriple(machine->getTargetTriple().str());
  module->setDataLayout(machine->createDataLayout());
  ModuleBuilder builder(module, target, options);
  for (const tir::PrimFunc& func : lowered) builder.AddFunction(func);
  const bool has_imports = LinkImported(module, lowered);
  for (const tir::PrimFunc& func : lowered) {
    if (!func->HasNonzeroAttr("tir.is_entry_func")) continue;
    const std::string name = (*func->GetAttr<String>(attr::kGlobalSymbol)).str();
    llvm::Constant* text = llvm::ConstantDataArray::getString(module->getContext(), name);
    module->insertGlobalVariable(
        new llvm::GlobalVariable(text->getType(), true, llvm::GlobalValue::WeakAnyLinkage, text, "__tvm_main__"));
  }
  builder.FinishDebugInfo();
  *symbols = builder.exported;
  if (options.system_lib) RegisterInSystemLib(module, builder.exported);
  for (llvm::Function& function : *module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", machine->getTargetCPU());
    function.addFnAttr("target-features", machine->getTargetFeatureString());
  }
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  TREADLE_ICHECK(!llvm::verifyModule(*module, &stream))
      << "LLVM rejects the code of " << options.module_name << ": " << problem;
  Optimize(module, machine, options.opt_level, has_imports);
}

namespace {

Artifact MakeArtifact(llvm::Module* module, const std::vector<tir::PrimFunc>& lowered, const Target& target,
                      const CodegenOptions& options, llvm::TargetMachine* machine) {
  Artifact artifact;
  BuildLLVMModule(module, lowered, target, options, machine, &artifact.symbols);
  if (options.Wants("ll")) {
    llvm::raw_string_ostream stream(artifact.texts["ll"]);
    module->print(stream, nullptr);
  }
  if (options.Wants("asm")) {
    auto copy = llvm::CloneModule(*module);
    artifact.texts["asm"] = Emit(copy.get(), machine, options.opt_level, llvm::CodeGenFileType::AssemblyFile);
  }
  artifact.code = Emit(module, machine, options.opt_level, llvm::CodeGenFileType::ObjectFile);
  return artifact;
}

}  // namespace

Artifact CodegenLLVM(const std::vector<tir::PrimFunc>& lowered, const Target& target, const CodegenOptions& options) {
  CodegenOptions used = options;
  used.opt_level = static_cast<int>(target->GetIntAttr("opt-level", options.opt_level));
  used.system_lib = options.system_lib || target->GetIntAttr("system-lib", 0) != 0;
  llvm::TargetMachine* machine = ThreadTargetMachine(ResolveLLVMTarget(target), used.opt_level);
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>(used.module_name, *context);
  // See LeakOnUnwind. After other errors, of the functions given, everything can be destroyed.
  auto leak = [&] {
    Leak(&module);
    Leak(&context);
    LeakThreadTargetMachine();
  };
  try {
    return MakeArtifact(module.get(), lowered, target, used, machine);
  } catch (const std::bad_alloc&) {
    leak();
    throw;
  } catch (const RuntimeError&) {  // LLVM's fatal errors
    leak();
    throw;
  }
}

}  // namespace treadle::targets
