// SPDX-License-Identifier: Apache-2.0
// Products of tiles (treadle/tir/tile_ops.h) with AMX: registers of 16 rows of 64 bytes. Four hold sums, two rows of
// the left operand, which are read where they are, and two panels of the right one. The last tile of rows that don't
// fill tiles overlaps the one before; registers have fewer rows where there aren't 16. Where several blocks of rows use
// two panels, they do so by parts of k that stay in the L1 cache, and fetch the next two panels into the L2 cache: that
// alone hides what of reading weights can be hidden (measured: docs/cpus.md). Where the rows themselves exceed the L2
// cache, all panels use a slice of k before the next one.
//
// Where a run shows how many rows the left operand has, its tiles begin no later than 16 rows before its end. The sums
// of the last one are kept where those of whole rows would be, and moved at the end.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <functional>

#include "targets/llvm/function_codegen.h"
#include "treadle/base/int_math.h"
#include "treadle/tir/tile_ops.h"

namespace treadle::targets {

using llvm::Value;

namespace {

constexpr int64_t kRows = tir::kTileRows, kWordBytes = 4, kLineBytes = kRows * kWordBytes,
                  kTileBytes = kRows * kLineBytes;
/// Blocks of rows; if there are more, what the first one waits for hardly counts.
constexpr int64_t kMostWaiting = 12;
constexpr int kSumTiles = 0, kLeftTiles = 4, kRightTiles = 6, kTiles = 8;
constexpr int kRowCounts = 48;  ///< where a configuration has the rows of registers

class TileBuilder {
 public:
  /// An operand in memory: where it begins, and the bytes from one row (of the right one: panel) to the next.
  struct Operand {
    Value *begin, *stride;
  };
  /// Sums, of which panels may lie apart, too.
  struct Sums : Operand {
    Value* panel_stride;
  };

  /// Of loops around runs of words: iterations, and the bytes of the left operand from one to the next.
  struct Step {
    int64_t extent;
    Value* stride;
  };
  /// What only a run shows, null where it is known: rows of the left operand, pairs of panels, and runs of a tile of
  /// words.
  struct Dynamic {
    Value *present = nullptr, *pairs = nullptr, *runs = nullptr;
  };

  TileBuilder(llvm::IRBuilder<>* builder, llvm::Module* module, bool bytes, const tir::TileProduct& product,
              std::vector<Step> steps, const Dynamic& dynamic, bool fetches)
      : b_(*builder),
        module_(module),
        bytes_(bytes),
        rows_(product.rows),
        panels_(product.panels),
        fetches_(fetches),
        levels_(std::move(steps)),
        dynamic_(dynamic),
        keeps_places_(dynamic.present != nullptr && product.rows > kRows && product.rows % kRows == 0) {
    if (product.words > kRows || levels_.empty()) levels_.push_back({product.words / kRows, Number(kLineBytes)});
    for (const Step& level : levels_) runs_ *= level.extent;
  }

  /// The product, in registers that are set up for it; nothing where no rows are there.
  void Emit(const Sums& c, const Operand& a, const Operand& b) {
    WherePositive(dynamic_.present, [&] {
      Configure();
      RunPresent(c, a, b);
      MoveLast(c);
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
    });
  }

 private:
  /// Where the number is positive; null: in any case.
  void WherePositive(Value* number, const std::function<void()>& body) {
    if (number == nullptr) return body();
    llvm::Function* function = b_.GetInsertBlock()->getParent();
    auto* inside = llvm::BasicBlock::Create(module_->getContext(), "tile.some", function);
    auto* after = llvm::BasicBlock::Create(module_->getContext(), "tile.none", function);
    b_.CreateCondBr(b_.CreateICmpSGT(number, Number(0)), inside, after);
    b_.SetInsertPoint(inside);
    body();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }
  /// All registers have 64 bytes in a row, those of the right operand 16 rows.
  void Configure() {
    std::vector<uint8_t> config(kLineBytes, 0);
    config[0] = 1;  // the palette
    for (size_t i = 0; i < kTiles; ++i) {
      config[16 + 2 * i] = kRows * kWordBytes;
      config[kRowCounts + i] = static_cast<uint8_t>(i >= kRightTiles ? kRows : std::min(kRows, rows_));
    }
    auto* data = llvm::ConstantDataVector::get(module_->getContext(), llvm::ArrayRef<uint8_t>(config));
    b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {},
                       {dynamic_.present == nullptr ? InMemory(data) : WithRows(data)});
  }
  Value* InMemory(llvm::Constant* data) {
    auto* global = new llvm::GlobalVariable(*module_, data->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::PrivateLinkage, data, "tile.config");
    global->setAlignment(llvm::Align(kLineBytes));
    return global;
  }
  /// Iterations of the outermost level that all rows use before the next ones, so that the right operand's stay in the
  /// L1 cache. Sums of all parts but the first begin with those in memory.
  struct Part {
    Value* begin;
    Value* count;
    bool is_first;
  };
  /// Parts that all panels use before the next ones, so that the left operand's stay in the L2 cache: from number
  /// `begin` on, `count` of them. The first slice begins with the first part.
  struct Slice {
    Value *begin, *count;
    bool is_first;
  };

