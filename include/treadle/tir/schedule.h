// SPDX-License-Identifier: Apache-2.0
// Schedules: rewriting a function of blocks into an equivalent one that runs faster.
//
// Every primitive checks that the result computes the same, and otherwise throws ScheduleError, which names the block
// and the loop and says what was expected. The function is replaced as a whole: on an error nothing has changed.
// Steps are recorded in a trace that can be printed, stored as JSON and replayed on another function.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "treadle/tir/function.h"
#include "treadle/tir/tensor_intrin.h"

namespace treadle::tir {

class ScheduleError : public Error {
 public:
  explicit ScheduleError(const std::string& message) : Error(message, ExitCode::kUsage) {}
  const char* kind() const override { return "ScheduleError"; }
};

/// Handle of a block: follows it through all rewriting.
class BlockRVNode : public Object {
 public:
  std::string name;  ///< of the block, unique in the function
  int id = 0;
  TREADLE_DECLARE_NODE(BlockRVNode, Object, "tir.BlockRV");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name", &BlockRVNode::name);
    r.Field("id", &BlockRVNode::id);
  }
};
class BlockRV : public ObjectRef {
 public:
  TREADLE_REF(BlockRV, ObjectRef, BlockRVNode);
};

/// Handle of a loop. Ends with the loop: when that is split or fused, or its block moves elsewhere.
class LoopRVNode : public Object {
 public:
  Var var;
  int id = 0;
  TREADLE_DECLARE_NODE(LoopRVNode, Object, "tir.LoopRV");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("var", &LoopRVNode::var);
    r.Field("id", &LoopRVNode::id);
  }
};
class LoopRV : public ObjectRef {
 public:
  TREADLE_REF(LoopRV, ObjectRef, LoopRVNode);
};

struct ScheduleData;

class Schedule {
 public:
  /// Blocks of equal names are renamed: "T_add", "T_add_1", ..
  explicit Schedule(const PrimFunc& func);
  /// Of the module's only function, or of the one called `func_name`.
  explicit Schedule(const IRModule& module, const std::string& func_name = "");
  ~Schedule();
  Schedule(Schedule&&) noexcept;
  Schedule& operator=(Schedule&&) noexcept;
  /// An independent schedule at the same point.
  Schedule Copy() const;

  PrimFunc func() const;
  IRModule mod() const;

  // ---- Finding ----
  BlockRV GetBlock(const std::string& name);
  bool HasBlock(const std::string& name) const;
  /// The blocks that hold no other blocks, in the order in which they run.
  std::vector<BlockRV> GetBlocks();
  /// Loops around the block within its enclosing block, outermost first.
  std::vector<LoopRV> GetLoops(const BlockRV& block);
  /// Blocks directly inside.
  std::vector<BlockRV> GetChildBlocks(const BlockRV& block);
  std::vector<BlockRV> GetChildBlocks(const LoopRV& loop);
  /// Blocks that write what the block reads / read what it writes, within the enclosing block.
  std::vector<BlockRV> GetProducers(const BlockRV& block);
  std::vector<BlockRV> GetConsumers(const BlockRV& block);
  /// Blocks that write a parameter of the function.
  std::vector<BlockRV> GetOutputBlocks();
  bool IsOutput(const BlockRV& block) const;
  Block Get(const BlockRV& block) const;
  For Get(const LoopRV& loop) const;

  // ---- Loops ----
  /// Outermost first. At most one factor may be null: it is chosen so that all iterations are covered. Where the
  /// factors don't divide the extent, blocks inside get a predicate.
  std::vector<LoopRV> Split(const LoopRV& loop, const std::vector<PrimExpr>& factors,
                            const std::vector<std::string>& names = {});
  /// One loop of perfectly nested ones, outermost first.
  LoopRV Fuse(const std::vector<LoopRV>& loops, const std::string& name = "");
  /// Loops of one perfect nest get the order given; others of the nest stay where they are.
  void Reorder(const std::vector<LoopRV>& loops);
  /// Splits y and x and reorders to (y outer, x outer, y inner, x inner).
  std::vector<LoopRV> Tile(const LoopRV& y, const LoopRV& x, const PrimExpr& y_factor, const PrimExpr& x_factor);
  void Parallel(const LoopRV& loop);
  void Vectorize(const LoopRV& loop);
  void Unroll(const LoopRV& loop);
  /// To "blockIdx.x", "threadIdx.y", "vthread", ..
  void Bind(const LoopRV& loop, const std::string& thread_axis);
  void VThread(const LoopRV& loop) { Bind(loop, "vthread"); }
  /// A loop of extent 1 around the block or loop.
  LoopRV AddUnitLoop(const BlockRV& block);

