// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/matmul_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"
#include "treadle/runtime/reflection.h"

namespace treadle::ops::cpu {

TREADLE_DEFINE_NODE(MatmulPlanNode);

namespace {

constexpr int64_t kLanes = kPackedColumns;
constexpr int64_t kWord = 4;  ///< bytes of an element of K: a float, or four bytes
constexpr int64_t kRowBytes = 4 << 20;
/// Addresses so far apart share a set of the L1 cache.
constexpr int64_t kSetBytes = 4096;
/// So many streams of memory in one set leave room for what is fetched ahead: half of 8 ways.
constexpr int64_t kStreamsOfSet = 4;
/// Panels of a tile at most.
constexpr int64_t kMaxPanels = 8;
/// What a dynamic K is guessed to be.
constexpr int64_t kSymbolicDepth = 256;

// ---- Cost ----

/// Numbers along k that one word of the packed operand will hold; 1 once k counts words.
int64_t NumbersOfWord(const MatmulProblemNode& p) {
  if (p.n_block != 0 || p.dtype.bits() > 16) return 1;
  return p.dtype.bits() == 8 ? 4 : 2;
}

/// What costs depend on; dynamic sizes are guessed.
struct ProductSizes {
  int64_t batch, m, n, k, panels;
  bool words;   ///< of bytes
  bool shorts;  ///< of int16

