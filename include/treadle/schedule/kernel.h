// SPDX-License-Identifier: Apache-2.0
// Kernels: the algorithms that compute an operator on a kind of target, and the choice between them.
//
// The choice is made in two steps. Layout planning chooses the kernel of a call and rewrites the call to the kernel's
// own operator, with the layouts and packed weights that it needs. When the loops of that operator are scheduled, the
// rest of its plan is chosen: the stages of the computation (stage.h) name the kernel and the problem. Both steps
// compare the same modelled costs, in cycles. docs/add-a-kernel.md is the guide.
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

/// A call of an operator with tensors for its operands: their computations, or placeholders during layout planning.
struct CallContext {
  const Attrs& attrs;
  const Array<te::Tensor>& inputs;  ///< of tuples each field
  const Type& out_type;
  const Target& target;  ///< null where there is none (constant folding)
};

/// Priority level of kernels unless they state another.
inline constexpr int kDefaultLevel = 10;
/// Priority level of an operator's own computation.
inline constexpr int kPlainLevel = 0;

/// One algorithm. Functions that don't apply to it are null.
struct Kernel {
  std::string name;    ///< "conv2d.winograd"
  std::string op;      ///< the graph operator that it computes: "nn.conv2d"
  std::string target;  ///< key of its targets: "cpu"; "": all targets
  /// Priority: only applicable kernels of the highest level are compared by cost.
  int level = kDefaultLevel;
  /// To be raised when `apply` or the meaning of a plan's fields changes: it invalidates older records.
  int revision = 1;
  /// Class of its plans; null if there is nothing to choose.
  const TypeInfo* plan_type = nullptr;
  /// A later plan of the space replaces an earlier one only if its cost is less than this fraction of the earlier
  /// one's.
  double least_gain = 1;
  /// Factor of the cost when kernels are compared: more than 1 for those that are less accurate than others.
  double handicap = 1;

  /// The reason why it can't compute the problem, or not accurately enough; "" if it can.
  std::function<std::string(const Problem&, const Machine&)> why_not;
  /// Fields of a plan that `rewrite` depends on: plans that differ in them give different graphs. The other fields are
  /// chosen again when the loops are scheduled.
  std::vector<std::string> graph_fields;
  /// The plans to choose from, at least one if `why_not` returns "".
  std::function<std::vector<Plan>(const Problem&, const Machine&)> space;
  /// Cycles of one run: the mean of the time on one thread and, if there are several, the time on all of them. Null:
  /// not modelled; kernels with a cost model are preferred.
  std::function<double(const Problem&, const Machine&, const Plan&)> cycles;
  /// The reason why a plan from elsewhere (a record) can't be applied; "" if it can.
  std::function<std::string(const Problem&, const Machine&, const Plan&)> why_not_plan;
  /// The computation, for kernels that compute the operator's call as it is instead of rewriting it. The choice between
  /// such kernels is made again when the tensor expressions of the call are created.
  ops::FTECompute compute;
  /// For kernels with `compute`: the reason why it can't compute a call; "" if it can.
  std::function<std::string(const CallContext&)> why_not_call;
  /// For kernels with `compute`: the problem that is passed to `why_not`, `space` and `cycles`. Null: these aren't
  /// called.
  std::function<Problem(const CallContext&)> problem;
  /// The call expressed with this kernel's own operator; nothing: the call stays as it is.
  std::function<std::optional<relay::LaidOutCall>(const LayoutRequest&, const Problem&, const Plan&)> rewrite;
  /// Schedules the stages of the kernel's computation, and its epilogue, which it takes (Stages::Take).
  std::function<void(tir::Schedule&, Stages&, const Problem&, const Machine&, const Plan&)> apply;
};

