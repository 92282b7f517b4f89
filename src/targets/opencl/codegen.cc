// SPDX-License-Identifier: Apache-2.0
// OpenCL C 1.2 out of kernels (tir/passes/split_host_device.h).
#include <algorithm>
#include <array>
#include <limits>

#include "targets/builtin.h"
#include "targets/c/prelude.h"
#include "targets/cpu/machine.h"
#include "targets/gpu/schedule/gpu.h"
#include "tir/passes/kernel_body.h"
#include "tir/passes/split_host_device.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/dlpack.h"
#include "treadle/targets/c_writer.h"

namespace treadle::targets {
namespace {

using tir::Var;

/// No device has larger blocks; what is larger is refused by the launch.
constexpr int64_t kMaxThreadsOfBlock = 1024;

/// C99's names for what OpenCL C calls otherwise.
constexpr const char* kHeader = R"(#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#else
#define double float
#endif
#define TREADLE_INLINE static inline
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#define INT64_C(x) (x##L)
#define UINT64_C(x) (x##UL)
#define INT8_MIN CHAR_MIN
#define INT8_MAX CHAR_MAX
#define INT16_MIN SHRT_MIN
#define INT16_MAX SHRT_MAX
#define INT32_MIN INT_MIN
#define INT32_MAX INT_MAX
#define INT64_MIN LONG_MIN
#define INT64_MAX LONG_MAX
#define UINT8_MAX UCHAR_MAX
#define UINT16_MAX USHRT_MAX
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULONG_MAX
#define sqrtf sqrt
#define floorf floor
#define ceilf ceil
#define truncf trunc
#define fabsf fabs
#define fmaf fma
#define fmodf fmod
#define copysignf copysign
#define nearbyintf rint
#define nearbyint rint
TREADLE_INLINE int32_t treadle_bits_f32_i32(float x) { return as_int(x); }
TREADLE_INLINE uint32_t treadle_bits_f32_u32(float x) { return as_uint(x); }
TREADLE_INLINE float treadle_bits_i32_f32(int32_t x) { return as_float(x); }
TREADLE_INLINE float treadle_bits_u32_f32(uint32_t x) { return as_float(x); }
#ifdef cl_khr_fp64
TREADLE_INLINE int64_t treadle_bits_f64_i64(double x) { return as_long(x); }
TREADLE_INLINE uint64_t treadle_bits_f64_u64(double x) { return as_ulong(x); }
TREADLE_INLINE double treadle_bits_i64_f64(int64_t x) { return as_double(x); }
TREADLE_INLINE double treadle_bits_u64_f64(uint64_t x) { return as_double(x); }
#endif
)";

class OpenCLWriter final : public CWriter {
 public:
  explicit OpenCLWriter(const Array<Var>& params) {
    for (const Var& v : params) {
      if (v.dtype().is_handle()) spaces_[v.get()] = "__global ";
    }
  }
  const std::vector<std::string>& axes() const { return axes_; }
  /// Threads of a block along x, y and z; 0 where only a launch knows.
  const std::array<int64_t, 3>& block() const { return block_; }
  /// Bytes of memory that the threads of a block share.
  int64_t shared_bytes() const { return shared_bytes_; }

 protected:
  using CWriter::VisitStmt_;

  const char* Language() const override { return "opencl"; }

  std::string PointerTo(const Var& data, const std::string& element) const override {
    auto it = spaces_.find(data.get());
    return StrCat(it != spaces_.end() ? it->second : "", element, "*");
  }

  void AllocateMemory(const tir::AllocateNode* op) override {
    const tir::Buffer& buffer = op->buffer;
    int64_t count = buffer->dtype.lanes();
    for (const PrimExpr& extent : buffer->shape) {
      const int64_t* n = AsConstInt(extent);
      if (n == nullptr || __builtin_mul_overflow(count, *n, &count)) {
        throw TargetError(StrCat("buffer ", buffer->name, " within a kernel has no constant size"));
      }
    }
    const bool shared = op->annotations.contains(tir::kSharedByBlock);
    if (shared) spaces_[buffer->data.get()] = "__local ";
    const std::string array =
        StrCat(CMemoryType(buffer->dtype), " ", Name(buffer->data), "[", std::max<int64_t>(count, 1), "];");
    if (shared) {  // of the kernel's outermost scope
      shared_bytes_ += std::max<int64_t>(tir::ConstantBytes(buffer), 1);
      Line("__local " + array);
      StmtBase::VisitStmt(op->body);
      return;
    }
    Line("{");
    Indented([&] {
      Line(array);
      StmtBase::VisitStmt(op->body);
    });
    Line("}");
  }

  void VisitStmt_(const tir::AttrStmtNode* op) override {
    const auto* axis = op->node.as<tir::IterVarNode>();
    if (op->attr_key != tir::attr::kThreadExtent || axis == nullptr) return StmtBase::VisitStmt(op->body);
    const std::string& tag = axis->thread_tag;
    const bool block = tag.rfind("blockIdx.", 0) == 0;
    const int dimension = tag.back() - 'x';
    const std::string type = CValueType(axis->var.dtype());
    Line(StrCat("const ", type, " ", Name(axis->var), " = (", type, ")", block ? "get_group_id(" : "get_local_id(",
                dimension, ");"));
    Line(StrCat("(void)", Name(axis->var), ";"));
    axes_.push_back(tag);
    if (!block) {
      const int64_t* extent = AsConstInt(op->value);
      block_[static_cast<size_t>(dimension)] = extent != nullptr ? *extent : 0;
    }
    StmtBase::VisitStmt(op->body);
  }