  explicit ProductSizes(const MatmulProblemNode& p)
      : batch(std::max<int64_t>(1, p.batch)),
        m(p.m < 0 ? kSymbolicWidth : std::max<int64_t>(1, p.m)),
        n(std::max<int64_t>(1, p.n)),
        k(p.k < 0 ? kSymbolicDepth : std::max<int64_t>(1, CeilDiv(p.k, NumbersOfWord(p)))),
        panels(CeilDiv(n, kLanes)),
        words(p.dtype.bits() == 8 || p.weight_dtype.bits() == 8 || p.out_dtype.is_int()),
        shorts(p.dtype == DataType::Int(16)) {}
  double b_bytes() const { return static_cast<double>(panels * kLanes * kWord) * static_cast<double>(k); }
};

/// A multiply-add of words of bytes: one instruction, or the pairs of 16 bits that stand for it.
double MultiplyAddFactor(const ProductSizes& s, const Machine& machine) {
  if (s.shorts) return Fitted().product_shorts;
  return s.words && !machine.vnni ? Fitted().product_pairs : 1;
}

/// Products of int16 are in registers of their own before they are added.
Machine WithProducts(const MatmulProblemNode& p, const Machine& target) {
  Machine machine = WithDotsOfWords(p.dtype, target);
  if (p.dtype == DataType::Int(16)) machine.vector_registers -= 2;
  return machine;
}

/// Cycles of a tile for one step of K.
double StepCycles(const ProductSizes& s, const MatmulPlanNode& plan, Machine machine) {
  machine.fma_cycles *= MultiplyAddFactor(s, machine);
  const RegisterTile tile{plan.mr, plan.nr};
  const double step = TileCycles(tile, plan.mr, kLanes, machine) * static_cast<double>(plan.nr);
  const int64_t sums = plan.mr * plan.nr * std::max<int64_t>(1, kLanes / std::max(1, machine.vector_lanes(32)));
  const bool fits = FitsRegisters(tile, kLanes, machine) && sums + 2 <= machine.vector_registers;
  return fits ? step : Fitted().product_spilled * step;
}

/// Cycles that threads take together for what one does in `alone`, in `parts` equal ones, and the mean of both.
double MeanOfThreads(double alone, int64_t parts, const Machine& machine) {
  const int64_t threads = ModelledThreads(machine);
  if (threads == 1) return alone;
  return alone * (1 + LoadImbalance(parts, 1, 1, 1, threads)) / 2;
}

/// Work that goes on while memory is read, as far as both don't overlap.
double Overlapped(double work, double memory) {
  return std::max(work, memory) + Fitted().product_overlap * std::min(work, memory);
}

/// One row: bound by reading the right operand, in as many streams as there are panels in a tile.
double VectorCycles(const ProductSizes& s, const MatmulPlanNode& plan, const Machine& machine) {
  const int64_t tiles = s.panels / plan.nr;
  const double steps = static_cast<double>(tiles) * static_cast<double>(s.k) * StepCycles(s, plan, machine);
  const bool shared_sets = s.k * kLanes * kWord % kSetBytes == 0 && plan.nr > kStreamsOfSet;
  const double memory = s.b_bytes() * machine.weight_cycles_per_byte * (shared_sets ? Fitted().product_panel_sets : 1);
  return MeanOfThreads(static_cast<double>(s.batch) * Overlapped(steps, memory), s.batch * tiles, machine);
}

/// How much more than on the machine of the fitted costs a byte from the L3 cache takes.
double FarCycles(const Machine& machine) {
  return std::max(0.0, machine.beyond_l2_cycles_per_byte - Machine().beyond_l2_cycles_per_byte);
}

/// Whether one core reads its L2 cache several times as fast as the L3 cache, as in servers of Intel.
bool HasSlowL3(const Machine& machine) {
  return machine.beyond_l2_cycles_per_byte > 2 * Machine().beyond_l2_cycles_per_byte;
}

/// Rows in the same sets of the L1 cache that a tile reads without loss: as many as there are ways where the L3 cache
/// is slow (measured on Sapphire Rapids); one on the machines that costs were fitted on.
int64_t RowsOfSet(const Machine& machine) {
  return HasSlowL3(machine) ? std::max<int64_t>(1, machine.l1_bytes / kSetBytes) : 1;
}

/// Whether rows that a tile reads side by side fall into the same sets of the L1 cache, and don't fit these.
bool ShareSets(int64_t k, int64_t mr, const Machine& machine) {
  return k * kWord % kSetBytes == 0 && mr > RowsOfSet(machine);
}

/// Cycles that bytes of rows take on their way to the registers, once for all of them.
double RowBytesCycles(const ProductSizes& s, const MatmulPlanNode& plan, const Machine& machine) {
  const int64_t depth = plan.kc != 0 ? plan.kc : s.k, rows = std::min(s.m, plan.mc_tiles * plan.mr);
  const bool near = rows * depth * kWord <= machine.l2_bytes / 2;
  const double far = near ? 0 : FarCycles(machine);
  // One stream is fetched ahead by the machine, wherever it comes from, where the L3 cache keeps up.
  if (plan.pack_a) {
    const bool beyond = rows * depth * kWord > std::max(kRowBytes, machine.l3_bytes / 4);
    return beyond ? machine.beyond_l2_cycles_per_byte : machine.l2_cycles_per_byte + far;
  }
  const bool shared_sets = ShareSets(s.k, plan.mr, machine);
  const double streams = shared_sets ? Fitted().product_shared_sets : Fitted().product_streams;
  return machine.l2_cycles_per_byte * streams * (near ? 1 : 2) + far;
}

/// Cycles of one product on one thread.
double CyclesAlone(const ProductSizes& s, const MatmulPlanNode& plan, bool packs_b, const Machine& machine) {
  const FittedCosts& fitted = Fitted();
  const int64_t row_tiles = CeilDiv(s.m, plan.mr);
  const auto tiles_m = static_cast<double>(row_tiles);
  const auto tiles_n = static_cast<double>(s.panels) / static_cast<double>(plan.nr);
  const int64_t depth = plan.kc != 0 ? plan.kc : s.k;
  const double chunks = static_cast<double>(s.k) / static_cast<double>(depth), tiles = tiles_m * tiles_n;
  const double registers = static_cast<double>(plan.mr * plan.nr * kLanes) / std::max(1, machine.vector_lanes(32));
  double cycles = tiles * static_cast<double>(s.k) * StepCycles(s, plan, machine);
  cycles += tiles * (chunks * (fitted.product_tile + fitted.product_store * registers) +
                     (chunks > 1 ? chunks * fitted.product_reload * registers : 0));
  // Rows pass once for each tile of columns, panels once for each block of rows.
  const double a_bytes = static_cast<double>(s.m * kWord) * static_cast<double>(s.k);
  cycles += a_bytes * tiles_n * RowBytesCycles(s, plan, machine);
  if (plan.pack_a) cycles += fitted.product_pack_byte * a_bytes;
  const double panel = static_cast<double>(depth * plan.nr * kLanes * kWord);
  const bool in_l1 = panel <= static_cast<double>(machine.l1_bytes) * 3 / 4;
  if (!in_l1) cycles += tiles * chunks * panel * machine.l2_cycles_per_byte;
  if (packs_b) {
    // The longer the runs of a row that are read, the fewer lines are fetched more than once; runs of one tile are
    // fetched beside others that share their sets of the cache.
    const double runs = 1 + 2 / static_cast<double>(plan.nr * plan.nc_tiles);
    return cycles + s.b_bytes() * fitted.product_pack_byte * (plan.nc_tiles == 1 ? fitted.product_pack_one_tile : runs);
  }
  const double blocks = std::max(1.0, std::ceil(tiles_m / static_cast<double>(plan.mc_tiles)));
  const double again = plan.kc != 0 ? 0 : (blocks - 1) * machine.beyond_l2_cycles_per_byte;
  return Overlapped(cycles + s.b_bytes() * again, s.b_bytes() * machine.weight_cycles_per_byte);
}

// ---- The space ----

/// Rows of a tile: of those that need the fewest cycles for `width` rows, the most.
int64_t TileRows(int64_t width, const Machine& machine) {
  constexpr double kLatency = 4, kPerStep = 0.5;  // cycles of a multiply-add, and of the loop around the tile, on Zen 3
  int64_t registers = std::max<int64_t>(1, kLanes / std::max(1, machine.vector_lanes(32)));
  int64_t widest = std::max<int64_t>(1, (machine.vector_registers - 4) / registers);
  widest = std::min<int64_t>(widest, kMaxTileWidth);
  auto step = [&](int64_t t) { return std::max(static_cast<double>(t * registers) / 2, kLatency) + kPerStep; };
  // Rows that the last tile lacks are computed, too, and dropped.
  auto cost = [&](int64_t t) {
    const int64_t tiles = CeilDiv(width, t);
    return static_cast<double>(tiles) * step(t);
  };
  if (width <= widest) return width;
  int64_t best = widest;
  for (int64_t t = widest; t >= std::max<int64_t>(1, widest / 2); --t) {
    if (cost(t) < cost(best)) best = t;
  }
  return best;
}

/// A divisor of `k` so that that much of a panel stays in the first-level cache beside rows; 0 for all of it.
int64_t KChunk(int64_t k, int64_t columns, const Machine& machine) {
  const int64_t fit = machine.l1_bytes / 2 / (columns * kWord);
  if (k <= fit * 3 / 2) return 0;
  for (int64_t chunk = fit * 5 / 4; chunk >= fit / 2; --chunk) {
    if (k % chunk == 0) return chunk;
  }
  return 0;
}

/// Whether results of several columns are known to be complete together, as chunks of K need.
bool HasColumns(const MatmulProblemNode& p) { return p.n > 1; }

/// Where few rows leave no other reason for chunks, a divisor of `k` that keeps sums short: rounding errors grow with
/// the number of terms that are added one after another. 0: no chunks.
int64_t ShortSums(const MatmulProblemNode& p) {
  constexpr int64_t kFewRows = 32, kShort = 384, kMost = 256, kLeast = 64;
  if (p.m < 0 || p.m > kFewRows || p.k <= kShort || !p.out_dtype.is_floating() || !HasColumns(p)) return 0;
  for (int64_t chunk = kMost; chunk >= kLeast; --chunk) {
    if (p.k % chunk == 0) return chunk;
  }
  return 0;
}

/// Panels that are packed together, of `panels` in all: rows of the right operand are read in runs of some cache lines,
/// what is packed stays in the second-level cache, and threads have enough to share.
int64_t PanelsAtOnce(int64_t panels, int64_t panel_bytes, const Machine& machine) {
  constexpr int64_t kMost = 8, kEnough = 8;
  for (int64_t n = kMost; n > 1; --n) {
    const bool fair = panels / n >= kEnough || panels / n % 2 == 0;
    if (panels % n == 0 && fair && n * panel_bytes <= std::max(machine.l2_bytes, 2 * panel_bytes)) return n;
  }
  return 1;
}

/// Rows that stay in a cache near by, `in_l2` or the next, while panels pass over them: the fewer blocks of them the
/// better, for each reads all of the right operand. Of a dynamic number of rows one tile where the right operand is
/// packed by the way, which all rows pass in any case: tiles of a block that lie beyond the last row are tested one by
/// one. In tiles.
int64_t TilesOfBlock(const MatmulProblemNode& p, int64_t mr, bool in_l2, const Machine& machine) {
  const bool dynamic = p.m < 0;
  if (dynamic && p.packs_b) return 1;
  const int64_t bytes = in_l2 ? machine.l2_bytes / 2 : std::max(kRowBytes, machine.l3_bytes / 4);
  const int64_t most = std::max<int64_t>(1, bytes / (std::max<int64_t>(1, p.k) * kWord * mr));
  const int64_t tiles = CeilDiv(std::max<int64_t>(p.m, 0), mr);
  const int64_t blocks = p.packs_b ? 1 : CeilDiv(tiles, most);
  return dynamic ? most : CeilDiv(tiles, blocks);
}

/// Whether rows are read as words of neighbours, which packing would part.
bool ReadsWords(const MatmulProblemNode& p) { return p.dtype.bits() == 8 || p.dtype == DataType::Int(16); }

/// Of a dynamic number of rows those that would share sets of the cache: what few other rows there may be is no reason
/// to copy them.
bool CanPackRows(const MatmulProblemNode& p) {
  const bool any = p.m < 0 && p.k > 0 && p.k * kWord % kSetBytes == 0 && !p.packs_b;
  return (p.m > 1 || any) && !ReadsWords(p);
}

/// Panels of the right operand; a dynamic number of them is taken one by one.
int64_t Panels(const MatmulProblemNode& p) { return p.n < 0 ? 1 : CeilDiv(p.n, kLanes); }

/// Whether reading the weight again for each block of a dynamic number of rows takes long beside computing them: a
/// weight that doesn't stay in the L2 cache, and rows so long that few do.
bool ReadsWeightOften(const MatmulProblemNode& p, int64_t mr, const Machine& machine) {
  constexpr double kShare = 1.0 / 12;
  const bool floats = p.dtype == DataType::Float(32) && p.weight_dtype == p.dtype;
  if (p.m >= 0 || p.k <= 0 || p.packs_b || !floats || !HasColumns(p)) return false;
  if (ProductSizes(p).b_bytes() <= static_cast<double>(machine.l2_bytes)) return false;
  const int64_t rows = TilesOfBlock(p, mr, true, machine) * mr;
  const double computing = machine.fma_cycles * static_cast<double>(rows) / std::max(1, machine.vector_lanes(32));
  return static_cast<double>(kWord) * machine.beyond_l2_cycles_per_byte > kShare * computing;
}

/// Chunks of K for a dynamic number of rows: a block of these has partial results of its own, and a chunk of it leaves
/// the L2 cache to those and to the panels.
void ChunkOpenRows(const MatmulProblemNode& p, const Machine& machine, MatmulPlanNode* plan) {
  constexpr int64_t kPartOfCache = 16;
  plan->kc = KChunk(p.k, plan->nr * kLanes, machine);
  if (plan->kc == 0) return;
  plan->pack_a = false;
  plan->mc_tiles = std::max<int64_t>(1, machine.l2_bytes / kPartOfCache / (plan->kc * kWord * plan->mr));
}

/// The plan that rules of thumb give.
MatmulPlanNode FirstPlan(const MatmulProblemNode& p, const Machine& machine) {
  constexpr int64_t kMinPackedColumns = 512, kMinPackedTiles = 4, kMaxChunkedRows = 768, kShortRow = 512;
  constexpr int64_t kMaxChunkedTiles = 4;
  MatmulPlanNode plan;
  plan.mr = TileRows(p.m < 0 ? kSymbolicWidth : p.m, machine);
  // A vector register that holds a whole panel leaves room for sums of two: half the loads per sum.
  plan.nr = machine.vector_lanes(32) >= kLanes && p.n % (2 * kLanes) == 0 ? 2 : 1;
  const int64_t tiles = CeilDiv(std::max<int64_t>(p.m, 0), plan.mr);
  plan.pack_a = CanPackRows(p) && p.n >= kMinPackedColumns && (p.m < 0 || tiles >= kMinPackedTiles);
  // Rows that stay in the L2 cache are read from there as fast as a copy of them.
  const bool slow_l3 = HasSlowL3(machine) && !p.packs_b;
  if (slow_l3) {
    plan.pack_a = plan.pack_a && p.m < 0;
    if (ShareSets(p.k, plan.mr, machine)) plan.mr = RowsOfSet(machine);
  }
  // Panels that are packed just now are in the L2 cache: short rows have to be packed only where all of a tile fall
  // into the same sets of the L1 cache.
  if (p.packs_b) plan.pack_a = plan.pack_a && (p.k > kShortRow || p.k * kWord % kSetBytes == 0);
  plan.mc_tiles = TilesOfBlock(p, plan.mr, slow_l3 || (p.m < 0 && !plan.pack_a), machine);
  if (plan.pack_a && !p.packs_b && p.m >= 0 && p.m < kMaxChunkedRows && HasColumns(p))
    plan.kc = KChunk(p.k, plan.nr * kLanes, machine);
  if (ReadsWeightOften(p, plan.mr, machine)) ChunkOpenRows(p, machine, &plan);
  const int64_t columns = plan.nr * kLanes, column_tiles = CeilDiv(Panels(p), plan.nr);
  if (plan.kc != 0) plan.nc_tiles = LargestDivisor(column_tiles, kMaxChunkedTiles);
  if (plan.kc == 0) plan.kc = ShortSums(p);
  const int64_t depth = p.k < 0 ? kSymbolicDepth : p.k;
  if (plan.kc == 0 && p.packs_b) plan.nc_tiles = PanelsAtOnce(column_tiles, depth * columns * kWord, machine);
  return plan;
}

/// Plans without duplicates, in the order in which they were added.
class PlanList {
 public:
  void Add(const MatmulPlanNode& plan) {
    Plan made = Make<Plan, MatmulPlanNode>([&](auto& p) {
      p.mr = plan.mr;
      p.nr = plan.nr;
      p.mc_tiles = plan.mc_tiles;
      p.nc_tiles = plan.nc_tiles;
      p.kc = plan.kc;
      p.pack_a = plan.pack_a;
    });
    const auto key = std::make_tuple(plan.mr, plan.nr, plan.mc_tiles, plan.nc_tiles, plan.kc, plan.pack_a);
    if (seen_.insert(key).second) plans.push_back(std::move(made));
  }
  std::vector<Plan> plans;

