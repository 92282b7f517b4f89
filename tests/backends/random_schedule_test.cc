// SPDX-License-Identifier: Apache-2.0
// What lowering and code generation make of randomly scheduled functions agrees with the scheduled function in the
// interpreter. Integer data, so that results must be equal.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "backends/llvm/codegen.h"
#include "backends/stackvm/stackvm.h"
#include "driver/lower_tir.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/schedule.h"

namespace treadle {
namespace {

using runtime::NDArray;
using tir::Var;

const DataType kI32 = DataType::Int(32);

struct Program {
  tir::PrimFunc func;
  std::vector<NDArray> args;
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int Below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  int Between(int low, int high) { return low + Below(high - low + 1); }
  NDArray Tensor(const std::vector<int64_t>& shape) {
    NDArray a = NDArray::Empty(shape, kI32);
    for (int64_t i = 0; i < a.size(); ++i) a.Data<int32_t>()[i] = Between(-9, 9);
    return a;
  }

 private:
  std::mt19937 engine_;
};

PrimExpr I(int64_t v) { return PrimExpr(static_cast<int32_t>(v)); }

Program Elementwise(Random& r) {
  const int n = r.Between(1, 20), m = r.Between(1, 33);
  te::Tensor a = te::Placeholder({I(n), I(m)}, kI32, "A"), b = te::Placeholder({I(m)}, kI32, "B");
  te::Tensor c = te::Compute({I(n), I(m)}, [&](const Array<Var>& i) { return a(i[0], i[1]) * b(i[1]); }, "C");
  te::Tensor d = te::Compute({I(n), I(m)}, [&](const Array<Var>& i) { return c(i[0], i[1]) + a(i[0], i[1]); }, "D");
  te::Tensor e = te::Compute({I(n), I(m)}, [&](const Array<Var>& i) { return tir::max(d(i[0], i[1]), I(3)); }, "E");
  return {te::CreatePrimFunc({a, b, e}, "f"), {r.Tensor({n, m}), r.Tensor({m}), r.Tensor({n, m})}};
}

Program Matmul(Random& r) {
  const int n = r.Between(1, 18), m = r.Between(1, 18), k = r.Between(1, 18);
  te::Tensor a = te::Placeholder({I(n), I(k)}, kI32, "A"), b = te::Placeholder({I(k), I(m)}, kI32, "B");
  tir::IterVar q = te::ReduceAxis(tir::Range(I(k)), "k");
  te::Tensor c = te::Compute(
      {I(n), I(m)}, [&](const Array<Var>& i) { return te::Sum(a(i[0], q->var) * b(q->var, i[1]), {q}); }, "C");
  te::Tensor d = te::Compute({I(n), I(m)}, [&](const Array<Var>& i) { return c(i[0], i[1]) + 1; }, "D");
  return {te::CreatePrimFunc({a, b, d}, "f"), {r.Tensor({n, k}), r.Tensor({k, m}), r.Tensor({n, m})}};
}

Program Convolution(Random& r) {
  const int ci = r.Between(1, 4), co = r.Between(1, 5), n = r.Between(3, 10), stride = r.Between(1, 2);
  const int out = (n + 2 - 3) / stride + 1;
  te::Tensor x = te::Placeholder({I(ci), I(n), I(n)}, kI32, "X"),
             w = te::Placeholder({I(co), I(ci), I(3), I(3)}, kI32, "W");
  te::Tensor p = te::Compute(
      {I(ci), I(n + 2), I(n + 2)},
      [&](const Array<Var>& i) {
        return tir::if_then_else(i[1] >= 1 && i[1] < n + 1 && i[2] >= 1 && i[2] < n + 1, x(i[0], i[1] - 1, i[2] - 1),
                                 I(0));
      },
      "P");
  tir::IterVar c = te::ReduceAxis(tir::Range(I(ci)), "c"), kh = te::ReduceAxis(tir::Range(I(3)), "kh"),
               kw = te::ReduceAxis(tir::Range(I(3)), "kw");
  te::Tensor y = te::Compute(
      {I(co), I(out), I(out)},
      [&](const Array<Var>& i) {
        return te::Sum(p(c->var, i[1] * stride + kh->var, i[2] * stride + kw->var) * w(i[0], c->var, kh->var, kw->var),
                       {c, kh, kw});
      },
      "Y");
  te::Tensor z = te::Compute(
      {I(co), I(out), I(out)}, [&](const Array<Var>& i) { return tir::max(y(i[0], i[1], i[2]), I(0)); }, "Z");
  return {te::CreatePrimFunc({x, w, z}, "f"),
          {r.Tensor({ci, n, n}), r.Tensor({co, ci, 3, 3}), r.Tensor({co, out, out})}};
}

Program Rows(Random& r) {
  const int n = r.Between(1, 9), m = r.Between(1, 21);
  te::Tensor a = te::Placeholder({I(n), I(m)}, kI32, "A");
  tir::IterVar q = te::ReduceAxis(tir::Range(I(m)), "q"), s = te::ReduceAxis(tir::Range(I(m)), "s");
  te::Tensor top = te::Compute({I(n)}, [&](const Array<Var>& i) { return te::MaxReduce(a(i[0], q->var), {q}); }, "T");
  te::Tensor d = te::Compute({I(n), I(m)}, [&](const Array<Var>& i) { return a(i[0], i[1]) - top(i[0]); }, "D");
  te::Tensor sum = te::Compute({I(n)}, [&](const Array<Var>& i) { return te::Sum(d(i[0], s->var), {s}); }, "S");
  te::Tensor out =
      te::Compute({I(n), I(m)}, [&](const Array<Var>& i) { return d(i[0], m - 1 - i[1]) * sum(i[0]); }, "O");
  return {te::CreatePrimFunc({a, out}, "f"), {r.Tensor({n, m}), r.Tensor({n, m})}};
}

/// One random primitive; those that refuse are left out.
void Step(tir::Schedule& s, Random& r) {
  auto blocks = s.GetBlocks();
  std::vector<tir::BlockRV> usable;
  for (const auto& b : blocks) {
    if (s.Get(b)->name_hint != "root") usable.push_back(b);
  }
  if (usable.empty()) return;
  const auto block = usable[static_cast<size_t>(r.Below(static_cast<int>(usable.size())))];
  const auto loops = s.GetLoops(block);
  auto loop = [&] { return loops[static_cast<size_t>(r.Below(static_cast<int>(loops.size())))]; };
  const int choice = r.Below(14);
  if (loops.empty() && choice < 9) return;
  switch (choice) {
    case 0:
    case 1:
      s.Split(loop(), {PrimExpr(), I(r.Between(1, 9))});
      break;
    case 2: {
      const size_t at = static_cast<size_t>(r.Below(static_cast<int>(loops.size())));
      if (at + 1 < loops.size()) s.Fuse({loops[at], loops[at + 1]});
      break;
    }
    case 3:
      s.Reorder({loop(), loop()});
      break;
    case 4:
      s.Vectorize(loops.back());
      break;
    case 5:
      s.Unroll(loop());
      break;
    case 6:
      s.Parallel(loop());
      break;
    case 7:
    case 8: {
      auto other = usable[static_cast<size_t>(r.Below(static_cast<int>(usable.size())))];
      r.Below(2) == 0 ? s.ComputeAt(other, loop()) : s.ReverseComputeAt(other, loop());
      break;
    }
    case 9:
      s.ComputeInline(block);
      break;
    case 10:
      s.CacheWrite(block, 0, r.Below(2) == 0 ? "local" : "global");
      break;
    case 11:
      s.CacheRead(block, 0, "global");
      break;
    case 12:
      s.DecomposeReduction(block, loop());
      break;
    default:
      s.ReverseComputeInline(block);
      break;
  }
}

/// The results of `run` on copies of the arguments.
template <typename F>
NDArray ResultOf(const Program& program, F&& run) {
  std::vector<NDArray> args;
  for (const NDArray& a : program.args) args.push_back(a.Copy());
  run(args);
  return args.back();
}

bool Equal(const NDArray& a, const NDArray& b) {
  return std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<size_t>(a.nbytes())) == 0;
}

int Draws(int otherwise) {
  const char* text = std::getenv("TREADLE_TEST_DRAWS");
  return text != nullptr ? std::atoi(text) : otherwise;
}

/// Draws programs and schedules; `run` executes the scheduled function.
void ExpectSameResults(int draws, unsigned seed,
                       const std::function<void(const tir::PrimFunc&, const std::vector<NDArray>&)>& run) {
  for (int draw = 0; draw < draws; ++draw) {
    Random r(seed + static_cast<unsigned>(draw));
    Program (*const makers[])(Random&) = {Elementwise, Matmul, Convolution, Rows};
    const Program program = makers[r.Below(4)](r);
    tir::Schedule s(program.func);
    const int steps = r.Between(1, 8);
    for (int k = 0; k < steps; ++k) {
      try {
        Step(s, r);
      } catch (const InternalError&) {
        throw;
      } catch (const Error&) {
      }
    }
    const tir::PrimFunc scheduled = s.func();
    NDArray expected;
    try {
      expected = ResultOf(program, [&](const std::vector<NDArray>& a) { backends::RunPrimFunc(scheduled, a); });
    } catch (const Error&) {
      continue;
    }
    // A schedule that changes the results is the business of the schedules' own tests.
    if (!Equal(expected,
               ResultOf(program, [&](const std::vector<NDArray>& a) { backends::RunPrimFunc(program.func, a); }))) {
      continue;
    }
    try {
      const NDArray got = ResultOf(program, [&](const std::vector<NDArray>& a) { run(scheduled, a); });
      ASSERT_TRUE(Equal(got, expected)) << "draw " << seed + static_cast<unsigned>(draw) << "\n" << s.TraceText();
    } catch (const std::exception& error) {
      FAIL() << "draw " << seed + static_cast<unsigned>(draw) << ": " << error.what() << "\n" << s.TraceText();
    }
  }
}

TEST(RandomScheduleTest, LoweringKeepsTheMeaning) {
  ExpectSameResults(Draws(300), 2000, [](const tir::PrimFunc& f, const std::vector<NDArray>& a) {
    backends::RunPrimFunc(driver::LowerPrimFunc(f, Target("stackvm")), a);
  });
}

TEST(RandomScheduleTest, NativeCodeKeepsTheMeaning) {
  const Target target("llvm -mcpu=native -opt-level=1");
  ExpectSameResults(Draws(60), 3000, [&](const tir::PrimFunc& f, const std::vector<NDArray>& a) {
    backends::CodegenOptions options;
    options.packed_api = false;
    auto module = backends::JitLLVM({driver::LowerPrimFunc(f, target)}, target, options);
    std::vector<void*> data;
    for (const NDArray& value : a) data.push_back(value.data_ptr());
    auto raw = reinterpret_cast<backends::RawFunction>(module->GetSymbol("f__raw"));
    if (raw(data.data(), nullptr) != 0) throw RuntimeError("the compiled function failed");
  });
}

}  // namespace
}  // namespace treadle
