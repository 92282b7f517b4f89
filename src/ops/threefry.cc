// SPDX-License-Identifier: Apache-2.0
// Random numbers of a counter and a key that can be split: random.threefry_generate, random.threefry_split,
// random.uniform. Source of the cipher: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011),
// Threefry4x64 with 20 rounds; of splitting: K. Claessen, M. Palka, "Splittable pseudorandom number generators using
// cryptographic hashing" (Haskell 2013), encoding e4. The numbers are those of TVM's operators of these names, which
// leave out the last injection of the key (after round 20) and count in all four words.
//
// A key is ten words: 0-3 the cipher's key, 4-5 the path of splits from its root (a bit each, 1: right), 6-7 the
// counter, 8-9 a one where the path's next bit goes; none: the path is full.
#include "treadle/ops/attrs/threefry.h"

#include <array>

#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ThreefryGenerateAttrs);
TREADLE_DEFINE_NODE(RandomUniformAttrs);

namespace {

constexpr int64_t kKeyWords = 10;
constexpr int kWords = 4;
using Words = std::array<PrimExpr, kWords>;

PrimExpr Word(int64_t value) { return tir::make_const(DataType::UInt(64), value); }
/// A one in place `bit`.
PrimExpr Bit(int bit) { return tir::left_shift(Word(1), Word(bit)); }
PrimExpr At(const tir::Buffer& key, int word) { return Load(key, {Index(word)}); }
tir::Stmt Put(const tir::Buffer& key, int word, const PrimExpr& value) { return Store(key, value, {Index(word)}); }

class Cipher {
 public:
  using Then = std::function<tir::Stmt(const Words&)>;

  /// Statements that encrypt `counter` by words 0-3 of `key`, and go on with the result.
  static tir::Stmt Encrypt(const tir::Buffer& key, const Words& counter, const Then& then) {
    Cipher cipher(then);
    return cipher.TakeKey(key, 0, counter);
  }

 private:
  explicit Cipher(const Then& then) : then_(then) {}

  tir::Stmt TakeKey(const tir::Buffer& key, int word, const Words& counter) {
    if (word < kWords) {
      return LetIn("key", At(key, word), [&](const PrimExpr& value) {
        key_[static_cast<size_t>(word)] = value;
        return TakeKey(key, word + 1, counter);
      });
    }
    // 0x1BD11BDAA9FC1A22: so that no key makes all words of the schedule equal.
    PrimExpr parity = tir::bitwise_or(tir::left_shift(Word(0x1BD11BDA), Word(32)), Word(0xA9FC1A22));
    for (int i = 0; i < kWords; ++i) parity = tir::bitwise_xor(parity, key_[static_cast<size_t>(i)]);
    return LetIn("key", parity, [&](const PrimExpr& value) {
      key_[kWords] = value;
      return Round(0, counter);
    });
  }

  tir::Stmt Round(int round, Words words) {
    constexpr int kRounds = 20;
    constexpr std::array<std::array<int, 2>, 8> kRotations = {
        {{14, 16}, {52, 57}, {23, 40}, {5, 37}, {25, 33}, {46, 12}, {58, 22}, {32, 32}}};
    if (round == kRounds) return then_(words);
    if (round % 4 == 0) {
      const int injection = round / 4;
      for (int i = 0; i < kWords; ++i) {
        auto& word = words[static_cast<size_t>(i)];
        word = word + key_[static_cast<size_t>((injection + i) % (kWords + 1))];
        if (i == kWords - 1) word = word + Word(injection);
      }
    }
    const auto& rotations = kRotations[static_cast<size_t>(round % 8)];
    return Mix(words[0], words[1], rotations[0], [&](const PrimExpr& a, const PrimExpr& b) {
      return Mix(words[2], words[3], rotations[1],
                 [&](const PrimExpr& c, const PrimExpr& d) { return Round(round + 1, Words{a, d, c, b}); });
    });
  }