/// Adds a kernel, or replaces the one of the same name. Kernels without a cost model are preferred in the order in
/// which they were added. Thread-safe; pointers to kernels that are replaced or removed stay valid.
void RegisterKernel(Kernel kernel);
/// Removes a kernel; false if the operator has none of that name.
bool RemoveKernel(const std::string& op, const std::string& name);
/// Sets a function that creates kernels with `compute` for a call of the operator; null removes it. Among kernels of
/// the same level these come first. Thread-safe.
void SetKernelsOfCalls(const std::string& op, std::function<std::vector<Kernel>(const CallContext&)> kernels);
/// Whether there are kernels with `compute`: then the result of a compilation depends on more than the compiler.
bool HasAddedKernels();
/// Whether the operator has such kernels.
bool HasAddedKernels(const std::string& op);
/// The kernel of that name, or null.
const Kernel* FindKernel(const std::string& name);
/// All kernels for the operator on targets of that key, in the order in which they were added.
std::vector<const Kernel*> KernelsOf(const std::string& op, const std::string& target);

/// A kernel in a choice.
struct Candidate {
  const Kernel* kernel = nullptr;
  std::string why_not;    ///< "" if it is applicable
  Plan plan;              ///< its best plan; may be null
  double cycles = -1;     ///< the cost of the plan; -1: not modelled
  bool recorded = false;  ///< whether the plan is from a record
  bool of_call = false;   ///< whether the kernel was created for the call (SetKernelsOfCalls)
  /// Adds the candidate to the log of this thread as a line that kPlansOption accepts.
  void Log(const Problem& problem) const;
};

/// The kernel for a problem: that of a record (PassContext option kPlansOption), else the one whose best plan has the
/// lowest cost, else the first without a cost model. `candidates` has all kernels, the chosen one first.
struct Choice {
  std::vector<Candidate> candidates;
  std::vector<std::shared_ptr<const Kernel>> kernels_of_call;  ///< keeps kernels alive that were created for the call
  const Candidate* best() const {
    return candidates.empty() || !candidates[0].why_not.empty() ? nullptr : &candidates[0];
  }
};
/// `problem` is null for operators that the target has no kernels for. `call` is needed for kernels with `compute`,
/// which are left out without it.
Choice ChooseKernel(const std::string& op, const std::string& target, const Problem& problem, const Machine& machine,
                    const CallContext* call = nullptr);
/// The choice between the computations of a call, in the same order: those of kernels with `compute`, and the
/// operator's own, "<operator>.generic" (kDefaultLevel).
Choice ChooseComputation(const Op& op, const CallContext& call, const Machine& machine);

/// The plan for a kernel that is already chosen: a recorded one, else the one with the lowest cost.
Candidate ChoosePlan(const Kernel& kernel, const Problem& problem, const Machine& machine);
/// As ChoosePlan, but without records.
Candidate DefaultPlan(const Kernel& kernel, const Problem& problem, const Machine& machine);

/// Option of the pass context: lines of {"problem": .., "kernel": .., "plan": ..}, as `--dump kernels` prints them. The
/// problem of a line is computed by its kernel with its plan. Lines are ignored, with a note, if their kernel doesn't
/// exist, or their plan has another schema or can't be applied.
inline constexpr const char* kPlansOption = "schedule.plans";
void RegisterScheduleOptions();
/// Whether the current pass context has lines of kPlansOption.
bool HasRecordedPlans();
/// The line for a problem; "" if there is none.
std::string RecordedPlan(const Problem& problem);

/// "conv2d.winograd: 812345 cycles, {...}" for each candidate, one per line, with the reasons against those not chosen.
std::string ToText(const Choice& choice);

/// Collects the choices made on this thread during its lifetime, and notes on what was silently compiled to slower
/// code.
class ChoiceLog {
 public:
  ChoiceLog();
  ~ChoiceLog();
  ChoiceLog(const ChoiceLog&) = delete;
  ChoiceLog& operator=(const ChoiceLog&) = delete;
  const std::string& text() const { return text_; }
  /// Adds a line to the innermost log of this thread, if there is one.
  static void Note(const std::string& line);
  static bool IsOn();

 private:
  std::string text_;
  ChoiceLog* outer_;
};

}  // namespace treadle::schedule
