// SPDX-License-Identifier: Apache-2.0
// Bytes and text of programs. What is read is checked before it can run.

#include "targets/stackvm/program.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/scalar.h"

namespace treadle::targets {
namespace {

using runtime::ByteReader;
using runtime::ByteWriter;

constexpr uint64_t kMagic = 0x314d56454c445254;  // "TRDLEVM1"

/// What the operands of an instruction are: 'r' register, 'b' buffer, 'k' constant, 'm' message, 'j' place in the
/// code, '-' anything. In the order dst, a, b, c.
const char* OperandsOf(VmOp op) {
  switch (op) {
    case VmOp::kConst:
      return "rk--";
    case VmOp::kLoad:
      return "rbr-";
    case VmOp::kStore:
      return "-brr";
    case VmOp::kCheck:
      return "-rrb";
    case VmOp::kAlloc:
      return "-br-";
    case VmOp::kJump:
      return "-j--";
    case VmOp::kJumpIfZero:
      return "-rj-";
    case VmOp::kFail:
      return "-m--";
    case VmOp::kAssert:
      return "-rm-";
    case VmOp::kReturn:
      return "----";
    case VmOp::kPushInt:
    case VmOp::kPushFloat:
    case VmOp::kPushExtent:
      return "-r--";
    case VmOp::kPushString:
      return "-m--";
    case VmOp::kPushTensor:
      return "-br-";
    case VmOp::kCallPacked:
      return "rm--";
    case VmOp::kAddress:
      return "rb--";
    case VmOp::kReinterpret:
      return "rr--";
    case VmOp::kSelect:
    case VmOp::kFma:
      return "rrrr";
    default:
      return "rrr-";
  }
}

const char* NameOf(VmOp op) {
  static const char* const names[] = {
      "const",        "move",          "add.i",   "sub.i",       "mul.i",    "div.i",        "mod.i",
      "floordiv.i",   "floormod.i",    "min.i",   "max.i",       "add.f",    "sub.f",        "mul.f",
      "div.f",        "min.f",         "max.f",   "eq.i",        "ne.i",     "lt.i",         "le.i",
      "lt.u",         "le.u",          "eq.f",    "ne.f",        "lt.f",     "le.f",         "and",
      "or",           "not",           "bit_and", "bit_or",      "bit_xor",  "bit_not",      "shl",
      "shr",          "popcount",      "clz",     "abs.i",       "select",   "int_to_float", "uint_to_float",
      "float_to_int", "float_to_bool", "round",   "reinterpret", "math1",    "math2",        "fma",
      "load",         "store",         "check",   "alloc",       "jump",     "jump_if_zero", "fail",
      "assert",       "return",        "push.i",  "push.f",      "push.str", "push.extent",  "push.tensor",
      "call_packed",  "address"};
  static_assert(std::size(names) == static_cast<size_t>(VmOp::kAddress) + 1);
  return names[static_cast<size_t>(op)];
}

void CheckCode(const VmProgram& program, const std::vector<VmInstruction>& code, const ByteReader& reader) {
  for (size_t i = 0; i < code.size(); ++i) {
    const VmInstruction& in = code[i];
    if (in.op > VmOp::kAddress) reader.Fail(StrCat("instruction ", i, " has an unknown code"));
    const int32_t fields[] = {in.dst, in.a, in.b, in.c};
    const char* operands = OperandsOf(in.op);
    for (int k = 0; k < 4; ++k) {
      size_t limit = SIZE_MAX;
      if (operands[k] == 'r') limit = static_cast<size_t>(program.registers);
      if (operands[k] == 'b') limit = program.buffers.size();
      if (operands[k] == 'k') limit = program.constants.size();
      if (operands[k] == 'm') limit = program.messages.size();
      if (operands[k] == 'j') limit = code.size() + 1;
      const bool bad = limit != SIZE_MAX && (fields[k] < 0 || static_cast<size_t>(fields[k]) >= limit);
      if (bad || fields[k] < -1) reader.Fail(StrCat("instruction ", i, " has a bad operand"));
    }
    const bool arithmetic = in.op >= VmOp::kAddI && in.op <= VmOp::kFma;
    const bool compares = in.op >= VmOp::kEqI && in.op <= VmOp::kNot;
    if (arithmetic && !compares && (in.bits == 0 || in.bits > 64))
      reader.Fail(StrCat("instruction ", i, " has a bad dtype"));
    if (in.op == VmOp::kReinterpret && (in.extra == 0 || in.extra > 64))
      reader.Fail(StrCat("instruction ", i, " has a bad dtype"));
    if ((in.op == VmOp::kMath1 || in.op == VmOp::kMath2) && in.extra >= VmFunctionNames().size()) {
      reader.Fail(StrCat("instruction ", i, " calls an unknown function"));
    }
  }
}

void WriteCode(ByteWriter* writer, const std::vector<VmInstruction>& code) {
  writer->Write<uint64_t>(code.size());
  writer->WriteRaw(code.data(), code.size() * sizeof(VmInstruction));
}

std::vector<VmInstruction> ReadCode(ByteReader* reader) {
  std::vector<VmInstruction> code(reader->ReadCount(sizeof(VmInstruction)));
  for (VmInstruction& in : code) in = reader->Read<VmInstruction>();
  return code;
}

DataType ReadDType(ByteReader* reader) {
  const DataType t(reader->Read<DLDataType>());
  // Elements are read and written in whole words: no other widths, whose last element would end within one.
  const DataType exponents(kDLFloat8_e8m0fnu, 8);
  if (!runtime::IsNumber(t) && t != exponents) reader->Fail("unknown dtype of a buffer");
  return t;
}

}  // namespace

std::string VmProgram::Save() const {
  ByteWriter writer;
  writer.Write(kMagic);
  writer.WriteString(name);
  writer.Write<uint32_t>(static_cast<uint32_t>(registers));
  writer.WriteU64s(constants);
  writer.Write<uint64_t>(messages.size());
  for (const std::string& message : messages) writer.WriteString(message);
  writer.Write<uint64_t>(buffers.size());
  for (const BufferInfo& buffer : buffers) {
    writer.WriteString(buffer.name);
    writer.Write<DLDataType>(buffer.dtype);
  }
  writer.Write<uint64_t>(params.size());
  for (const Param& param : params) {
    writer.Write<uint32_t>(static_cast<uint32_t>(param.buffer));
    writer.Write<uint64_t>(param.shape.size());
    for (size_t d = 0; d < param.shape.size(); ++d) {
      writer.Write<int32_t>(param.shape[d]);
      writer.Write<uint8_t>(param.binds[d]);
    }
  }
  WriteCode(&writer, prologue);
  WriteCode(&writer, code);
  return writer.bytes();
}

VmProgram VmProgram::Load(const std::string& bytes) {
  ByteReader reader(bytes, "stackvm program");
  if (reader.Read<uint64_t>() != kMagic) reader.Fail("bad magic number: it isn't a program of the StackVM");
  VmProgram program;
  program.name = reader.ReadString();
  const uint32_t registers = reader.Read<uint32_t>();
  if (registers > (1u << 26)) reader.Fail("too many registers");
  program.registers = static_cast<int32_t>(registers);
  program.constants = reader.ReadU64s();
  program.messages.resize(reader.ReadCount(8));
  for (std::string& message : program.messages) message = reader.ReadString();
  program.buffers.resize(reader.ReadCount(8));
  for (BufferInfo& buffer : program.buffers) {
    buffer.name = reader.ReadString();
    buffer.dtype = ReadDType(&reader);
  }
  program.params.resize(reader.ReadCount(12));
  for (size_t i = 0; i < program.params.size(); ++i) {
    Param& param = program.params[i];
    const uint32_t buffer = reader.Read<uint32_t>();
    if (buffer >= program.buffers.size()) reader.Fail("a parameter has no buffer");
    param.buffer = static_cast<int32_t>(buffer);
    param.dtype = program.buffers[buffer].dtype;
    program.buffers[buffer].param = static_cast<int32_t>(i);
    const uint64_t rank = reader.ReadCount(5);
    for (uint64_t d = 0; d < rank; ++d) {
      param.shape.push_back(reader.Read<int32_t>());
      param.binds.push_back(reader.Read<uint8_t>());
      if (param.shape.back() < 0 || param.shape.back() >= program.registers) reader.Fail("a dimension has no register");
    }
  }
  program.prologue = ReadCode(&reader);
  program.code = ReadCode(&reader);
  reader.ExpectEnd();
  CheckCode(program, program.prologue, reader);
  CheckCode(program, program.code, reader);
  return program;
}

std::string VmProgram::Disassemble() const {
  TextStream out;
  out << "Function: " << name << "\n";
  for (const auto* part : {&prologue, &code}) {
    out << (part == &prologue ? "prologue:\n" : "code:\n");
    for (size_t i = 0; i < part->size(); ++i) {
      const VmInstruction& in = (*part)[i];
      const char* operands = OperandsOf(in.op);
      const int32_t fields[] = {in.dst, in.a, in.b, in.c};
      out << "  [" << i << "] " << NameOf(in.op);
      if (in.op == VmOp::kMath1 || in.op == VmOp::kMath2) out << " " << VmFunctionNames()[in.extra];
      for (int k = 0; k < 4; ++k) {
        if (operands[k] == 'r') out << " r" << fields[k];
        if (operands[k] == 'b') out << " " << buffers[static_cast<size_t>(fields[k])].name;
        if (operands[k] == 'k') out << " " << static_cast<int64_t>(constants[static_cast<size_t>(fields[k])]);
        if (operands[k] == 'm') out << " \"" << messages[static_cast<size_t>(fields[k])] << "\"";
        if (operands[k] == 'j') out << " -> " << fields[k];
      }
      out << "\n";
    }
  }
  return out.str();
}

}  // namespace treadle::targets
