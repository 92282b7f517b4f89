// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "treadle/runtime/vm/machine.h"
#include "treadle/runtime/vm/program.h"

namespace treadle::runtime::vm {
namespace {

Instruction Make(Opcode op, int dst, int a, int b, int64_t imm) {
  Instruction i;
  i.op = op;
  i.dst = dst;
  i.a = a;
  i.b = b;
  i.imm = imm;
  return i;
}

/// sum(list, acc): the number of cells of a list, by a tail call. Nil has tag 0, Cons tag 1 with fields (head, tail).
Program CountingProgram() {
  Program program;
  Function f;
  f.name = "count";
  f.params = {"list", "total"};
  f.num_registers = 3;
  f.num_ints = 4;
  f.int_constants = {1};
  f.operands = {3, 1, 2};  // i3; r1, r2
  f.code = {
      Make(Opcode::kGetTag, 1, 0, -1, 0),       Make(Opcode::kJumpIfZero, -1, 1, -1, 7),
      Make(Opcode::kReadInt, 2, 1, -1, 0),      Make(Opcode::kIntOp, 3, 2, 0, static_cast<int64_t>(IntOp::kAdd)),
      Make(Opcode::kGetField, 1, 0, -1, 1),     Make(Opcode::kMakeInts, 2, -1, 0, PackDType(DataType::Int(64))),
      Make(Opcode::kTailInvoke, -1, -1, -1, 0), Make(Opcode::kReturn, -1, 1, -1, 0),
  };
  f.code[5].num_args = 1;
  f.code[6].args_begin = 1;
  f.code[6].num_args = 2;
  program.functions.push_back(f);
  return program;
}

NDArray Int(int64_t value) { return NDArray::FromVector<int64_t>({value}, {}, DataType::Int(64)); }

TEST(VmProgram, TailCallsTakeNoStack) {
  auto model = std::make_shared<VmModel>(CountingProgram(), Module(), std::vector<NDArray>());
  ObjectRef list = AdtValue(0, {});
  for (int i = 0; i < 100000; ++i) list = AdtValue(1, {Int(0), list});
  VirtualMachine machine(model);
  VmLimits limits;
  limits.call_depth = 2;
  machine.SetLimits(limits);
  ObjectRef total = machine.InvokeEntry({list, Int(0)});
  EXPECT_EQ(*Downcast<NDArray>(total).Data<int64_t>(), 100000);
}

/// What a cast does of itself differs between machines.
TEST(VmProgram, FloatsAreReadAsIntegersSaturating) {
  Program program;
  Function f;
  f.name = "main";
  f.params = {"x"};
  f.num_registers = 2;
  f.num_ints = 4;
  f.operands = {0, 1, 2, 3};
  for (int i = 0; i < 4; ++i) f.code.push_back(Make(Opcode::kReadInt, i, 0, -1, i));
  f.code.push_back(Make(Opcode::kMakeInts, 1, -1, 1, PackDType(DataType::Int(64))));
  f.code.back().num_args = 4;
  f.code.push_back(Make(Opcode::kReturn, -1, 1, -1, 0));
  program.functions.push_back(f);
  VirtualMachine machine(std::make_shared<VmModel>(program, Module(), std::vector<NDArray>()));
  const NDArray x = NDArray::FromVector<float>({std::nanf(""), 1e30f, -1e30f, -2.5f}, {4}, DataType::Float(32));
  const auto result = Downcast<NDArray>(machine.InvokeEntry({x}));
  ASSERT_EQ(result->shape, std::vector<int64_t>{4});
  const int64_t* values = result.Data<int64_t>();
  EXPECT_EQ(values[0], 0);
  EXPECT_GE(values[1], int64_t{9'000'000'000'000'000'000});
  EXPECT_LE(values[2], int64_t{-9'000'000'000'000'000'000});
  EXPECT_EQ(values[3], -2);
}

TEST(VmProgram, RoundTrips) {
  Program program = CountingProgram();
  std::string bytes = program.Save();
  Program loaded = Program::Load(bytes, 0);
  EXPECT_EQ(loaded.Disassemble(), program.Disassemble());
  EXPECT_EQ(loaded.Save(), bytes);
}

TEST(VmProgram, MultiplyAddsOfKernelsRoundTrip) {
  Program program = CountingProgram();
  program.kernels.push_back({"dense", 3, 1, 0, {{64, {{0, 0}, {2, 1}}}, {2.5, {}}}, true, 0.25});
  program.kernels.push_back({"other", 1, 1, 0, {}, false});
  const Program loaded = Program::Load(program.Save(), 0);
  ASSERT_EQ(loaded.kernels.size(), 2u);
  EXPECT_TRUE(loaded.kernels[0].macs_known);
  ASSERT_EQ(loaded.kernels[0].macs.size(), 2u);
  EXPECT_EQ(loaded.kernels[0].mac_share, 0.25);
  EXPECT_EQ(loaded.kernels[0].macs[0].factor, 64);
  EXPECT_EQ(loaded.kernels[0].macs[0].dims, program.kernels[0].macs[0].dims);
  EXPECT_FALSE(loaded.kernels[1].macs_known);
  program.kernels[0].macs[0].dims[0].first = 3;
  EXPECT_THROW(Program::Load(program.Save(), 0), ModelFormatError);
}

TEST(VmProgram, ReadsTheVersionsBefore) {
  std::string bytes = CountingProgram().Save();  // without kernels, whose form has changed
  bytes[4] = 5;
  EXPECT_THROW(Program::Load(bytes, 0), ModelFormatError);
  bytes.erase(bytes.size() - sizeof(uint32_t) - sizeof(uint64_t), sizeof(uint64_t));  // the number of origins
  for (const char version : {1, 2, 3}) {
    bytes[4] = version;
    EXPECT_EQ(Program::Load(bytes, 0).functions.size(), 1u);
  }
}

TEST(VmProgram, ErrorsTellTheNodesOfInstructions) {
  Program program;
  program.strings = {"node 'a' (A)", "node 'b' (B)"};
  Function f;
  f.name = "main";
  f.num_registers = 1;
  f.num_ints = 3;
  f.int_constants = {1, 0};
  f.code = {Make(Opcode::kIntOp, 2, 0, 0, static_cast<int64_t>(IntOp::kFloorDiv)),
            Make(Opcode::kIntOp, 2, 0, 1, static_cast<int64_t>(IntOp::kFloorDiv)), Make(Opcode::kReturn, -1, 0, -1, 0)};
  f.origins = {{0, 0}, {1, 1}, {2, -1}};
  program.functions.push_back(f);
  const Program loaded = Program::Load(program.Save(), 0);
  try {
    VirtualMachine(std::make_shared<VmModel>(loaded, Module(), std::vector<NDArray>())).InvokeEntry({});
    FAIL() << "divided by zero";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "node 'b' (B): a size is divided by zero");
  }
  program.functions[0].origins[1].text = 2;
  EXPECT_THROW(Program::Load(program.Save(), 0), ModelFormatError);
}

TEST(VmProgram, DisassemblyNamesOperands) {
  std::string text = CountingProgram().Disassemble();
  EXPECT_NE(text.find("3: i3 = int i2 + i0"), std::string::npos) << text;
  EXPECT_NE(text.find("6: tail_invoke @count (r1, r2)"), std::string::npos) << text;
}

TEST(VmProgram, LimitsEndEndlessRecursion) {
  Program program;
  Function f;
  f.name = "loop";
  f.num_registers = 1;
  f.code = {Make(Opcode::kInvoke, 0, -1, -1, 0), Make(Opcode::kReturn, -1, 0, -1, 0)};
  program.functions.push_back(f);
  VirtualMachine machine(std::make_shared<VmModel>(program, Module(), std::vector<NDArray>()));
  VmLimits limits;
  limits.call_depth = 1000;
  machine.SetLimits(limits);
  EXPECT_THROW(machine.InvokeEntry({}), RuntimeError);
  program.functions[0].code = {Make(Opcode::kTailInvoke, -1, -1, -1, 0)};
  VirtualMachine tail(std::make_shared<VmModel>(program, Module(), std::vector<NDArray>()));
  limits.instructions = 1000;
  tail.SetLimits(limits);
  EXPECT_THROW(tail.InvokeEntry({}), RuntimeError);
}

void ExpectRefused(const std::function<void(Program*)>& change, const std::string& what) {
  Program program = CountingProgram();
  change(&program);
  try {
    Program::Load(program.Save(), 0);
    FAIL() << "accepted: " << what;
  } catch (const ModelFormatError& e) {
    EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
  }
}

TEST(VmProgram, RefusesWhatDoesNotExist) {
  ExpectRefused([](Program* p) { p->functions[0].code[2].a = 3; }, "register 3 of 3");
  ExpectRefused([](Program* p) { p->functions[0].code[2].dst = -1; }, "register -1");
  ExpectRefused([](Program* p) { p->functions[0].code[3].dst = 0; }, "writes a constant");
  ExpectRefused([](Program* p) { p->functions[0].code[1].imm = 99; }, "target 99");
  ExpectRefused([](Program* p) { p->functions[0].code[1].imm = 0; }, "goes back");
  ExpectRefused([](Program* p) { p->functions[0].code[6].imm = 1; }, "function 1 of 1");
  ExpectRefused([](Program* p) { p->functions[0].code[6].num_args = 1; }, "a call with 1 arguments");
  ExpectRefused([](Program* p) { p->functions[0].code[6].args_begin = 4; }, "operands don't exist");
  ExpectRefused([](Program* p) { p->functions[0].code[7] = Make(Opcode::kKill, -1, 1, -1, 0); }, "runs off its end");
  ExpectRefused([](Program* p) { p->functions[0].code[5].imm = 0; }, "bad type");
  ExpectRefused([](Program* p) { p->entry = 1; }, "entry 1 of 1");
  ExpectRefused([](Program* p) { p->functions[0].code[0] = Make(Opcode::kLoadConst, 2, -1, -1, 0); },
                "constant 0 of 0");
  ExpectRefused([](Program* p) { p->functions[0].code[0] = Make(Opcode::kKernel, -1, -1, -1, 0); }, "kernel 0 of 0");
}

TEST(VmProgram, RefusesDamagedBytes) {
  std::string bytes = CountingProgram().Save();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(Program::Load(bytes.substr(0, size), 0), ModelFormatError) << size;
  }
  std::mt19937 random(1);
  ObjectRef list = AdtValue(1, {Int(0), AdtValue(0, {})});
  for (int i = 0; i < 3000; ++i) {
    std::string changed = bytes;
    changed[random() % changed.size()] ^= static_cast<char>(1 << random() % 8);
    try {
      // What is accepted may fail, but safely.
      auto model = std::make_shared<VmModel>(Program::Load(changed, 0), Module(), std::vector<NDArray>());
      VirtualMachine machine(model);
      VmLimits limits;
      limits.instructions = 10000;
      limits.tensor_bytes = 1 << 20;
      machine.SetLimits(limits);
      if (model->program().functions[0].params.size() == 2) machine.InvokeEntry({list, Int(0)});
    } catch (const Error&) {
    }
  }
}

TEST(VmPool, KeepsMemoryWithinBounds) {
  // Rows of growing size, appended and dropped: the pool doesn't keep what was never in use at once.
  Program program;
  Function f;
  f.name = "make";
  f.params = {"n"};
  f.num_registers = 1;
  f.num_ints = 1;
  f.operands = {0};
  f.code = {Make(Opcode::kReadInt, 0, 0, -1, 0), Make(Opcode::kAllocTensor, 0, -1, -1, PackDType(DataType::Float(32))),
            Make(Opcode::kReturn, -1, 0, -1, 0)};
  f.code[1].num_args = 1;
  program.functions.push_back(f);
  VirtualMachine machine(std::make_shared<VmModel>(program, Module(), std::vector<NDArray>()));
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) machine.InvokeEntry({Int(static_cast<int64_t>(random() % (4 << 20)))});
  EXPECT_LE(machine.PoolBytes(), int64_t{40} << 20);
}

}  // namespace
}  // namespace treadle::runtime::vm