  void Run(const Sums& c, const Operand& a, const Operand& b) {
    InSlices([&](const Slice& slice) {
      InPanels([&](Value* panel, int64_t width) {
        const Operand columns{Offset(b.begin, b_.CreateMul(panel, b.stride)), b.stride};
        const Sums to{{Offset(c.begin, b_.CreateMul(panel, c.panel_stride)), c.stride}, c.panel_stride};
        InParts(slice, [&](const Part& part) {
          InBlocks([&](const std::vector<Rows>& rows, Value* number) {
            Block(to, a, columns, rows, static_cast<int>(width), part, number);
          });
        });
      });
    });
  }
  /// Where a run shows how many rows there are, code of its own for a block of them: k isn't divided, and it fetches
  /// all of the next panels itself.
  void RunPresent(const Sums& c, const Operand& a, const Operand& b) {
    constexpr int64_t kFew = 2 * kRows;
    if (dynamic_.present == nullptr || rows_ <= kFew) return Run(c, a, b);
    llvm::Function* function = b_.GetInsertBlock()->getParent();
    auto* few = llvm::BasicBlock::Create(module_->getContext(), "tile.few", function);
    auto* many = llvm::BasicBlock::Create(module_->getContext(), "tile.many", function);
    auto* after = llvm::BasicBlock::Create(module_->getContext(), "tile.after", function);
    b_.CreateCondBr(b_.CreateICmpSLE(dynamic_.present, Number(kFew)), few, many);
    const int64_t rows = rows_;
    for (llvm::BasicBlock* block : {few, many}) {
      b_.SetInsertPoint(block);
      rows_ = block == few ? kFew : rows;
      Run(c, a, b);
      b_.CreateBr(after);
    }
    b_.SetInsertPoint(after);
  }
  void InPanels(const std::function<void(Value*, int64_t)>& panels) {
    if (dynamic_.pairs == nullptr) return InTwos(panels_, panels);
    WherePositive(dynamic_.pairs,
                  [&] { Loop(dynamic_.pairs, [&](Value* i) { panels(b_.CreateMul(i, Number(2)), 2); }); });
  }
  /// The sums of the last rows to where they belong, if they don't fill a tile.
  void MoveLast(const Sums& c) {
    if (!keeps_places_) return;
    Value* rows = Least(dynamic_.present, Number(rows_));
    Value* rest = b_.CreateAnd(rows, Number(kRows - 1));
    Value* further = b_.CreateICmpSGT(rows, Number(kRows));
    WherePositive(b_.CreateSelect(further, rest, Number(0)), [&] {
      Value* from = Offset(c.begin, b_.CreateMul(b_.CreateSub(rows, rest), c.stride));
      Value* to = Offset(c.begin, b_.CreateMul(b_.CreateSub(rows, Number(kRows)), c.stride));
      InPanels([&](Value* panel, int64_t width) {
        for (int64_t j = 0; j < width; ++j) {
          Value* offset = b_.CreateMul(b_.CreateAdd(panel, Number(j)), c.panel_stride);
          b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {Tile(kSumTiles), Offset(from, offset), c.stride});
          b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {}, {Tile(kSumTiles), Offset(to, offset), c.stride});
        }
      });
    });
  }

  Value* Number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  Value* Offset(Value* pointer, Value* bytes) { return b_.CreateInBoundsGEP(b_.getInt8Ty(), pointer, bytes); }
  Value* Tile(int number) { return b_.getInt8(static_cast<uint8_t>(number)); }

  Value* Least(Value* a, Value* b) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b); }

  /// The configuration, with rows of left operands and sums as many as there are. It is stored as a whole, as it is
  /// loaded: a load waits for several stores.
  Value* WithRows(llvm::Constant* config) {
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    auto* copy = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(config->getType(), nullptr, "tile.rows");
    copy->setAlignment(llvm::Align(kLineBytes));
    std::vector<uint8_t> counts(kLineBytes, 0);
    std::fill_n(counts.begin() + kRowCounts, kRightTiles, uint8_t{0xff});
    auto* where = llvm::ConstantDataVector::get(module_->getContext(), llvm::ArrayRef<uint8_t>(counts));
    Value* rows = b_.CreateTrunc(Least(dynamic_.present, Number(std::min(kRows, rows_))), b_.getInt8Ty());
    Value* all = b_.CreateAnd(b_.CreateVectorSplat(kLineBytes, rows), where);
    b_.CreateStore(b_.CreateOr(b_.CreateAnd(config, b_.CreateNot(where)), all), copy);
    last_ = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(dynamic_.present, Number(kRows)), Number(0));
    return copy;
  }

  void Loop(int64_t count, const std::function<void(Value*)>& body) { Loop(Number(count), body); }

  /// At least one iteration.
  void Loop(Value* count, const std::function<void(Value*)>& body) {
    if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(count); known != nullptr && known->isOne()) {
      return body(Number(0));
    }
    llvm::Function* function = b_.GetInsertBlock()->getParent();
    auto* before = b_.GetInsertBlock();
    auto* inside = llvm::BasicBlock::Create(module_->getContext(), "tile.loop", function);
    auto* after = llvm::BasicBlock::Create(module_->getContext(), "tile.end", function);
    b_.CreateBr(inside);
    b_.SetInsertPoint(inside);
    llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
    index->addIncoming(Number(0), before);
    body(index);
    Value* next = b_.CreateNSWAdd(index, Number(1));
    index->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpSLT(next, count), inside, after);
    b_.SetInsertPoint(after);
  }

  /// Two of `count` at a time, then the one that is left: its number, and how many from there.
  void InTwos(int64_t count, const std::function<void(Value*, int64_t)>& body) {
    if (count >= 2) Loop(count / 2, [&](Value* i) { body(b_.CreateMul(i, Number(2)), 2); });
    if (count % 2 != 0) body(Number(count - 1), 1);
  }

  /// Where a tile of rows is read, and where its sums are.
  struct Rows {
    Value *from, *to;
  };
  int64_t Blocks() const { return rows_ <= kRows ? 1 : CeilDiv(CeilDiv(rows_, kRows), 2); }

  /// One or two tiles of rows, and the number of the block.
  void InBlocks(const std::function<void(const std::vector<Rows>&, Value*)>& block) {
    if (rows_ <= kRows) return block({{Number(0), Number(0)}}, Number(0));
    if (dynamic_.present != nullptr) return InPresentBlocks(block);
    const int64_t whole = rows_ / kRows;
    const bool rest = rows_ % kRows != 0;
    InTwos(rest ? whole - 1 : whole, [&](Value* tile, int64_t height) {
      Value *first = b_.CreateMul(tile, Number(kRows)), *second = b_.CreateAdd(first, Number(kRows));
      std::vector<Rows> rows{{first, first}};
      if (height == 2) rows.push_back({second, second});
      block(rows, b_.CreateLShr(tile, Number(1)));
    });
    if (!rest) return;
    // Rows of both tiles are in one block, which loads their sums before it stores them.
    Value *before = Number((whole - 1) * kRows), *last = Number(rows_ - kRows);
    block({{before, before}, {last, last}}, Number(Blocks() - 1));
  }
  /// Those of rows that a run shows. Both tiles of a block may be the same.
  void InPresentBlocks(const std::function<void(const std::vector<Rows>&, Value*)>& block) {
    Value* rows = Least(dynamic_.present, Number(rows_));
    Value* tiles = b_.CreateUDiv(b_.CreateAdd(rows, Number(kRows - 1)), Number(kRows));
    blocks_ = b_.CreateUDiv(b_.CreateAdd(tiles, Number(1)), Number(2));
    Loop(blocks_, [&](Value* i) {
      auto tile = [&](int64_t of_block) -> Rows {
        Value* number = b_.CreateAdd(b_.CreateMul(i, Number(2)), Number(of_block));
        Value* row = b_.CreateMul(Least(number, b_.CreateSub(tiles, Number(1))), Number(kRows));
        Value* from = Least(row, last_);
        return {from, keeps_places_ ? row : from};
      };
      block({tile(0), tile(1)}, i);
    });
  }

  /// Parts of k: runs of the outermost level in each but the first, which has what is left.
  struct Parts {
    int64_t number, count, first;
  };
  Parts PartsOf() const {
    const int64_t extent = levels_[0].extent, inner = runs_ / extent;
    const bool one = dynamic_.runs != nullptr || (dynamic_.present != nullptr && !keeps_places_);
    const int64_t number = one ? 1 : std::min(extent, RoundUp(tir::TileParts(rows_, extent, inner), Slices()));
    const int64_t count = CeilDiv(extent, number), used = CeilDiv(extent, count);
    return {used, count, extent - (used - 1) * count};
  }
  int64_t Slices() const {
    const bool one = dynamic_.runs != nullptr || dynamic_.pairs != nullptr;
    return one ? 1 : tir::TileSlices(rows_, panels_, runs_);
  }

  void InSlices(const std::function<void(const Slice&)>& body) {
    const int64_t parts = PartsOf().number, each = CeilDiv(parts, Slices()), slices = CeilDiv(parts, each);
    body({Number(0), Number(each), true});
    if (slices == 1) return;
    Loop(slices - 1, [&](Value* i) {
      Value* begin = b_.CreateMul(b_.CreateAdd(i, Number(1)), Number(each));
      body({begin, Least(Number(each), b_.CreateSub(Number(parts), begin)), false});
    });
  }

  void InParts(const Slice& slice, const std::function<void(const Part&)>& body) {
    if (dynamic_.runs != nullptr) return body({Number(0), dynamic_.runs, true});
    const Parts parts = PartsOf();
    auto later = [&](Value* number) {  // the first is shorter
      Value* begin = b_.CreateMul(b_.CreateSub(number, Number(1)), Number(parts.count));
      body({b_.CreateAdd(begin, Number(parts.first)), Number(parts.count), false});
    };
    if (!slice.is_first) {
      return Loop(slice.count, [&](Value* i) { later(b_.CreateAdd(slice.begin, i)); });
    }
    body({Number(0), Number(parts.first), true});
    const int64_t count = llvm::cast<llvm::ConstantInt>(slice.count)->getSExtValue();
    if (count > 1) Loop(count - 1, [&](Value* i) { later(b_.CreateAdd(i, Number(1))); });
  }

  /// A loop nest over runs of a tile of words: their number, and where they are in the left operand.
  void Runs(size_t depth, const Part& part, Value* run, Value* offset,
            const std::function<void(Value*, Value*)>& body) {
    if (depth == levels_.size()) return body(run, offset);
    const Step& level = levels_[depth];
    Loop(depth == 0 ? part.count : Number(level.extent), [&](Value* i) {
      if (depth == 0) i = b_.CreateAdd(part.begin, i);
      Value* inner = b_.CreateAdd(b_.CreateMul(run, Number(level.extent)), i);
      Runs(depth + 1, part, inner, b_.CreateAdd(offset, b_.CreateMul(i, level.stride)), body);
    });
  }

  /// Fetches a block's share of the panels after these into the L2 cache: the first block would wait for them.
  void FetchNext(const Operand& b, int width, Value* right, Value* number) {
    if (Blocks() > kMostWaiting) return;
    auto fetch = [&](Value* line) {
      Value* at = b_.CreateAdd(right, b_.CreateMul(line, Number(kLineBytes)));
      for (int j = 0; j < width; ++j) {
        constexpr uint32_t kRead = 0, kL2 = 2, kData = 1;
        Value* from = Offset(Offset(b.begin, b_.CreateMul(Number(width + j), b.stride)), at);
        b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {from->getType()},
                           {from, b_.getInt32(kRead), b_.getInt32(kL2), b_.getInt32(kData)});
      }
    };
    if (dynamic_.present != nullptr && Blocks() > 1) {
      Value* lines = b_.CreateUDiv(b_.CreateAdd(blocks_, Number(kRows - 1)), blocks_);
      return Loop(lines, [&](Value* i) { fetch(b_.CreateAdd(b_.CreateMul(number, lines), i)); });
    }
    const int64_t lines = CeilDiv(kRows, Blocks());
    for (int64_t i = 0; i < lines; ++i) fetch(b_.CreateAdd(b_.CreateMul(number, Number(lines)), Number(i)));
  }

  /// Sums of registers: of tiles of rows by `width`.
  void Block(const Sums& c, const Operand& a, const Operand& b, const std::vector<Rows>& rows, int width,
             const Part& part, Value* number) {
    Value* line = Number(kLineBytes);
    const int height = static_cast<int>(rows.size());
    auto load = [&](int tile, Value* from, Value* stride) {
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {Tile(tile), from, stride});
    };
    auto each_sum = [&](const std::function<void(int, Value*)>& body) {
      for (int i = 0; i < height; ++i) {
        Value* sums = Offset(c.begin, b_.CreateMul(rows[static_cast<size_t>(i)].to, c.stride));
        for (int j = 0; j < width; ++j) {
          body(kSumTiles + i * width + j, Offset(sums, b_.CreateMul(Number(j), c.panel_stride)));
        }
      }
    };
    each_sum([&](int tile, Value* from) {
      if (part.is_first) {
        b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {Tile(tile)});
      } else {
        load(tile, from, c.stride);
      }
    });
    std::vector<Value*> lefts;
    for (const Rows& tile : rows) lefts.push_back(Offset(a.begin, b_.CreateMul(tile.from, a.stride)));
    const llvm::Intrinsic::ID dot = bytes_ ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbf16ps;
    auto add = [&](Value* run, Value* left) {
      Value* right = b_.CreateMul(run, Number(kTileBytes));
      for (int j = 0; j < width; ++j) {
        load(kRightTiles + j, Offset(Offset(b.begin, b_.CreateMul(Number(j), b.stride)), right), line);
      }
      for (int i = 0; i < height; ++i) {
        load(kLeftTiles + i, Offset(lefts[static_cast<size_t>(i)], left), a.stride);
        for (int j = 0; j < width; ++j) {
          b_.CreateIntrinsic(dot, {}, {Tile(kSumTiles + i * width + j), Tile(kLeftTiles + i), Tile(kRightTiles + j)});
        }
      }
      if (fetches_) FetchNext(b, width, right, number);
    };
    WherePositive(dynamic_.runs, [&] { Runs(0, part, Number(0), Number(0), add); });
    each_sum([&](int tile, Value* to) {
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {}, {Tile(tile), to, c.stride});
    });
  }

  llvm::IRBuilder<>& b_;
  llvm::Module* module_;
  const bool bytes_;
  int64_t rows_;
  const int64_t panels_;
  const bool fetches_;
  std::vector<Step> levels_;  ///< of runs of a tile of words, the outermost first
  int64_t runs_ = 1;
  const Dynamic dynamic_;
  const bool keeps_places_;  ///< sums of tiles that overlap don't: there may be several parts of k
  Value* last_ = nullptr;    ///< where the last tile of them begins
  Value* blocks_ = nullptr;  ///< of rows that are there
};

}  // namespace

