// SPDX-License-Identifier: Apache-2.0
// Products of tiles (treadle/tir/tile_ops.h) with AMX: registers of 16 rows of 64 bytes. Four hold sums, two rows of
// the left operand, which are read where they are, and two panels of the right one. The last tile of rows that don't
// fill tiles overlaps the one before; registers have fewer rows where there aren't 16.
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <functional>

#include "targets/llvm/function_codegen.h"
#include "treadle/tir/tile_ops.h"

namespace treadle::targets {

using llvm::Value;

namespace {

constexpr int64_t kRows = tir::kTileRows, kWordBytes = 4, kTileBytes = kRows * kRows * kWordBytes;
constexpr int kSumTiles = 0, kLeftTiles = 4, kRightTiles = 6, kTiles = 8;

class TileBuilder {
 public:
  /// An operand in memory: where it begins, and the bytes from one row (of the right one: panel) to the next.
  struct Operand {
    Value *begin, *stride;
  };

  /// Of loops around runs of words: iterations, and the bytes of the left operand from one to the next.
  struct Step {
    int64_t extent;
    Value* stride;
  };

  TileBuilder(llvm::IRBuilder<>* builder, llvm::Module* module, bool bytes, const tir::TileProduct& product,
              std::vector<Step> steps)
      : b_(*builder),
        module_(module),
        bytes_(bytes),
        words_(product.words),
        rows_(product.rows),
        panels_(product.panels),
        steps_(std::move(steps)) {}

  /// All registers have 64 bytes in a row, those of the right operand 16 rows.
  void Configure() {
    std::vector<uint8_t> config(64, 0);
    config[0] = 1;  // the palette
    for (size_t i = 0; i < kTiles; ++i) {
      config[16 + 2 * i] = kRows * kWordBytes;
      config[48 + i] = static_cast<uint8_t>(i >= kRightTiles ? kRows : std::min(kRows, rows_));
    }
    auto* data = llvm::ConstantDataArray::get(module_->getContext(), llvm::ArrayRef<uint8_t>(config));
    auto* global = new llvm::GlobalVariable(*module_, data->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::PrivateLinkage, data, "tile.config");
    global->setAlignment(llvm::Align(64));
    b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {global});
  }
  void Release() { b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {}); }

  void Run(const Operand& c, const Operand& a, const Operand& b) {
    InTwos(panels_, [&](Value* panel, int64_t width) {
      const Operand columns{Offset(b.begin, b_.CreateMul(panel, b.stride)), b.stride};
      const Operand to{Offset(c.begin, b_.CreateMul(panel, Number(kRows * kWordBytes))), c.stride};
      auto block = [&](const std::vector<Value*>& rows) { Block(to, a, columns, rows, static_cast<int>(width)); };
      if (rows_ <= kRows) return block({Number(0)});
      const int64_t whole = rows_ / kRows;
      const bool rest = rows_ % kRows != 0;
      InTwos(rest && whole % 2 != 0 ? whole - 1 : whole, [&](Value* tile, int64_t height) {
        std::vector<Value*> rows{b_.CreateMul(tile, Number(kRows))};
        if (height == 2) rows.push_back(b_.CreateAdd(rows[0], Number(kRows)));
        block(rows);
      });
      if (!rest) return;
      std::vector<Value*> rows{Number(rows_ - kRows)};
      if (whole % 2 != 0) rows.insert(rows.begin(), Number((whole - 1) * kRows));
      block(rows);
    });
  }

 private:
  Value* Number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  Value* Offset(Value* pointer, Value* bytes) { return b_.CreateInBoundsGEP(b_.getInt8Ty(), pointer, bytes); }
  Value* Tile(int number) { return b_.getInt8(static_cast<uint8_t>(number)); }

  void Loop(int64_t count, const std::function<void(Value*)>& body) {
    if (count == 1) return body(Number(0));
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
    b_.CreateCondBr(b_.CreateICmpSLT(next, Number(count)), inside, after);
    b_.SetInsertPoint(after);
  }

  /// Two of `count` at a time, then the one that is left: its number, and how many from there.
  void InTwos(int64_t count, const std::function<void(Value*, int64_t)>& body) {
    if (count >= 2) Loop(count / 2, [&](Value* i) { body(b_.CreateMul(i, Number(2)), 2); });
    if (count % 2 != 0) body(Number(count - 1), 1);
  }

  /// A loop nest over runs of words: their number, and where they are in the left operand.
  void Runs(size_t depth, Value* run, Value* offset, const std::function<void(Value*, Value*)>& body) {
    if (depth == steps_.size()) return body(run, offset);
    const Step& step = steps_[depth];
    Loop(step.extent, [&](Value* i) {
      Value* inner = b_.CreateAdd(b_.CreateMul(run, Number(step.extent)), i);
      Runs(depth + 1, inner, b_.CreateAdd(offset, b_.CreateMul(i, step.stride)), body);
    });
  }

  /// Sums of registers: of tiles that begin at `rows`, by `width`.
  void Block(const Operand& c, const Operand& a, const Operand& b, const std::vector<Value*>& rows, int width) {
    Value* line = Number(kRows * kWordBytes);
    const int height = static_cast<int>(rows.size());
    for (int i = 0; i < height * width; ++i) {
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {Tile(kSumTiles + i)});
    }
    std::vector<Value*> lefts, sums;
    for (Value* row : rows) {
      lefts.push_back(Offset(a.begin, b_.CreateMul(row, a.stride)));
      sums.push_back(Offset(c.begin, b_.CreateMul(row, c.stride)));
    }
    auto load = [&](int tile, Value* from, Value* stride) {
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {Tile(tile), from, stride});
    };
    const llvm::Intrinsic::ID dot = bytes_ ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbf16ps;
    Runs(0, Number(0), Number(0), [&](Value* run, Value* offset) {
      Value* first = b_.CreateMul(run, Number(words_ / kRows * kTileBytes));
      Loop(words_ / kRows, [&](Value* step) {
        Value* right = b_.CreateAdd(first, b_.CreateMul(step, Number(kTileBytes)));
        Value* left = b_.CreateAdd(offset, b_.CreateMul(step, line));
        for (int j = 0; j < width; ++j) {
          load(kRightTiles + j, Offset(Offset(b.begin, b_.CreateMul(Number(j), b.stride)), right), line);
        }
        for (int i = 0; i < height; ++i) {
          load(kLeftTiles + i, Offset(lefts[static_cast<size_t>(i)], left), a.stride);
          for (int j = 0; j < width; ++j) {
            b_.CreateIntrinsic(dot, {}, {Tile(kSumTiles + i * width + j), Tile(kLeftTiles + i), Tile(kRightTiles + j)});
          }
        }
      });
    });
    for (int i = 0; i < height; ++i) {
      for (int j = 0; j < width; ++j) {
        Value* to = Offset(sums[static_cast<size_t>(i)], Number(int64_t{j} * kRows * kWordBytes));
        b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {}, {Tile(kSumTiles + i * width + j), to, c.stride});
      }
    }
  }

  llvm::IRBuilder<>& b_;
  llvm::Module* module_;
  const bool bytes_;
  const int64_t words_, rows_, panels_;
  const std::vector<Step> steps_;
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
  TileBuilder builder(&b_, module_->module(), bytes, *product, std::move(steps));
  const auto c = operand(product->c), a = operand(product->a), b = operand(product->b);
  builder.Configure();
  builder.Run(c, a, b);
  builder.Release();
  return b_.getInt32(0);
}

}  // namespace treadle::targets
