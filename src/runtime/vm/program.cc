// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/vm/program.h"

#include <array>
#include <cstring>

#include "runtime/vm/opcodes.h"
#include "treadle/base/error.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/device.h"

namespace treadle::runtime::vm {
namespace {

constexpr char kMagic[4] = {'T', 'V', 'M', 'X'};
constexpr uint32_t kVersion = 4;
constexpr uint32_t kMacsUnknown = ~uint32_t{0};
constexpr uint32_t kMaxRegisters = 1u << 24;

void WriteFunction(const Function& f, ByteWriter* out) {
  out->WriteString(f.name);
  out->Write<uint64_t>(f.params.size());
  for (const std::string& param : f.params) out->WriteString(param);
  out->Write(f.num_registers);
  out->Write(f.num_ints);
  out->Write<uint64_t>(f.int_constants.size());
  for (int64_t value : f.int_constants) out->Write(value);
  out->Write<uint64_t>(f.operands.size());
  for (uint32_t operand : f.operands) out->Write(operand);
  out->Write<uint64_t>(f.code.size());
  for (const Instruction& i : f.code) {
    out->Write(static_cast<uint32_t>(i.op));
    out->Write(i.dst);
    out->Write(i.a);
    out->Write(i.b);
    out->Write(i.imm);
    out->Write(i.args_begin);
    out->Write(i.num_args);
  }
  out->Write<uint64_t>(f.origins.size());
  for (const Origin& origin : f.origins) {
    out->Write(origin.begin);
    out->Write(origin.text);
  }
}

Function ReadFunction(ByteReader* in, uint32_t version) {
  Function f;
  f.name = in->ReadString();
  for (uint64_t n = in->ReadCount(8); n > 0; --n) f.params.emplace_back(in->ReadString());
  f.num_registers = in->Read<uint32_t>();
  f.num_ints = in->Read<uint32_t>();
  f.int_constants.resize(in->ReadCount(8));
  for (int64_t& value : f.int_constants) value = in->Read<int64_t>();
  f.operands.resize(in->ReadCount(4));
  for (uint32_t& operand : f.operands) operand = in->Read<uint32_t>();
  f.code.resize(in->ReadCount(32));
  for (Instruction& i : f.code) {
    auto op = in->Read<uint32_t>();
    if (op >= static_cast<uint32_t>(kNumOpcodes)) in->Fail(StrCat("unknown instruction ", op));
    i.op = static_cast<Opcode>(op);
    i.dst = in->Read<int32_t>();
    i.a = in->Read<int32_t>();
    i.b = in->Read<int32_t>();
    i.imm = in->Read<int64_t>();
    i.args_begin = in->Read<uint32_t>();
    i.num_args = in->Read<uint32_t>();
  }
  if (version > 3) f.origins.resize(in->ReadCount(8));
  for (Origin& origin : f.origins) {
    origin.begin = in->Read<uint32_t>();
    origin.text = in->Read<int32_t>();
  }
  return f;
}

/// Checks one function of a program.
class Verifier {
 public:
  Verifier(const Program& program, const Function& function, const std::string& what)
      : program_(program), f_(function), what_(what) {}

  void Run() {
    if (f_.num_registers > kMaxRegisters || f_.num_ints > kMaxRegisters) Fail("too many registers");
    if (f_.params.size() > f_.num_registers) Fail("fewer registers than parameters");
    if (f_.int_constants.size() > f_.num_ints) Fail("fewer integer registers than constants");
    if (f_.code.empty()) Fail("no instructions");
    for (at_ = 0; at_ < f_.code.size(); ++at_) Check(f_.code[at_]);
    at_ = f_.code.size() - 1;
    Opcode last = f_.code.back().op;
    if (!InfoOf(last).ends) Fail("the function runs off its end");
    for (const Origin& origin : f_.origins) {
      if (origin.text != -1) CheckIndex(origin.text, program_.strings.size(), "string");
    }
  }

 private:
  [[noreturn]] void Fail(const std::string& problem) const {
    throw ModelFormatError(StrCat(what_, ": function ", f_.name, ", instruction ", at_, ": ", problem));
  }
  void CheckRegister(Slot kind, int64_t index) const {
    if (kind == Slot::kNone) return;
    uint32_t limit = kind == Slot::kObject ? f_.num_registers : f_.num_ints;
    if (index < 0 || index >= limit) Fail(StrCat("register ", index, " of ", limit));
  }
  void CheckIndex(int64_t index, size_t size, const char* kind) const {
    if (index < 0 || static_cast<uint64_t>(index) >= size) Fail(StrCat(kind, " ", index, " of ", size));
  }