  // ---- Where blocks run ----
  /// Computes what consumers under `loop` need of the block, there. `keep_unit_loops`: axes of which one iteration
  /// remains get a loop all the same.
  void ComputeAt(const BlockRV& block, const LoopRV& loop, bool keep_unit_loops = false);
  /// Runs a consumer right after its producers under `loop`.
  void ReverseComputeAt(const BlockRV& block, const LoopRV& loop, bool keep_unit_loops = false);
  /// Puts the value of an element-wise block into its consumers. A value used several times at the same indices is
  /// bound once.
  void ComputeInline(const BlockRV& block);
  /// Puts an element-wise consumer into its only producer.
  void ReverseComputeInline(const BlockRV& block);

  // ---- Buffers ----
  /// A copy of the `read_index`-th buffer that the block reads, in `scope`, which the consumers (default: this block)
  /// read instead. Returns the block that copies.
  BlockRV CacheRead(const BlockRV& block, int read_index, const std::string& scope,
                    const std::vector<BlockRV>& consumers = {});
  /// The block writes into a buffer of `scope`; the returned block copies that to the original.
  BlockRV CacheWrite(const BlockRV& block, int write_index, const std::string& scope);
  void SetScope(const BlockRV& block, int write_index, const std::string& scope);
  /// Stride of dimension `axis` of a buffer the block writes becomes a multiple of `factor` plus `offset`.
  void StorageAlign(const BlockRV& block, int write_index, int axis, int factor, int offset);
  /// Two copies of the buffer that the block writes, so that filling one overlaps with using the other.
  void DoubleBuffer(const BlockRV& block, int write_index = 0);
  /// Prefetches what the block reads of its `read_index`-th buffer `offset` iterations of the loop ahead.
  void Prefetch(const BlockRV& block, int read_index, const LoopRV& loop, const PrimExpr& offset);
  /// While loop `around` (and those around it that read the same) runs, prefetches into the second-level cache what
  /// it reads of the buffer when next it reads something else. The cache lines are spread over the iterations of
  /// loop `at`, which is `around` or inside of it; `within` > 0: over as many of the first iterations of `around`, for
  /// loops that may end early or whose extents are dynamic. Does nothing where nothing else is read.
  void PrefetchNext(const BlockRV& block, int read_index, const LoopRV& around, const LoopRV& at, int64_t within = 0);

  /// Element (vars) of the `index`-th buffer that the block writes (reads) is stored at `indices`, in terms of vars.
  /// The map must keep elements apart; the buffer must not be a parameter.
  void TransformLayout(const BlockRV& block, bool is_write, int index, const std::vector<Var>& vars,
                       const std::vector<PrimExpr>& indices);

  // ---- Blocks ----
  /// The perfect nest that begins with `loop` becomes a block around the block in it, which is returned.
  BlockRV Blockize(const LoopRV& loop);
  /// The perfect nest that begins with `loop` is replaced by an intrinsic that computes the same. Throws ScheduleError
  /// naming what differs.
  void Tensorize(const LoopRV& loop, const TensorIntrin& intrin);
  /// A sum of products runs over its axes rounded up to multiples of `padding` (one per axis), on operands padded with
  /// zeros by blocks before it; a block after it cuts the result off.
  void PadEinsum(const BlockRV& block, const std::vector<int64_t>& padding);

  // ---- Reductions ----
  /// Moves the init of the block before `loop`, as a block of its own, which is returned.
  BlockRV DecomposeReduction(const BlockRV& block, const LoopRV& loop);
  /// Splits a reduction over `loop`: partial results along a new axis (at `factor_axis` of a new buffer), then their
  /// combination by the original block. Returns the block of the partial results.
  BlockRV RFactor(const LoopRV& loop, int factor_axis = 0);

  // ---- Annotations ----
  void Annotate(const LoopRV& loop, const std::string& key, const ObjectRef& value);
  void Annotate(const BlockRV& block, const std::string& key, const ObjectRef& value);
  void Unannotate(const LoopRV& loop, const std::string& key);
  void Unannotate(const BlockRV& block, const std::string& key);
  /// Annotation "pragma_<key>".
  void Pragma(const LoopRV& loop, const std::string& key, const ObjectRef& value);

  // ---- Trace ----
  /// One statement per step, as Python would write them.
  std::string TraceText() const;
  std::string TraceJson() const;
  /// Applies the steps of a stored trace.
  void Replay(const std::string& trace_json);

 private:
  explicit Schedule(std::unique_ptr<ScheduleData> data);
  std::unique_ptr<ScheduleData> data_;
};

}  // namespace treadle::tir
