// SPDX-License-Identifier: Apache-2.0
// Kernels: the algorithms by which an operator can be computed on a kind of target, and the choice among them.
//
// Two stages of compilation ask. The layout plan of a graph asks which kernel computes a call, and has it rewritten
// into the operator of that kernel, on the layouts and packed weights that it wants. When that operator's loops are
// scheduled, its plan is chosen: the computation says by its stages (stage.h) which kernel made it and for which
// problem. Both compare costs of the same models: cycles.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "treadle/ops/compute.h"
#include "treadle/relay/layout.h"
#include "treadle/schedule/machine.h"
#include "treadle/schedule/plan.h"
#include "treadle/schedule/stage.h"

namespace treadle::schedule {

/// A call that is being laid out.
struct LayoutRequest {
  const relay::CallNode* call;
  relay::LayoutArgs& args;
};

/// A call of an operator, with tensors for its operands: those that compute them, or, where a graph is laid out,
/// placeholders.
struct CallContext {
  const Attrs& attrs;
  const Array<te::Tensor>& inputs;  ///< of tuples each field
  const Type& out_type;
  const Target& target;  ///< null where there is none (constant folding)
};

/// Level of kernels that don't say another.
inline constexpr int kDefaultLevel = 10;
/// Level of an operator's own computation beside kernels.
inline constexpr int kPlainLevel = 0;

/// One algorithm. Functions that are null don't apply to it.
struct Kernel {
  std::string name;    ///< "conv2d.winograd"
  std::string op;      ///< the operator of the graph that it computes: "nn.conv2d"
  std::string target;  ///< key of the targets that it is for: "cpu"; "": of all
  /// Of those that can be used, kernels of the highest level are compared by their costs.
  int level = kDefaultLevel;
  /// Raised when `apply` or what the plan's fields mean changes: older records don't fit then.
  int revision = 1;
  /// Class of its plans; null where there is nothing to choose.
  const TypeInfo* plan_type = nullptr;
  /// A later plan of the space replaces an earlier one only where it costs less than this part of it.
  double least_gain = 1;
  /// Costs are multiplied by it when kernels are compared: more than 1 for those that are less accurate than others.
  double handicap = 1;