  void Check(const Instruction& i) const {
    if (static_cast<int>(i.op) >= kNumOpcodes) Fail("unknown instruction");
    const OpcodeInfo& info = InfoOf(i.op);
    CheckRegister(info.dst, i.dst);
    CheckRegister(info.a, i.a);
    CheckRegister(info.b, i.b);
    // Integer constants are never written.
    if (info.dst == Slot::kInt && static_cast<size_t>(i.dst) < f_.int_constants.size()) Fail("writes a constant");
    if (i.args_begin > f_.operands.size() || i.num_args > f_.operands.size() - i.args_begin)
      Fail("operands don't exist");
    size_t objects = info.args == Slot::kObject ? i.num_args : 0;
    if (i.op == Opcode::kKernel) {
      CheckIndex(i.imm, program_.kernels.size(), "kernel");
      const KernelDecl& kernel = program_.kernels[static_cast<size_t>(i.imm)];
      objects = kernel.tensors;
      if (i.num_args != uint64_t{kernel.tensors} + kernel.scalars) Fail("wrong number of operands of a kernel");
    }
    if (info.args == Slot::kNone && i.num_args != 0) Fail("unexpected operands");
    for (uint32_t k = 0; k < i.num_args; ++k) {
      CheckRegister(k < objects ? Slot::kObject : Slot::kInt, f_.operands[i.args_begin + k]);
    }
    switch (info.imm) {
      case Imm::kString:
        CheckIndex(i.imm, program_.strings.size(), "string");
        break;
      case Imm::kConstant:
        CheckIndex(i.imm, program_.num_constants, "constant");
        break;
      case Imm::kTarget:
        CheckIndex(i.imm, f_.code.size(), "target");
        if (i.imm <= static_cast<int64_t>(at_)) Fail("a jump goes back");
        break;
      case Imm::kFunction:
        CheckIndex(i.imm, program_.functions.size(), "function");
        if (i.op != Opcode::kMakeClosure) {
          size_t wanted = program_.functions[static_cast<size_t>(i.imm)].params.size();
          if (i.num_args != wanted) Fail(StrCat("a call with ", i.num_args, " arguments of a function of ", wanted));
        } else if (i.num_args > program_.functions[static_cast<size_t>(i.imm)].params.size()) {
          Fail("a closure captures more than its function takes");
        }
        break;
      case Imm::kIndex:
        if (i.imm < 0) Fail(StrCat("index ", i.imm));
        break;
      case Imm::kIntOp:
        CheckIndex(i.imm, kNumIntOps, "integer operation");
        break;
      case Imm::kIntRegister:
        CheckRegister(Slot::kInt, i.imm);
        break;
      case Imm::kDType: {
        DataType dtype = UnpackDType(i.imm);
        if (PackDType(dtype) != i.imm || dtype.bits() < 1 || dtype.bits() > 64 || dtype.lanes() != 1) Fail("bad type");
        break;
      }
      case Imm::kNone:
        break;
    }
    if (i.op == Opcode::kMakeInts && ((i.b != 0 && i.b != 1) || (i.b == 0 && i.num_args != 1))) Fail("bad rank");
    if (i.op == Opcode::kKernel && i.b != -1) CheckIndex(i.b, program_.strings.size(), "string");
    if (i.op == Opcode::kRank) CheckIndex(i.b, program_.strings.size(), "string");
    const bool makes_tensor = i.op == Opcode::kLoadConst || i.op == Opcode::kAllocTensor;
    if (makes_tensor && i.b != kOnCpu) CheckIndex(i.b, kMaxDeviceTypes, "device type");
    if (i.op == Opcode::kDeviceCopy) CheckIndex(i.imm, kMaxDeviceTypes, "device type");
  }