  static tir::Stmt Mix(const PrimExpr& a, const PrimExpr& b, int rotation,
                       const std::function<tir::Stmt(const PrimExpr&, const PrimExpr&)>& then) {
    return LetIn("b", b, [&](const PrimExpr& old) {
      return LetIn("a", a + old, [&](const PrimExpr& sum) {
        PrimExpr turned =
            tir::bitwise_or(tir::left_shift(old, Word(rotation)), tir::right_shift(old, Word(64 - rotation)));
        return LetIn("x", tir::bitwise_xor(sum, turned), [&](const PrimExpr& x) { return then(sum, x); });
      });
    });
  }

  const Then& then_;
  std::array<PrimExpr, kWords + 1> key_;
};

/// Words 8 and 9 of `to`: those of `from` as one number of 128 bits, whose single one moves right by a place.
tir::Stmt MovePlace(const tir::Buffer& from, const tir::Buffer& to) {
  PrimExpr high = At(from, 8), low = At(from, 9);
  PrimExpr crosses = tir::bitwise_and(high, Word(1));
  return InOrder({Put(to, 8, tir::right_shift(high, Word(1))),
                  Put(to, 9, tir::bitwise_or(tir::right_shift(low, Word(1)), tir::left_shift(crosses, Word(63))))});
}

tir::Stmt Copy(const tir::Buffer& from, const tir::Buffer& to, int begin, int end) {
  std::vector<tir::Stmt> stmts;
  for (int i = begin; i < end; ++i) stmts.push_back(Put(to, i, At(from, i)));
  return InOrder(stmts);
}

/// Words 4-9 of `key`: the path whose first bit is `bit`, which stands in place `place` of the next bit; counter 0.
tir::Stmt StartPath(const tir::Buffer& key, const PrimExpr& bit, int place) {
  return InOrder({Put(key, 4, bit), Put(key, 5, Word(0)), Put(key, 6, Word(0)), Put(key, 7, Word(0)),
                  Put(key, 8, Bit(place)), Put(key, 9, Word(0))});
}

/// Words 4 and 5 of `to`: the path of `from` with a one behind it.
tir::Stmt TurnRight(const tir::Buffer& from, const tir::Buffer& to) {
  return InOrder(
      {Put(to, 4, tir::bitwise_or(At(from, 4), At(from, 8))), Put(to, 5, tir::bitwise_or(At(from, 5), At(from, 9)))});
}

PrimExpr PathIsFull(const tir::Buffer& key) { return tir::equal(tir::bitwise_or(At(key, 8), At(key, 9)), Word(0)); }

tir::Stmt PutWords(const tir::Buffer& key, const Words& words) {
  std::vector<tir::Stmt> stmts;
  for (int i = 0; i < kWords; ++i) stmts.push_back(Put(key, i, words[static_cast<size_t>(i)]));
  return InOrder(stmts);
}

Type KeyType() { return TensorType({Index(kKeyWords)}, DataType::UInt(64)); }

void CheckKey(const InferContext& context) {
  const auto* key = context.Tensor(0, "key");
  CheckRank(key, 1, "key");
  if (key->dtype != DataType::UInt(64)) throw DTypeError(StrCat("key must be uint64, not ", key->dtype));
  if (!context.Equal(key->shape[0], Dim(kKeyWords))) {
    throw ShapeError(StrCat("key must have ", kKeyWords, " words, not ", TypeText(key)));
  }
}

Array<PrimExpr> Dims(const std::vector<int64_t>& shape) {
  Array<PrimExpr> dims;
  for (int64_t dim : shape) {
    if (dim < 0) throw ShapeError(StrCat("out_shape: a dimension must not be negative: ", dim));
    dims.push_back(Index(dim));
  }
  return dims;
}

/// {the next key, numbers of that shape}.
Array<Tensor> Generate(const Tensor& key, const std::vector<int64_t>& shape) {
  const Array<PrimExpr> dims = Dims(shape);
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (__builtin_mul_overflow(count, dim, &count)) throw ShapeError("out_shape: too many elements");
  }
  const int64_t blocks = count / kWords, rest = count % kWords;
  const DataType u64 = DataType::UInt(64);
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) {
    const tir::Buffer &old = in[0], &next = outs[0], &numbers = outs[1], &state = outs[2];
    auto number_at = [&](const PrimExpr& flat, const PrimExpr& value) {
      return Store(numbers, value, UnflattenIndex(flat, dims));
    };
    // The counter can't pass its end: a key whose counter would goes on with a right turn of its path, or, where that
    // is full, with a key of its own.
    const Words ones{tir::bitwise_not(Word(0)), tir::bitwise_not(Word(0)), tir::bitwise_not(Word(0)),
                     tir::bitwise_not(Word(0))};
    tir::Stmt renew = Cipher::Encrypt(old, ones, [&](const Words& words) {
      return InOrder({PutWords(state, words), StartPath(state, Word(0), 63)});
    });
    tir::Stmt turn = InOrder({Copy(old, state, 0, 4), TurnRight(old, state), Put(state, 6, Word(0)),
                              Put(state, 7, Word(0)), MovePlace(old, state)});
    PrimExpr fits = tir::bitwise_not(At(old, 7)) > Word(count);
    tir::Stmt begin =
        tir::IfThenElse(fits, Copy(old, state, 0, kKeyWords), tir::IfThenElse(PathIsFull(old), renew, turn));
    std::vector<tir::Stmt> stmts{begin};
    if (blocks != 0) {
      stmts.push_back(LoopNest(
          {Index(blocks)}, "block",
          [&](const Array<PrimExpr>& block) {
            const PrimExpr step = tir::cast(u64, block[0]);
            Words counter;
            for (int i = 0; i < kWords; ++i) counter[static_cast<size_t>(i)] = At(state, 4 + i) + step;
            return Cipher::Encrypt(state, counter, [&](const Words& words) {
              std::vector<tir::Stmt> stores;
              for (int i = 0; i < kWords; ++i) {
                stores.push_back(number_at(block[0] * Index(kWords) + Index(i), words[static_cast<size_t>(i)]));
              }
              return InOrder(stores);
            });
          },
          true));
    }
    PrimExpr counter = At(state, 7) + Word(blocks * kWords);
    if (rest != 0) {
      const Words last{At(state, 4), At(state, 5), At(state, 6), counter};
      stmts.push_back(Cipher::Encrypt(state, last, [&](const Words& words) {
        std::vector<tir::Stmt> stores;
        for (int64_t i = 0; i < rest; ++i) {
          stores.push_back(number_at(Index(blocks * kWords + i), words[static_cast<size_t>(i)]));
        }
        return InOrder(stores);
      }));
      counter = counter + Word(kWords);
    }
    stmts.push_back(Copy(state, next, 0, 6));
    stmts.push_back(InOrder({Put(next, 6, Word(0)), Put(next, 7, counter)}));
    stmts.push_back(Copy(state, next, 8, kKeyWords));
    return InOrder(stmts);
  };
  const Array<PrimExpr> words{Index(kKeyWords)};
  Array<Tensor> made =
      te::Extern({words, dims, words}, {u64, u64, u64}, {key}, body, "threefry_generate", "threefry_generate");
  return {made[0], made[1]};
}