 private:
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, bool>> seen_;
};

/// Tiles of rows: for each number of tiles that the rows can be divided into, the smallest.
std::vector<int64_t> RowTiles(int64_t rows, int64_t panels, const Machine& machine) {
  std::vector<int64_t> tiles;
  int64_t widest = std::min(rows, kMaxTileWidth);
  while (widest > 1 && !FitsRegisters({widest, panels}, kLanes, machine)) --widest;
  for (int64_t t = widest; t >= std::max<int64_t>(1, widest / 2); --t) {
    const int64_t count = CeilDiv(rows, t), mr = CeilDiv(rows, count);
    if (tiles.empty() || tiles.back() != mr) tiles.push_back(mr);
  }
  return tiles;
}

/// The tile of registers is `plan`'s; blocks around it.
void AddBlocks(const MatmulProblemNode& p, MatmulPlanNode plan, const Machine& machine, PlanList* list) {
  const int64_t columns = plan.nr * kLanes, column_tiles = CeilDiv(Panels(p), plan.nr);
  const int64_t near = std::max<int64_t>(1, machine.l2_bytes / 2 / (std::max<int64_t>(1, p.k) * kWord * plan.mr));
  for (const bool pack_a : {false, true}) {
    if (pack_a && !CanPackRows(p)) continue;
    plan.pack_a = pack_a;
    plan.kc = ShortSums(p);
    const int64_t all = TilesOfBlock(p, plan.mr, p.m < 0 && !pack_a, machine);
    for (const int64_t mc_tiles : {all, std::min(all, near)}) {
      plan.mc_tiles = mc_tiles;
      for (int64_t nc = p.packs_b ? 8 : 1; nc >= 1; nc /= 2) {
        plan.nc_tiles = nc;
        if (column_tiles % nc == 0) list->Add(plan);
      }
    }
    if (p.m < 0 || !HasColumns(p)) continue;
    plan.mc_tiles = all;
    for (const int64_t share : {1, 2}) {
      plan.kc = KChunk(p.k, columns * share, machine);
      for (int64_t nc = 4; plan.kc != 0 && nc >= 1; nc /= 2) {
        plan.nc_tiles = nc;
        if (column_tiles % nc == 0) list->Add(plan);
      }
    }
  }
}

}  // namespace

std::vector<Plan> MatmulSpace(const Problem& problem, const Machine& target) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const Machine machine = WithProducts(p, target);
  const int64_t panels = Panels(p);
  PlanList list;
  if (p.m == 1) {
    // One row: as many streams of the right operand, and chains of sums, as panels at once.
    const int64_t most = machine.vector_lanes(32) >= kLanes ? 8 : 5;
    MatmulPlanNode plan;
    plan.kc = ShortSums(p);
    plan.nr = LargestDivisor(panels, most);
    list.Add(plan);
    for (plan.nr = 1; plan.nr <= kMaxPanels; ++plan.nr) {
      if (panels % plan.nr == 0) list.Add(plan);
    }
    return list.plans;
  }
  list.Add(FirstPlan(p, machine));
  for (const int64_t nr : {1, 2, 3, 4}) {
    if (panels % nr != 0) continue;
    MatmulPlanNode plan;
    plan.nr = nr;
    for (const int64_t mr : RowTiles(p.m < 0 ? kSymbolicWidth : p.m, nr, machine)) {
      plan.mr = mr;
      AddBlocks(p, plan, machine, &list);
    }
  }
  return list.plans;
}