  const Program& program_;
  const Function& f_;
  const std::string& what_;
  size_t at_ = 0;
};

}  // namespace

const OpcodeInfo& InfoOf(Opcode op) {
  constexpr Slot n = Slot::kNone, r = Slot::kObject, i = Slot::kInt;
  static const std::array<OpcodeInfo, kNumOpcodes> table = {{
      {"fatal", n, n, n, n, Imm::kString, true},         {"move", r, r, n, n, Imm::kNone, false},
      {"return", n, r, n, n, Imm::kNone, true},          {"load_const", r, n, n, n, Imm::kConstant, false},
      {"invoke", r, n, n, r, Imm::kFunction, false},     {"tail_invoke", n, n, n, r, Imm::kFunction, true},
      {"apply", r, r, n, r, Imm::kNone, false},          {"tail_apply", n, r, n, r, Imm::kNone, true},
      {"kernel", n, n, n, i, Imm::kNone, false},         {"alloc_tensor", r, n, n, i, Imm::kDType, false},
      {"alloc_data", r, n, n, r, Imm::kNone, false},     {"get_field", r, r, n, n, Imm::kIndex, false},
      {"get_tag", i, r, n, n, Imm::kNone, false},        {"make_closure", r, n, n, r, Imm::kFunction, false},
      {"ref_new", r, r, n, n, Imm::kNone, false},        {"ref_read", r, r, n, n, Imm::kNone, false},
      {"ref_write", n, r, r, n, Imm::kNone, false},      {"jump", n, n, n, n, Imm::kTarget, true},
      {"jump_if_zero", n, i, n, n, Imm::kTarget, false}, {"read_int", i, r, n, n, Imm::kIndex, false},
      {"dim_of", i, r, n, n, Imm::kIndex, false},        {"int", i, i, i, n, Imm::kIntOp, false},
      {"select", i, i, i, n, Imm::kIntRegister, false},  {"check_equal", n, i, i, n, Imm::kString, false},
      {"reshape", r, r, n, i, Imm::kNone, false},        {"make_ints", r, n, n, i, Imm::kDType, false},
      {"append", r, r, r, n, Imm::kNone, false},         {"take_rows", r, r, i, n, Imm::kNone, false},
      {"kill", n, r, n, n, Imm::kNone, false},           {"rank", n, r, n, n, Imm::kIndex, false},
      {"host", r, n, n, r, Imm::kString, false},         {"device_copy", r, r, n, n, Imm::kIndex, false},
  }};
  return table[static_cast<size_t>(op)];
}

const char* IntOpName(IntOp op) {
  static const std::array<const char*, kNumIntOps> names = {
      "+", "-", "*", "//", "%", "truncdiv", "truncmod", "min", "max", "==", "!=", "<", "<=", "&&", "||"};
  return names[static_cast<size_t>(op)];
}

namespace {

void WriteMacs(const KernelDecl& kernel, ByteWriter* out) {
  out->Write(kernel.macs_known ? static_cast<uint32_t>(kernel.macs.size()) : kMacsUnknown);
  if (!kernel.macs_known) return;
  out->Write(kernel.mac_share);
  for (const MacTerm& term : kernel.macs) {
    out->Write(term.factor);
    out->Write(static_cast<uint32_t>(term.dims.size()));
    for (const auto& [tensor, dim] : term.dims) {
      out->Write(tensor);
      out->Write(dim);
    }
  }
}

void ReadMacs(ByteReader* in, uint32_t version, KernelDecl* kernel) {
  const auto terms = in->Read<uint32_t>();
  kernel->macs_known = terms != kMacsUnknown;
  if (kernel->macs_known && version > 2) kernel->mac_share = in->Read<double>();
  for (uint32_t k = 0; kernel->macs_known && k < terms; ++k) {
    MacTerm term;
    term.factor = in->Read<double>();
    for (auto n = in->Read<uint32_t>(); n > 0; --n) {
      const auto tensor = in->Read<uint32_t>();
      if (tensor >= kernel->tensors) in->Fail(StrCat("tensor ", tensor, " of kernel ", kernel->name));
      term.dims.emplace_back(tensor, in->Read<uint32_t>());
    }
    kernel->macs.push_back(std::move(term));
  }
}

}  // namespace

std::string Program::Save() const {
  ByteWriter out;
  out.WriteRaw(kMagic, sizeof(kMagic));
  out.Write(kVersion);
  out.Write<uint64_t>(strings.size());
  for (const std::string& text : strings) out.WriteString(text);
  out.Write<uint64_t>(kernels.size());
  for (const KernelDecl& kernel : kernels) {
    out.WriteString(kernel.name);
    out.Write(kernel.tensors);
    out.Write(kernel.outputs);
    out.Write(kernel.scalars);
    WriteMacs(kernel, &out);
  }
  out.Write<uint64_t>(functions.size());
  for (const Function& function : functions) WriteFunction(function, &out);
  out.Write(entry);
  return std::move(out.bytes());
}

Program Program::Load(std::string_view bytes, uint32_t num_constants, const std::string& what) {
  ByteReader in(bytes, what);
  if (std::memcmp(in.Take(sizeof(kMagic)).data(), kMagic, sizeof(kMagic)) != 0) in.Fail("not a program of the VM");
  auto version = in.Read<uint32_t>();
  if (version == 0 || version > kVersion)
    in.Fail(StrCat("version ", version, " of the VM's format; this runtime reads 1 to ", kVersion));
  Program program;
  program.num_constants = num_constants;
  for (uint64_t n = in.ReadCount(8); n > 0; --n) program.strings.emplace_back(in.ReadString());
  for (uint64_t n = in.ReadCount(20); n > 0; --n) {
    KernelDecl kernel;
    kernel.name = in.ReadString();
    kernel.tensors = in.Read<uint32_t>();
    kernel.outputs = in.Read<uint32_t>();
    kernel.scalars = in.Read<uint32_t>();
    if (version > 1) ReadMacs(&in, version, &kernel);
    program.kernels.push_back(std::move(kernel));
  }
  for (uint64_t n = in.ReadCount(16); n > 0; --n) program.functions.push_back(ReadFunction(&in, version));
  program.entry = in.Read<uint32_t>();
  in.ExpectEnd();
  program.Verify(what);
  return program;
}

void Program::Verify(const std::string& what) const {
  if (entry >= functions.size()) throw ModelFormatError(StrCat(what, ": entry ", entry, " of ", functions.size()));
  for (const KernelDecl& kernel : kernels) {
    if (kernel.outputs > kernel.tensors)
      throw ModelFormatError(StrCat(what, ": kernel ", kernel.name, " is malformed"));
  }
  for (const Function& function : functions) Verifier(*this, function, what).Run();
}

int Program::FindFunction(const std::string& name) const {
  for (size_t i = 0; i < functions.size(); ++i) {
    if (functions[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

namespace {

void PrintInstruction(const Program& program, const Function& f, const Instruction& i, TextStream& os) {
  const OpcodeInfo& info = InfoOf(i.op);
  auto reg = [](Slot kind, int64_t index) { return StrCat(kind == Slot::kObject ? "r" : "i", index); };
  if (info.dst != Slot::kNone) os << reg(info.dst, i.dst) << " = ";
  os << info.name;
  if (i.op == Opcode::kIntOp) {
    os << " i" << i.a << " " << IntOpName(static_cast<IntOp>(i.imm)) << " i" << i.b;
    return;
  }
  if (i.op == Opcode::kKernel) os << " " << program.kernels[static_cast<size_t>(i.imm)].name;
  if (info.imm == Imm::kFunction) os << " @" << program.functions[static_cast<size_t>(i.imm)].name;
  if (info.a != Slot::kNone) os << " " << reg(info.a, i.a);
  if (info.b != Slot::kNone) os << " " << reg(info.b, i.b);
  switch (info.imm) {
    case Imm::kString:
      os << " \"" << program.strings[static_cast<size_t>(i.imm)] << "\"";
      break;
    case Imm::kConstant:
    case Imm::kIndex:
      if (i.op == Opcode::kDeviceCopy) {
        os << " to " << DeviceTypeName(static_cast<int>(i.imm));
        break;
      }
      os << " " << i.imm;
      break;
    case Imm::kTarget:
      os << " ->" << i.imm;
      break;
    case Imm::kIntRegister:
      os << " i" << i.imm;
      break;
    case Imm::kDType:
      os << " " << UnpackDType(i.imm);
      break;
    default:
      if (i.op == Opcode::kAllocData) os << " tag " << i.imm;
      break;
  }
  const bool makes_tensor = i.op == Opcode::kLoadConst || i.op == Opcode::kAllocTensor;
  if (makes_tensor && i.b != kOnCpu) os << " on " << DeviceTypeName(i.b);
  if (info.args == Slot::kNone) return;
  size_t objects = info.args == Slot::kObject ? i.num_args : 0;
  if (i.op == Opcode::kKernel) objects = program.kernels[static_cast<size_t>(i.imm)].tensors;
  os << " (";
  for (uint32_t k = 0; k < i.num_args; ++k) {
    os << (k == 0 ? "" : ", ") << (k < objects ? "r" : "i") << f.operands[i.args_begin + k];
  }
  os << ")";
  if (i.op == Opcode::kKernel && i.b >= 0) os << "  ; " << program.strings[static_cast<size_t>(i.b)];
}

}  // namespace

std::string Program::Disassemble() const {
  TextStream os;
  for (size_t n = 0; n < functions.size(); ++n) {
    const Function& f = functions[n];
    os << (n == 0 ? "" : "\n") << "func @" << f.name << "(";
    for (size_t i = 0; i < f.params.size(); ++i) os << (i == 0 ? "" : ", ") << "r" << i << " " << f.params[i];
    os << ")  registers " << f.num_registers << ", integers " << f.num_ints << (n == entry ? ", entry" : "") << "\n";
    for (size_t i = 0; i < f.int_constants.size(); ++i) os << "     i" << i << " := " << f.int_constants[i] << "\n";
    for (size_t i = 0; i < f.code.size(); ++i) {
      os << (i < 10 ? "   " : i < 100 ? "  " : i < 1000 ? " " : "") << i << ": ";
      PrintInstruction(*this, f, f.code[i], os);
      os << "\n";
    }
  }
  return os.str();
}

}  // namespace treadle::runtime::vm