Value* FunctionCodegen::TileCall(const tir::CallNode* op) {
  const auto product = tir::TileProductOf(op);
  if (!product) return nullptr;
  const bool bytes = product->c.first->buffer->dtype.is_int();
  if (module_->EmulatesIntrinsics() || !module_->HasFeature(bytes ? "amx-int8" : "amx-bf16")) {
    StmtBase::VisitStmt(tir::ExpandTileProduct(*product));
    return b_.getInt32(0);
  }
  auto bytes_of = [&](const PrimExpr& elements, const tir::Buffer& buffer) {
    return b_.CreateMul(Index64(elements), b_.getInt64(static_cast<uint64_t>(buffer->dtype.bytes())));
  };
  auto operand = [&](const tir::TileProduct::Operand& from) {
    const tir::Buffer& buffer = from.first->buffer;
    Value* stride = bytes_of(tir::TileStride(from), buffer);
    return TileBuilder::Operand{ElementPointer(buffer, from.first->indices[0]), stride};
  };
  std::vector<TileBuilder::Step> steps;
  for (const tir::TileProduct::Step& step : product->steps) {
    steps.push_back({step.extent, bytes_of(tir::TileStride(*product, step), product->a.first->buffer)});
  }
  TileBuilder::Dynamic dynamic;
  if (product->present.defined()) dynamic.present = Index64(product->present);
  auto parts = [&](const PrimExpr& size, uint64_t part) -> Value* {
    return size.defined() ? b_.CreateUDiv(Index64(size), b_.getInt64(part)) : nullptr;
  };
  dynamic.pairs = parts(product->dynamic_panels, 2);
  dynamic.runs = parts(product->dynamic_words, kRows);
  // What was computed just before is in a cache.
  const auto right = vars_.find(product->b.first->buffer->data.get());
  const bool computed = right != vars_.end() && std::any_of(workspaces_.begin(), workspaces_.end(),
                                                            [&](const auto& w) { return w.pointer == right->second; });
  TileBuilder builder(&b_, module_->module(), bytes, *product, std::move(steps), dynamic, !computed);
  const TileBuilder::Sums c{operand(product->c), bytes_of(tir::TilePanelStride(*product), product->c.first->buffer)};
  const auto a = operand(product->a), b = operand(product->b);
  builder.Emit(c, a, b);
  return b_.getInt32(0);
}

}  // namespace treadle::targets
