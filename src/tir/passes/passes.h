// SPDX-License-Identifier: Apache-2.0
// Lowering passes, in the order in which they run (see passes.cc): each takes a function and returns one of equal
// meaning.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/target.h"
#include "treadle/tir/function.h"

namespace treadle::tir {

/// Options that passes look at.
struct LowerConfig {
  std::string target_kind;  ///< such as "llvm"
  TargetFeatures features;
  bool simple_mode = false;
  bool disable_vectorize = false;
  bool bounds_check = false;
  bool has_threads = false;     ///< loops bound to threads run at once on the target
  bool native_float16 = false;  ///< the target's compiler sees to 16-bit floats by itself
  int unroll_max_step = 0;
  int unroll_max_depth = 8;
  int unroll_max_extent = 0;
};

/// Attribute of functions: texts in C that their code needs, from pragmas "import_c" (an Array of strings).
inline constexpr const char* kImportC = "tir.import_c";
/// The same of pragmas "import_llvm": modules of LLVM IR as text.
inline constexpr const char* kImportLLVM = "tir.import_llvm";

/// What LowerCustomDatatypes leaves: the names of the element types of parameters that users define (a Map from Var).
inline constexpr const char* kCustomTypes = "tir.custom_types";

struct LoweringPass {
  const char* name;
  PrimFunc (*run)(PrimFunc func, const LowerConfig& config);
  const char* doc;
};
/// The list.
const std::vector<LoweringPass>& LoweringPasses();

/// Values of users' element types become unsigned integers, and what is computed with them what their functions say.
PrimFunc LowerCustomDatatypes(PrimFunc func, const LowerConfig& config);
/// Reductions along loops that are bound to threads of a block become partial results of each thread in shared memory,
/// which the threads combine in pairs.
PrimFunc LowerThreadAllreduce(PrimFunc func, const LowerConfig& config);
/// Reductions' init statements become separate nests before the reduction's loops, or a conditional statement where
/// the loops are shared with other axes.
PrimFunc LowerInit(PrimFunc func, const LowerConfig& config);
/// Blocks disappear: their variables are replaced by what they are bound to, predicates become conditions, buffers are
/// allocated where they are used, no larger than the part that is used there.
PrimFunc LowerBlocks(PrimFunc func, const LowerConfig& config);
/// Allocations shrink to the part of the buffer that is used within them.
PrimFunc CompactBuffers(PrimFunc func, const LowerConfig& config);
/// Rows of buffers that were asked to be aligned get the strides for it.
PrimFunc AlignStorage(PrimFunc func, const LowerConfig& config);
/// Buffers become one-dimensional, their offsets and strides part of the index.
PrimFunc FlattenBuffer(PrimFunc func, const LowerConfig& config);
PrimFunc SimplifyFunc(PrimFunc func, const LowerConfig& config);
/// Loops with boundary conditions are cut into parts, so that the main part has none.
PrimFunc LoopPartition(PrimFunc func, const LowerConfig& config);
/// Unrolled tiles of which a dynamic end leaves few rows get narrower forms, chosen when they run.
PrimFunc NarrowTails(PrimFunc func, const LowerConfig& config);
/// The width of the form that NarrowTails has for the last `rest` elements of a row of dynamic length, of tiles of
/// `extent`.
int64_t NarrowedWidth(int64_t rest, int64_t extent);
/// Elements of incomplete register tiles that aren't used repeat the last one that is, instead of being left out.
PrimFunc RelaxTails(PrimFunc func, const LowerConfig& config);
/// Vectorised loops become vector expressions; what can't be one stays a serial loop.
PrimFunc VectorizeLoop(PrimFunc func, const LowerConfig& config);
/// Loops bound to virtual threads become copies of their body.
PrimFunc InjectVirtualThread(PrimFunc func, const LowerConfig& config);
/// Buffers marked for double buffering are filled one iteration ahead.
PrimFunc InjectDoubleBuffer(PrimFunc func, const LowerConfig& config);
/// Vectors of elements at small distances are read as whole vectors (see strided_access.h for the analysis).
PrimFunc CoalesceStridedAccess(PrimFunc func, const LowerConfig& config);
/// Neighbouring stores of 2 or 4 vectors whose elements fill each other's gaps become one of the interleaved vector.
PrimFunc InterleaveStores(PrimFunc func, const LowerConfig& config);
/// Allocations that aren't in use at the same time share memory.
PrimFunc StorageRewrite(PrimFunc func, const LowerConfig& config);
/// Conditions that a loop doesn't change are tested before it.
PrimFunc HoistIfThenElse(PrimFunc func, const LowerConfig& config);
PrimFunc UnrollLoop(PrimFunc func, const LowerConfig& config);
PrimFunc RemoveNoOp(PrimFunc func, const LowerConfig& config);
/// Loops over lists end where the list does that they are over.
PrimFunc TrimLists(PrimFunc func, const LowerConfig& config);
/// Equal subexpressions of values and of indices are computed once; those that a loop doesn't change, outside of it.
PrimFunc CommonSubexpr(PrimFunc func, const LowerConfig& config);
/// Arithmetic on 16-bit floats becomes arithmetic on float32, rounded after each operation.
PrimFunc LegalizeNarrowFloat(PrimFunc func, const LowerConfig& config);
/// Mathematical intrinsics become polynomials, types that the target lacks are emulated.
PrimFunc LowerIntrin(PrimFunc func, const LowerConfig& config);
/// Each access is preceded by a check of its index.
PrimFunc InstrumentBoundsChecks(PrimFunc func, const LowerConfig& config);

/// Third argument of the intrinsic tir.tvm_struct_get: which field of the DLTensor (or TreadleValue) at index.
enum class StructField : int {
  kData = 1,
  kShape = 2,
  kStrides = 3,
  kNDim = 4,
  kTypeCode = 5,
  kTypeBits = 6,
  kTypeLanes = 7,
  kByteOffset = 8,
  kDeviceId = 9,
  kDeviceType = 10,
  kValue = 12,  ///< content of element `index` of an array of TreadleValue
};

/// A function in low-level form, taken apart for code generation.
struct SplitFunction {
  std::string name;             ///< global symbol
  PrimFunc compute;             ///< parameters: data pointers, then scalars; no buffer_map; returns int32
  std::vector<Buffer> buffers;  ///< one per data pointer
  std::vector<Var> scalars;     ///< symbolic dimensions and scalar parameters
  bool returns_value = false;   ///< two more parameters follow: where its value goes, and the value's type code
  PrimFunc packed;              ///< checks its arguments, then calls GlobalVar(name + "__compute")
};
/// Binds the symbolic dimensions to the arguments' shapes and writes the argument checks.
/// A dimension that no argument binds is an Error.
SplitFunction MakePackedApi(const PrimFunc& func, bool with_packed = true);

}  // namespace treadle::tir
