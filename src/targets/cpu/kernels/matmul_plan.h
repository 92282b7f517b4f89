// SPDX-License-Identifier: Apache-2.0
// Plans of matrix products with a packed right operand, their cost, and the space of plans. Names are those of Goto &
// van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication": blocks of mc rows, kc of k and nc columns,
// register tiles of mr x nr.
#pragma once

#include <string>
#include <vector>

#include "targets/cpu/kernels/kernels.h"

namespace treadle::ops::cpu {

class MatmulPlanNode : public PlanNode {
 public:
  int64_t mr = 1, nr = 1, mc_tiles = 1, nc_tiles = 1, kc = 0;
  bool pack_a = false;
  TREADLE_DECLARE_NODE(MatmulPlanNode, PlanNode, "schedule.MatmulPlan");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("mr", &MatmulPlanNode::mr).Doc("register tile: rows");
    r.Field("nr", &MatmulPlanNode::nr).Doc("register tile: panels of 16 columns");
    r.Field("mc_tiles", &MatmulPlanNode::mc_tiles).Doc("tiles of rows that use a panel before the next one");
    r.Field("nc_tiles", &MatmulPlanNode::nc_tiles)
        .Doc("tiles of columns that are packed together, or whose results are complete together");
    r.Field("kc", &MatmulPlanNode::kc).Doc("elements of K that are summed at a time; 0: all");
    r.Field("pack_a", &MatmulPlanNode::pack_a).Doc("whether rows are packed");
  }
};

/// Plans for a product: that of rules of thumb first, then those around it. Words of four bytes count as elements of K.
std::vector<Plan> MatmulSpace(const Problem& problem, const Machine& machine);
/// Cycles of one product; -1 is never given: dynamic sizes are guessed.
double MatmulCycles(const Problem& problem, const Machine& machine, const Plan& plan);
/// Why a plan of a record can't be applied, or "".
std::string WhyNotMatmulPlan(const Problem& problem, const Machine& machine, const Plan& plan);

/// The product of a request that packs its right operand as it goes, in `out_dtype`.
relay::LaidOutCall PackingProduct(const schedule::LayoutRequest& request, bool k_first, DataType out_dtype);

/// A kernel with these plans.
Kernel MatmulKernel(decltype(Kernel::why_not) why_not, decltype(Kernel::rewrite) rewrite);
/// Registers a kernel for each of nn.matmul, nn.dense and nn.batch_matmul: "matmul.<name>", which schedules the loops,
/// "dense.<name>", "batch_matmul.<name>".
void RegisterProducts(const std::string& name, const Kernel& kernel);

}  // namespace treadle::ops::cpu