  /// Why it can't compute the problem, or doesn't as accurately as others; "" where it can.
  std::function<std::string(const Problem&, const Machine&)> why_not;
  /// Fields of a plan that `rewrite` depends on: plans that differ in them are other graphs. The other fields are
  /// chosen again when loops are scheduled.
  std::vector<std::string> graph_fields;
  /// Plans to choose from, at least one where `why_not` gives "".
  std::function<std::vector<Plan>(const Problem&, const Machine&)> space;
  /// Cycles of one run: the mean of the time on one thread and, where there are several, the time of all of them. Null:
  /// not modelled; kernels that are rank before it.
  std::function<double(const Problem&, const Machine&, const Plan&)> cycles;
  /// Why a plan that didn't come from `space` can't be applied; "" where it can.
  std::function<std::string(const Problem&, const Machine&, const Plan&)> why_not_plan;
  /// The computation, where it isn't that of an operator of the kernel's own (`rewrite`). Then the call stays in the
  /// graph as it is, and the choice among those that have one is made again when tensor expressions are made.
  ops::FTECompute compute;
  /// Of kernels with `compute`: why it can't compute a call; "" where it can.
  std::function<std::string(const CallContext&)> why_not_call;
  /// Of kernels with `compute`: the problem that `why_not`, `space` and `cycles` are asked about. Null: they aren't
  /// asked.
  std::function<Problem(const CallContext&)> problem;
  /// The call in terms of this kernel's own operator, or nothing: then the call stays as it is.
  std::function<std::optional<relay::LaidOutCall>(const LayoutRequest&, const Problem&, const Plan&)> rewrite;
  /// Schedules the stages that the kernel's computation consists of, and its epilogue, which it takes (Stages::Take).
  std::function<void(tir::Schedule&, Stages&, const Problem&, const Machine&, const Plan&)> apply;
};

/// Adds a kernel; one of the same name is replaced. Kernels that don't say what they cost are preferred in the order in
/// which they were added. Thread-safe; pointers to kernels that are replaced or removed stay valid.
void RegisterKernel(Kernel kernel);
/// Takes a kernel away; false where there is none of that name for the operator.
bool RemoveKernel(const std::string& op, const std::string& name);
/// Sets a function that makes kernels with `compute` for a call of the operator; null takes it away. Of equal level
/// they come before all others. Thread-safe.
void SetKernelsOfCalls(const std::string& op, std::function<std::vector<Kernel>(const CallContext&)> kernels);
/// Whether there are kernels with `compute`: what is compiled then depends on more than the compiler.
bool HasAddedKernels();
/// Whether there are such for the operator.
bool HasAddedKernels(const std::string& op);
/// The kernel of that name, or null.
const Kernel* FindKernel(const std::string& name);
/// All kernels for the operator on targets of that key, in the order in which they were added.
std::vector<const Kernel*> KernelsOf(const std::string& op, const std::string& target);

/// What became of one kernel in a choice.
struct Candidate {
  const Kernel* kernel = nullptr;
  std::string why_not;    ///< "" where it can be used
  Plan plan;              ///< its best one; may be null
  double cycles = -1;     ///< of that; -1: not modelled
  bool recorded = false;  ///< the plan is from a record
  bool of_call = false;   ///< made for the call (SetKernelsOfCalls)
  /// Adds to the log of this thread, as a record: what kPlansOption takes.
  void Log(const Problem& problem) const;
};

/// The kernel for a problem: the one of a record (PassContext option kPlansOption), else that whose best plan takes the
/// fewest cycles, else the first of those that don't say. `candidates` has all kernels, the chosen one first.
struct Choice {
  std::vector<Candidate> candidates;
  std::vector<std::shared_ptr<const Kernel>> kernels_of_call;  ///< keeps those that were made for it
  const Candidate* best() const {
    return candidates.empty() || !candidates[0].why_not.empty() ? nullptr : &candidates[0];
  }
};
/// `problem` may be null: of an operator that the target has no kernels of its own for. `call`: for kernels with
/// `compute`, which aren't asked without.
Choice ChooseKernel(const std::string& op, const std::string& target, const Problem& problem, const Machine& machine,
                    const CallContext* call = nullptr);
/// The choice among computations of a call: those of kernels that have one, and the operator's own,
/// "<operator>.generic", of kDefaultLevel. By the same order.
Choice ChooseComputation(const Op& op, const CallContext& call, const Machine& machine);

/// The plan for a kernel that was chosen before: a record's, else the one of least cost.
Candidate ChoosePlan(const Kernel& kernel, const Problem& problem, const Machine& machine);
/// The same without records.
Candidate DefaultPlan(const Kernel& kernel, const Problem& problem, const Machine& machine);

/// Option of the pass context: lines of {"problem": .., "kernel": .., "plan": ..}, as `--dump kernels` prints them. A
/// problem that a line states is computed by its kernel with its plan. Lines of kernels that don't exist, whose plans
/// have another schema or don't fit are left out, with a note.
inline constexpr const char* kPlansOption = "schedule.plans";
void RegisterScheduleOptions();
/// Whether the current pass context has lines of kPlansOption.
bool HasRecordedPlans();
/// What they say for a problem, as one line; "" where they say nothing.
std::string RecordedPlan(const Problem& problem);

/// "conv2d.winograd: 812345 cycles, {...}" for each candidate, one per line, with the reasons of those not taken.
std::string ToText(const Choice& choice);

/// Collects, on this thread and while it exists, what is chosen and what silently takes a slower way.
class ChoiceLog {
 public:
  ChoiceLog();
  ~ChoiceLog();
  ChoiceLog(const ChoiceLog&) = delete;
  ChoiceLog& operator=(const ChoiceLog&) = delete;
  const std::string& text() const { return text_; }
  /// Adds a line to the innermost log of this thread; without one, nothing.
  static void Note(const std::string& line);
  static bool IsOn();

 private:
  std::string text_;
  ChoiceLog* outer_;
};

}  // namespace treadle::schedule