  void Finish() override {}
  void FailUnless(const std::string&, const std::string& message) override {
    throw TargetError(StrCat("the opencl backend has no assertions within kernels (", message, ")"));
  }
  std::string OwnIntrinsic(const std::string& name, const tir::CallNode* op, bool* known) override {
    if (name == "tvm_storage_sync") {
      Line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);");
      return "";
    }
    return CWriter::OwnIntrinsic(name, op, known);
  }

 private:
  std::unordered_map<const Object*, std::string> spaces_;
  std::vector<std::string> axes_;
  std::array<int64_t, 3> block_ = {1, 1, 1};
  int64_t shared_bytes_ = 0;
};

/// Threads of a block; 0 where only a launch knows.
int64_t Threads(const OpenCLWriter& writer) {
  int64_t threads = 1;
  for (const int64_t extent : writer.block()) {
    if (__builtin_mul_overflow(threads, extent, &threads)) return std::numeric_limits<int64_t>::max();
  }
  return threads;
}

/// The size of a block where it is known, so that the compiler gives each thread no more registers than all of them
/// can have. Without it compilers assume blocks of any size, or of a size of their own that launches then can't exceed.
std::string BlockSize(const OpenCLWriter& writer) {
  const int64_t threads = Threads(writer);
  if (threads <= 0 || threads > kMaxThreadsOfBlock) return "";
  const auto& block = writer.block();
  return StrCat("__attribute__((reqd_work_group_size(", block[0], ", ", block[1], ", ", block[2], "))) ");
}

/// Throws where the target's options say that its devices can't run the kernel.
void CheckLimits(const std::string& name, const OpenCLWriter& writer, const Target& target) {
  auto check = [&](const char* option, int64_t needed, const char* what) {
    const int64_t limit = target->GetIntAttr(option, 0);
    if (limit <= 0 || needed <= limit) return;
    throw TargetError(StrCat("kernel ", name, " needs ", needed, " ", what, "; target ", target->kind, " allows ",
                             limit, " (-", option, "); expected a schedule with smaller blocks"));
  };
  check("max_num_threads", Threads(writer), "threads of a block");
  check("max_shared_memory_per_block", writer.shared_bytes(), "bytes of memory that the threads of a block share");
}

bool UsesDoubles(const tir::PrimFunc& kernel) {
  bool found = false;
  tir::PostOrderVisit(kernel->body, [&](const ObjectRef& node) {
    const auto* e = node.as<PrimExprNode>();
    found = found || (e != nullptr && e->dtype.is_float() && e->dtype.bits() == 64);
  });
  return found;
}

Artifact CodegenOpenCL(const std::vector<tir::PrimFunc>& kernels, const Target& target, const CodegenOptions& options) {
  TextStream out;
  out << "// treadle target: " << target.str() << "\n" << kHeader << kCHelpers;
  Artifact artifact;
  runtime::ByteWriter table;
  for (const tir::PrimFunc& kernel : kernels) {
    const std::string name = kernel->GetAttr<String>(attr::kGlobalSymbol)->str();
    OpenCLWriter writer(kernel->params);
    std::string params;
    table.WriteString(name);
    table.Write<uint64_t>(kernel->params.size());
    for (const Var& v : kernel->params) {
      params += (params.empty() ? "" : ", ") + writer.Declare(v, true);
      table.Write<uint8_t>(static_cast<uint8_t>(v.dtype().code()));
      table.Write<uint8_t>(static_cast<uint8_t>(v.dtype().bits()));
    }
    if (UsesDoubles(kernel)) out << "\n#ifndef cl_khr_fp64\n#error \"" << name << " needs doubles\"\n#endif";
    const std::string body = writer.Body({kernel->params.begin(), kernel->params.end()}, kernel->body);
    CheckLimits(name, writer, target);
    out << "\n__kernel " << BlockSize(writer) << "void " << name << "(" << params << ") {\n" << body << "}\n";
    table.Write<uint64_t>(writer.axes().size());
    for (const std::string& tag : writer.axes()) table.WriteString(tag);
    for (const int64_t extent : writer.block()) table.Write<uint64_t>(static_cast<uint64_t>(extent));
    table.Write<uint64_t>(static_cast<uint64_t>(writer.shared_bytes()));
    artifact.symbols.push_back(name);
  }
  artifact.code = out.str();
  if (options.Wants("opencl")) artifact.texts["opencl"] = artifact.code;
  runtime::ByteWriter module;
  module.Write<uint32_t>(2);
  module.WriteString(artifact.code);
  module.Write<uint64_t>(kernels.size());
  module.WriteRaw(table.bytes().data(), table.bytes().size());
  artifact.module = module.bytes();
  return artifact;
}

}  // namespace

TargetSpec OpenCLTarget() {
  using Type = TargetOption::Type;
  TargetSpec spec;
  spec.kind.name = "opencl";
  spec.kind.doc = "OpenCL C 1.2, for any device that has a driver";
  spec.kind.keys = {"opencl", "gpu"};
  spec.kind.options = {{"max_num_threads", Type::kInteger, "threads of a block", 1, 1024},
                       {"max_shared_memory_per_block", Type::kInteger, "bytes that the threads of a block share", 1},
                       {"thread_warp_size", Type::kInteger, "threads that run in step", 1, 1024}};
  spec.kind.features = PortableCpuFeatures;
  spec.form = ModuleForm::kDevice;
  spec.device_type = kDLOpenCL;
  spec.max_function_args = 128;  // 1024 bytes of arguments are what all implementations guarantee
  spec.schedule = ops::ScheduleForGpu;
  spec.lowering = {.vectors = false, .threads = true, .native_float16 = true};
  spec.codegen = CodegenOpenCL;
  spec.texts = {"opencl"};
  spec.runtime = "opencl";
  return spec;
}

}  // namespace treadle::targets