double MatmulCycles(const Problem& problem, const Machine& target, const Plan& chosen) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const Machine machine = WithProducts(p, target);
  const ProductSizes s(p);
  const auto& plan = *chosen.as<MatmulPlanNode>();
  if (p.m == 1) return VectorCycles(s, plan, machine);
  const double alone = static_cast<double>(s.batch) * CyclesAlone(s, plan, p.packs_b, machine);
  const int64_t tiles_m = CeilDiv(s.m, plan.mr), groups = s.panels / plan.nr / plan.nc_tiles;
  const bool one_block = p.packs_b || plan.kc != 0;
  const int64_t blocks = one_block ? 1 : CeilDiv(tiles_m, plan.mc_tiles);
  const double cycles = MeanOfThreads(alone, s.batch * blocks * groups, machine);
  // Packed rows are another parallel loop.
  const int64_t threads = ModelledThreads(machine);
  return plan.pack_a && threads > 1 ? cycles + ForkJoinCycles(machine, threads) : cycles;
}

std::string WhyNotMatmulPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const auto& plan = *chosen.as<MatmulPlanNode>();
  const int64_t panels = Panels(p);
  if (plan.nr < 1 || plan.nr > kMaxPanels || panels % plan.nr != 0) {
    return StrCat("tiles of ", plan.nr, " panels don't divide ", panels);
  }
  if (plan.mr < 1 || plan.mr > kMaxTileWidth || (p.m >= 0 && plan.mr > p.m)) {
    return StrCat("tiles of ", plan.mr, " rows");
  }
  if (plan.mc_tiles < 1) return StrCat(plan.mc_tiles, " tiles of rows");
  if (plan.nc_tiles < 1 || panels / plan.nr % plan.nc_tiles != 0) {
    return StrCat(plan.nc_tiles, " tiles of columns don't divide ", panels / plan.nr);
  }
  const bool open_rows = p.m < 0 && (p.packs_b || plan.pack_a);
  if (plan.kc < 0 || (plan.kc > 0 && (p.k % plan.kc != 0 || p.n == 1 || open_rows)))
    return StrCat("chunks of ", plan.kc, " of K");
  if (plan.pack_a && ReadsWords(p)) return "rows of words can't be packed";
  return plan.pack_a && !CanPackRows(p) ? "these rows can't be packed" : "";
}

Kernel MatmulKernel(decltype(Kernel::why_not) why_not, decltype(Kernel::rewrite) rewrite) {
  Kernel kernel;
  kernel.plan_type = MatmulPlanNode::StaticTypeInfo();
  kernel.why_not = std::move(why_not);
  kernel.space = MatmulSpace;
  kernel.cycles = MatmulCycles;
  kernel.why_not_plan = WhyNotMatmulPlan;
  kernel.rewrite = std::move(rewrite);
  return kernel;
}

void RegisterProducts(const std::string& name, const Kernel& kernel) {
  const std::string first = "matmul";
  for (const std::string& op : {first, std::string("dense"), std::string("batch_matmul")}) {
    Kernel each = kernel;
    each.name = StrCat(op, ".", name);
    each.op = StrCat("nn.", op);
    each.target = "cpu";
    if (op != first) each.apply = nullptr;
    schedule::RegisterKernel(std::move(each));
  }
}

}  // namespace treadle::ops::cpu