Type GenerateInfer(const InferContext& context) {
  CheckKey(context);
  return TupleType(
      {KeyType(), TensorType(Dims(context.attrs<ThreefryGenerateAttrs>()->out_shape), DataType::UInt(64))});
}

Array<Tensor> GenerateCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  return Generate(inputs[0], attrs.as<ThreefryGenerateAttrs>()->out_shape);
}

Type SplitInfer(const InferContext& context) {
  CheckKey(context);
  return TupleType({KeyType(), KeyType()});
}

Array<Tensor> SplitCompute(const Attrs&, const Array<Tensor>& inputs, const Type&) {
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) -> tir::Stmt {
    const tir::Buffer &key = in[0], &left = outs[0], &right = outs[1];
    const Words counter{At(key, 4), At(key, 5), At(key, 6), At(key, 7)};
    tir::Stmt renew = Cipher::Encrypt(key, counter, [&](const Words& words) {
      return InOrder(
          {PutWords(left, words), PutWords(right, words), StartPath(left, Word(0), 62), StartPath(right, Bit(63), 62)});
    });
    tir::Stmt extend = InOrder({Copy(key, left, 0, 8), MovePlace(key, left), Copy(key, right, 0, 4),
                                TurnRight(key, right), Copy(key, right, 6, 8), MovePlace(key, right)});
    return tir::IfThenElse(PathIsFull(key), renew, extend);
  };
  const Array<PrimExpr> words{Index(kKeyWords)};
  const DataType u64 = DataType::UInt(64);
  return te::Extern({words, words}, {u64, u64}, {inputs[0]}, body, "threefry_split", "threefry_split");
}

