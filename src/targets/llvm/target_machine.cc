// SPDX-License-Identifier: Apache-2.0
#include "targets/llvm/target_machine.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "targets/cpu/machine.h"
#include "targets/llvm/leak_on_unwind.h"
#include "treadle/base/suggest.h"

namespace treadle::targets {
namespace {

/// LLVM ends the process by itself where these aren't set. Its frames have unwind tables and no handlers: what they
/// hold is lost, but the process and all that the caller has go on.
void ThrowBadAlloc(void*, const char*, bool) { throw std::bad_alloc(); }
void ThrowFatal(void*, const char* reason, bool) { throw RuntimeError(StrCat("LLVM can't go on: ", reason)); }

/// Loop strength reduction takes a fifth of the time of compiling. Index arithmetic is hoisted before LLVM sees it, and
/// the addresses of x86 have a scale: most kernels are as fast without (ReduceStrength in codegen.cc has the others).
/// LLVM knows it as an option of the process only, whose initial value it is, since linking sets all options back.
void LeaveOutStrengthReduction() {
  if (!llvm::Triple(llvm::sys::getDefaultTargetTriple()).isX86()) return;
  auto& options = llvm::cl::getRegisteredOptions();
  auto found = options.find("disable-lsr");
  if (found != options.end()) static_cast<llvm::cl::opt<bool>*>(found->second)->setInitialValue(true);
}

}  // namespace

void InitializeLLVM() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_bad_alloc_error_handler(&ThrowBadAlloc);
    llvm::install_fatal_error_handler(&ThrowFatal);
    LeaveOutStrengthReduction();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
  });
}

namespace {

/// Whether loads and inserts of single elements are faster than instructions that gather or scatter them, contrary to
/// LLVM's belief about processors with AVX-512: AMD's run these in microcode, Intel's before Sapphire Rapids gather
/// slowly since they were made safe (CVE-2022-40982). Scatters store one element a cycle at best everywhere.
std::string GatherFeatures(const std::string& cpu, const std::string& features) {
  static const std::set<std::string> kSlow = {"znver4",         "znver5",         "skylake-avx512", "skx",
                                              "cascadelake",    "cooperlake",     "cannonlake",     "icelake-client",
                                              "icelake-server", "icelake_client", "icelake_server", "skylake_avx512",
                                              "rocketlake",     "tigerlake"};
  static const std::set<std::string> kFast = {"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"};
  std::string result = features;
  auto add = [&](const char* name) { result += StrCat(result.empty() ? "" : ",", name); };
  if (kSlow.count(cpu) != 0) add("+prefer-no-gather");
  if (kSlow.count(cpu) != 0 || kFast.count(cpu) != 0) add("+prefer-no-scatter");
  return result;
}

}  // namespace

namespace {

/// Null for machines that aren't known.
std::unique_ptr<llvm::MCSubtargetInfo> SubtargetOf(const std::string& triple) {
  InitializeLLVM();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) return nullptr;
  return std::unique_ptr<llvm::MCSubtargetInfo>(target->createMCSubtargetInfo(triple, "", ""));
}

/// Code is made for the machines that are built in, and linked into ELF libraries.
void CheckTriple(const std::string& triple) {
  InitializeLLVM();
  std::string error;
  const std::string help = "\nhelp: such as -mtriple=aarch64-linux-gnu; without -mtriple it is this machine";
  if (llvm::TargetRegistry::lookupTarget(triple, error) == nullptr) {
    throw TargetError(
        StrCat("-mtriple=", triple, ": unsupported architecture; supported are x86_64 and aarch64", help));
  }
  if (!llvm::Triple(triple).isOSBinFormatELF()) {
    throw TargetError(StrCat("-mtriple=", triple, ": unsupported object format; supported is ELF, as on Linux", help));
  }
}

void CheckCpu(const std::string& triple, const std::string& cpu) {
  const std::unique_ptr<llvm::MCSubtargetInfo> subtarget = SubtargetOf(triple);
  if (subtarget == nullptr || subtarget->isCPUStringValid(cpu)) return;
  std::vector<std::string> known{"native"};
  for (const llvm::SubtargetSubTypeKV& processor : subtarget->getAllProcessorDescriptions()) {
    known.emplace_back(processor.Key);
  }
  throw TargetError(StrCat("-mcpu=", cpu, " isn't a processor that LLVM knows for ", triple, DidYouMean(cpu, known),
                           llvm::Triple(triple).isX86()
                               ? "\nhelp: x86-64, x86-64-v2, x86-64-v3 and x86-64-v4 stand for levels of x86 "
                                 "processors, native for this one"
                               : "\nhelp: generic stands for all of them, neoverse-n1 or cortex-a76 are examples"));
}

/// LLVM itself leaves out features that it doesn't know.
void CheckFeatures(const std::string& triple, const std::string& attributes) {
  const std::unique_ptr<llvm::MCSubtargetInfo> subtarget = SubtargetOf(triple);
  if (subtarget == nullptr) return;
  llvm::SmallVector<llvm::StringRef> flags;
  llvm::StringRef(attributes).split(flags, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef flag : flags) {
    const llvm::StringRef name = flag.drop_front();
    std::vector<std::string> known;
    for (const llvm::SubtargetFeatureKV& feature : subtarget->getAllProcessorFeatures())
      known.emplace_back(feature.Key);
    if (std::find(known.begin(), known.end(), name.str()) != known.end()) continue;
    throw TargetError(StrCat("-mattr=", flag.str(), ": LLVM knows no such feature of ", triple,
                             DidYouMean(name.str(), known), "\nhelp: features are given as in -mattr=+avx2,-avx512f"));
  }
}

}  // namespace

