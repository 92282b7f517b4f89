// SPDX-License-Identifier: Apache-2.0
// Products of tiles (treadle/tir/tile_ops.h) with AMX: registers of 16 rows of 64 bytes. Four hold sums, two rows of
// the left operand, which are read where they are, and two panels of the right one.
#include <llvm/IR/IntrinsicsX86.h>

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

  TileBuilder(llvm::IRBuilder<>* builder, llvm::Module* module, bool bytes, int64_t words)
      : b_(*builder), module_(module), bytes_(bytes), words_(words) {}

  /// All registers have 16 rows of 64 bytes.
  void Configure() {
    std::vector<uint8_t> config(64, 0);
    config[0] = 1;  // the palette
    for (size_t i = 0; i < kTiles; ++i) {
      config[16 + 2 * i] = kRows * kWordBytes;
      config[48 + i] = kRows;
    }
    auto* data = llvm::ConstantDataArray::get(module_->getContext(), llvm::ArrayRef<uint8_t>(config));
    auto* global = new llvm::GlobalVariable(*module_, data->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::PrivateLinkage, data, "tile.config");
    global->setAlignment(llvm::Align(64));
    b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {global});
  }
  void Release() { b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {}); }

  void Run(const Operand& c, const Operand& a, const Operand& b, int64_t rows, int64_t panels) {
    InTwos(panels, [&](Value* panel, int64_t width) {
      const Operand columns{Offset(b.begin, b_.CreateMul(panel, b.stride)), b.stride};
      Value* to = Offset(c.begin, b_.CreateMul(panel, Number(kRows * kWordBytes)));
      InTwos(rows / kRows, [&](Value* tile, int64_t height) {
        Value* row = b_.CreateMul(tile, Number(kRows));
        Block({Offset(to, b_.CreateMul(row, c.stride)), c.stride},
              {Offset(a.begin, b_.CreateMul(row, a.stride)), a.stride}, columns, static_cast<int>(height),
              static_cast<int>(width));
      });
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

  /// Sums of `height` x `width` registers.
  void Block(const Operand& c, const Operand& a, const Operand& b, int height, int width) {
    Value* line = Number(kRows * kWordBytes);
    for (int i = 0; i < height * width; ++i) {
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {Tile(kSumTiles + i)});
    }
    auto below = [&](const Operand& operand, int i) {
      return Offset(operand.begin, b_.CreateMul(Number(i * kRows), operand.stride));
    };
    auto load = [&](int tile, Value* from, Value* stride) {
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {}, {Tile(tile), from, stride});
    };
    const llvm::Intrinsic::ID dot = bytes_ ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbf16ps;
    Loop(words_ / kRows, [&](Value* step) {
      Value* right = b_.CreateMul(step, Number(kTileBytes));
      Value* left = b_.CreateMul(step, line);
      for (int j = 0; j < width; ++j) {
        load(kRightTiles + j, Offset(Offset(b.begin, b_.CreateMul(Number(j), b.stride)), right), line);
      }
      for (int i = 0; i < height; ++i) {
        load(kLeftTiles + i, Offset(below(a, i), left), a.stride);
        for (int j = 0; j < width; ++j) {
          b_.CreateIntrinsic(dot, {}, {Tile(kSumTiles + i * width + j), Tile(kLeftTiles + i), Tile(kRightTiles + j)});
        }
      }
    });
    for (int i = 0; i < height; ++i) {
      for (int j = 0; j < width; ++j) {
        Value* to = Offset(below(c, i), Number(int64_t{j} * kRows * kWordBytes));
        b_.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {}, {Tile(kSumTiles + i * width + j), to, c.stride});
      }
    }
  }

  llvm::IRBuilder<>& b_;
  llvm::Module* module_;
  const bool bytes_;
  const int64_t words_;
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
  auto operand = [&](const tir::TileProduct::Operand& from) {
    const tir::Buffer& buffer = from.first->buffer;
    Value* elements = Index64(tir::TileStride(from));
    Value* stride = b_.CreateMul(elements, b_.getInt64(static_cast<uint64_t>(buffer->dtype.bytes())));
    return TileBuilder::Operand{ElementPointer(buffer, from.first->indices[0]), stride};
  };
  TileBuilder builder(&b_, module_->module(), bytes, product->words);
  const auto c = operand(product->c), a = operand(product->a), b = operand(product->b);
  builder.Configure();
  builder.Run(c, a, b, product->rows, product->panels);
  builder.Release();
  return b_.getInt32(0);
}

}  // namespace treadle::targets