Type UniformInfer(const InferContext& context) {
  CheckKey(context);
  const auto* a = context.attrs<RandomUniformAttrs>();
  if (a->out_dtype != DataType::Float(32) && a->out_dtype != DataType::Float(64)) {
    throw DTypeError(StrCat("out_dtype must be float32 or float64, not ", a->out_dtype));
  }
  for (size_t i = 1; i < 3; ++i) {
    const auto* bound = context.Tensor(i, i == 1 ? "low" : "high");
    CheckRank(bound, 0, i == 1 ? "low" : "high");
    if (bound->dtype != a->out_dtype) {
      throw DTypeError(StrCat(i == 1 ? "low" : "high", " must be ", a->out_dtype, ", not ", bound->dtype));
    }
  }
  return TupleType({KeyType(), TensorType(Dims(a->out_shape), a->out_dtype)});
}

Array<Tensor> UniformCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<RandomUniformAttrs>();
  const Array<Tensor> made = Generate(inputs[0], a->out_shape);
  const bool wide = a->out_dtype.bits() == 64;
  const DataType bits = DataType::UInt(wide ? 64 : 32);
  const int fraction = wide ? 52 : 23;
  auto constant = [&](int64_t value) { return tir::make_const(bits, value); };
  auto body = [&](const Array<PrimExpr>& i) {
    // The fraction's bits of a number in [1, 2).
    PrimExpr x = tir::right_shift(tir::cast(bits, made[1](i)), constant(bits.bits() - fraction));
    PrimExpr one = tir::left_shift(constant(wide ? 1023 : 127), constant(fraction));
    PrimExpr unit = tir::reinterpret(a->out_dtype, tir::bitwise_or(x, one)) - tir::make_const(a->out_dtype, 1);
    PrimExpr low = inputs[1](Array<PrimExpr>{}), high = inputs[2](Array<PrimExpr>{});
    return unit * (high - low) + low;
  };
  return {made[0], Compute(made[1]->shape, body, "random_uniform", tag::kInjective)};
}

FNumResults Two() {
  return FNumResults([](const Attrs&) { return 2; });
}

}  // namespace

void RegisterThreefryOps() {
  const auto key = [] {
    return OpArgument{"key", "Tensor", "(10,) uint64: of random.threefry_key or a result of these."};
  };
  OpRegistration("random.threefry_generate")
      .Describe("The next key, and numbers of all 64 bits.")
      .Arguments({key()})
      .AttrsType<ThreefryGenerateAttrs>()
      .Relation(Rule<GenerateInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kNumResults, Two())
      .Set(kCompute, FTECompute(GenerateCompute));
  OpRegistration("random.threefry_split")
      .Describe("Two keys whose numbers have nothing in common.")
      .Arguments({key()})
      .Relation(Rule<SplitInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kNumResults, Two())
      .Set(kCompute, FTECompute(SplitCompute));
  OpRegistration("random.uniform")
      .Describe("The next key, and numbers from low up to high, which isn't among them.")
      .Arguments({key(), {"low", "Tensor", "A scalar."}, {"high", "Tensor", "A scalar."}})
      .AttrsType<RandomUniformAttrs>()
      .Relation(Rule<UniformInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kNumResults, Two())
      .Set(kCompute, FTECompute(UniformCompute));
}

}  // namespace treadle::ops