namespace {

/// All features that LLVM looks for in this machine, as in "+avx2,-avx512f".
const std::string& HostFeatures() {
  static const std::string* features = [] {
    auto* text = new std::string;
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
      *text += StrCat(text->empty() ? "" : ",", feature.second ? "+" : "-", feature.first().str());
    }
    return text;
  }();
  return *features;
}

}  // namespace

LLVMTargetInfo ResolveLLVMTarget(const Target& target) {
  LLVMTargetInfo info;
  const std::string host = llvm::sys::getDefaultTargetTriple();
  info.triple = target->GetAttr("mtriple", host);
  CheckTriple(info.triple);
  const bool cross =
      target->GetAttr("mtriple").has_value() && llvm::Triple(info.triple).getArch() != llvm::Triple(host).getArch();
  info.cpu = target->GetAttr("mcpu", target->GetAttr("mtriple") ? "generic" : "native");
  if (info.cpu == "native") {
    if (cross) throw TargetError(StrCat("-mcpu=native doesn't go with -mtriple=", info.triple, ", another machine"));
    info.cpu = HostProcessor();
    info.features = HostFeatures();
  }
  CheckCpu(info.triple, info.cpu);
  info.features = GatherFeatures(info.cpu, info.features);
  // Kernels gain nothing from these of AMD's, and stop at them on other processors with the same vectors.
  if (llvm::Triple(info.triple).isX86()) info.features += StrCat(info.features.empty() ? "" : ",", "-sse4a");
  if (auto attributes = target->GetAttr("mattr")) {
    CheckFeatures(info.triple, *attributes);
    info.features += (info.features.empty() ? "" : ",") + *attributes;
  }
  info.float_abi = target->GetAttr("mfloat-abi", "");
  if (!info.float_abi.empty() && info.float_abi != "soft" && info.float_abi != "hard") {
    throw TargetError(StrCat("-mfloat-abi=", info.float_abi, ": expected soft or hard"));
  }
  info.abi = target->GetAttr("mabi", "");
  return info;
}

bool HasFeature(const LLVMTargetInfo& info, const std::string& name) {
  InitializeLLVM();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(info.triple, error);
  if (target == nullptr) return false;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target->createMCSubtargetInfo(info.triple, info.cpu, info.features));
  return subtarget != nullptr && subtarget->checkFeatures("+" + name);
}

std::unique_ptr<llvm::TargetMachine> MakeTargetMachine(const LLVMTargetInfo& info, int opt_level) {
  InitializeLLVM();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(info.triple, error);
  if (target == nullptr) {
    throw TargetError(StrCat("-mtriple=", info.triple, ": ", error, " (this build has x86_64 and aarch64)"));
  }
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target->createMCSubtargetInfo(info.triple, "", ""));
  if (subtarget == nullptr || !subtarget->isCPUStringValid(info.cpu)) {
    throw TargetError(StrCat("-mcpu=", info.cpu, " isn't a processor that LLVM knows for ", info.triple));
  }
  llvm::TargetOptions options;
  options.UseInitArray = true;  // where linkers of today look for constructors
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  if (!info.float_abi.empty()) {
    options.FloatABIType = info.float_abi == "hard" ? llvm::FloatABI::Hard : llvm::FloatABI::Soft;
  }
  options.MCOptions.ABIName = info.abi;
  const auto level = opt_level >= 3   ? llvm::CodeGenOptLevel::Aggressive
                     : opt_level == 2 ? llvm::CodeGenOptLevel::Default
                     : opt_level == 1 ? llvm::CodeGenOptLevel::Less
                                      : llvm::CodeGenOptLevel::None;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      info.triple, info.cpu, info.features, options, llvm::Reloc::PIC_, std::nullopt, level));
  TREADLE_ICHECK(machine != nullptr) << "no code generator for " << info.triple;
  // For code that is soon replaced instructions are selected one by one rather than by graphs of blocks, in half the
  // time; what kernels' loops are made of, loads and multiply-adds, hardly differs.
  if (level == llvm::CodeGenOptLevel::Less && machine->getTargetTriple().isX86()) machine->setFastISel(true);
  return machine;
}

namespace {

thread_local std::string thread_machine_options;
thread_local std::unique_ptr<llvm::TargetMachine> thread_machine;

}  // namespace

llvm::TargetMachine* ThreadTargetMachine(const LLVMTargetInfo& info, int opt_level) {
  std::string wanted =
      StrCat(info.triple, "\n", info.cpu, "\n", info.features, "\n", info.float_abi, "\n", info.abi, "\n", opt_level);
  if (thread_machine == nullptr || thread_machine_options != wanted) {
    thread_machine = MakeTargetMachine(info, opt_level);
    thread_machine_options = std::move(wanted);
  }
  return thread_machine.get();
}

void LeakThreadTargetMachine() { Leak(&thread_machine); }

}  // namespace treadle::targets
