// SPDX-License-Identifier: Apache-2.0
// Random well-typed programs of the graph IR: tensors, tuples, lets, branches, functions, data types, references, with
// values shared within and across scopes.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "treadle/ops/make.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::testing {

struct RandomProgramOptions {
  bool control_flow = true;  ///< branches, functions, data types, references; else data flow and tuples only
  int size = 30;             ///< expressions, roughly
};

class RandomProgram {
 public:
  using Expr = relay::Expr;
  using Var = relay::Var;
  using Shape = std::vector<int64_t>;

  RandomProgram(unsigned seed, RandomProgramOptions options) : random_(seed), options_(options) {}

  IRModule Generate() {
    module_ = options_.control_flow ? relay::Prelude() : IRModule::Empty();
    if (options_.control_flow && Chance(50)) {
      AddGlobal("helper");
      if (Chance(50)) AddGlobal("other");
    }
    fuel_ = options_.size;
    Scope scope(this);
    Array<Var> params;
    const int count = Pick(3) + 1;
    for (int i = 0; i < count; ++i) params.push_back(Param(RandomShape()));
    Expr body;
    if (Chance(25)) {
      Array<Expr> fields;
      for (int i = 0; i < 3; ++i) fields.push_back(Tensor(RandomShape()));
      body = relay::Tuple(fields);
    } else if (options_.control_flow && Chance(10)) {
      body = List(Shape{3});
    } else {
      body = Tensor(RandomShape());
    }
    module_.CopyOnWrite()->Add(GlobalVar("main"), relay::Function(params, body));
    return relay::InferTypes(module_);
  }

 private:
  struct Known {
    Expr expr;
    Shape shape;
  };
  struct Global {
    GlobalVar var;
    std::vector<Shape> params;
    Shape result;
  };
  /// Values of an inner scope are forgotten when it ends.
  class Scope {
   public:
    explicit Scope(RandomProgram* program) : program_(program), size_(program->pool_.size()) {}
    ~Scope() {
      program_->pool_.erase(program_->pool_.begin() + static_cast<std::ptrdiff_t>(size_), program_->pool_.end());
    }

   private:
    RandomProgram* program_;
    size_t size_;
  };

  int Pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool Chance(int percent) { return Pick(100) < percent; }
  Shape RandomShape() {
    static const std::vector<Shape> shapes = {{3}, {2, 3}, {1, 3}, {2, 1}, {}, {4, 3}, {2, 2, 3}, {1, 2, 4, 4}, {6}};
    return shapes[static_cast<size_t>(Pick(static_cast<int>(shapes.size())))];
  }
  static Type F32(const Shape& shape) { return TensorType(shape, DataType::Float(32)); }
  std::string Name() { return "v" + std::to_string(next_++); }
  Var Param(const Shape& shape) {
    Var var(Name(), F32(shape));
    pool_.push_back({var, shape});
    return var;
  }

  Expr Constant(const Shape& shape) {
    NDArray data = NDArray::Empty(shape, DataType::Float(32));
    const int kind = Pick(8);
    for (int64_t i = 0; i < data.size(); ++i) {
      data.Data<float>()[i] = kind == 0 ? 0 : kind == 1 ? 1 : static_cast<float>(Pick(65) - 32) / 16;
    }
    return relay::Constant(data);
  }
  Expr Call(const std::string& name, Array<Expr> args) { return ops::CallOp(name, std::move(args)); }

  /// An expression of type float32 of that shape.
  Expr Tensor(const Shape& shape) {
    if (--fuel_ <= 0 || Chance(12)) return Leaf(shape);
    Expr expr = options_.control_flow && Chance(25) ? Control(shape) : DataFlow(shape);
    if (Chance(60)) pool_.push_back({expr, shape});
    return expr;
  }

  Expr Leaf(const Shape& shape) {
    std::vector<Expr> fitting;
    for (const Known& known : pool_) {
      if (known.shape == shape) fitting.push_back(known.expr);
    }
    if (!fitting.empty() && Chance(85)) return fitting[static_cast<size_t>(Pick(static_cast<int>(fitting.size())))];
    return Constant(shape);
  }

  Expr DataFlow(const Shape& shape) {
    switch (Pick(14)) {
      case 0:
      case 1: {
        static const char* const kUnary[] = {"nn.relu", "tanh", "sigmoid", "negative", "abs",
                                             "exp",     "cos",  "copy",    "floor"};
        const char* name = kUnary[Pick(9)];
        Expr x = Tensor(shape);
        return Call(name, {std::string(name) == "exp" ? ops::MakeClip(x, -2, 2) : x});
      }
      case 2:
      case 3:
      case 4: {
        static const char* const kBinary[] = {"add", "subtract", "multiply", "maximum", "minimum"};
        Expr a = Tensor(shape), b = Tensor(Chance(50) ? shape : Narrowed(shape));
        return Chance(50) ? Call(kBinary[Pick(5)], {a, b}) : Call(kBinary[Pick(5)], {b, a});
      }
      case 5: {
        Shape wider = shape;
        const auto axis = Pick(static_cast<int>(shape.size()) + 1);
        wider.insert(wider.begin() + axis, 2);
        static const char* const kReduce[] = {"sum", "mean", "max", "min"};
        return ops::MakeReduce(kReduce[Pick(4)], Tensor(wider), std::vector<int64_t>{axis});
      }
      case 6:
        return Rearranged(shape);
      case 7: {
        if (shape.empty()) return Call("negative", {Tensor(shape)});
        const auto axis = static_cast<int>(Pick(static_cast<int>(shape.size())));
        Shape first = shape, second = shape;
        if (shape[static_cast<size_t>(axis)] < 2) return Call("nn.relu", {Tensor(shape)});
        first[static_cast<size_t>(axis)] = 1;
        second[static_cast<size_t>(axis)] -= 1;
        Expr a = Tensor(first);
        return ops::MakeConcatenate({a, Tensor(second)}, axis);
      }
      case 8: {
        Array<Expr> fields = {Tensor(shape), Tensor(RandomShape())};
        relay::Tuple tuple(fields);
        return relay::TupleGetItem(tuple, 0);
      }
      case 9:
        return Heavy(shape);
      case 10:
        return Call("where", {Bools(shape), Tensor(shape), Tensor(shape)});
      case 11:
        return Padded(shape);
      case 12:
        return UsedAgain(Tensor(shape));
      default: {
        if (shape.empty()) return ops::MakeCast(ops::MakeCast(Tensor(shape), DataType::Int(32)), DataType::Float(32));
        Shape wider = shape;
        wider.back() *= 2;
        return relay::TupleGetItem(ops::MakeSplit(Tensor(wider), int64_t{2}, static_cast<int>(shape.size()) - 1),
                                   Pick(2));
      }
    }
  }

  /// Odd borders, other ones on each side. The inside has at least one element.
  Expr Padded(const Shape& shape) {
    static const char* const kModes[] = {"constant", "constant", "edge", "reflect", "wrap"};
    const std::string mode = kModes[Pick(5)];
    Shape inside = shape;
    std::vector<std::pair<int64_t, int64_t>> width;
    for (int64_t& dim : inside) {
      const int64_t size = Pick(static_cast<int>(dim)) + 1;
      const int64_t before = Pick(static_cast<int>(dim - size) + 1), after = dim - size - before;
      // What is mirrored or comes from the other side must be there.
      const bool fits = mode == "constant" || mode == "edge" || (before < size && after < size);
      width.emplace_back(fits ? before : 0, fits ? after : 0);
      if (fits) dim = size;
    }
    Expr padded =
        ops::MakePad(Tensor(inside), width, ops::ScalarConstant(DataType::Float(32), 0.5 * Pick(5) - 1), mode);
    return Chance(60) ? UsedAgain(padded) : padded;
  }

  /// Arithmetic that uses its operand several times.
  Expr UsedAgain(const Expr& x) {
    switch (Pick(5)) {
      case 0:
        return Call("multiply", {x, x});
      case 1:
        return Call("subtract", {x, Call("tanh", {x})});
      case 2:
        return Call("sign", {x});
      case 3:
        return ops::CallWith<ops::LeakyReluAttrs>("nn.leaky_relu", {x}, [](auto& a) { a.alpha = 0.25; });
      default:
        return Call("where",
                    {Call("greater", {x, ops::ScalarConstant(DataType::Float(32), 0.25)}), x, Call("sigmoid", {x})});
    }
  }

  /// A shape that broadcasts to `shape`.
  Shape Narrowed(Shape shape) {
    while (!shape.empty() && Chance(40)) shape.erase(shape.begin());
    for (int64_t& dim : shape) {
      if (Chance(30)) dim = 1;
    }
    return shape;
  }

  Expr Rearranged(const Shape& shape) {
    switch (Pick(4)) {
      case 0: {
        int64_t size = 1;
        for (int64_t dim : shape) size *= dim;
        return ops::MakeReshape(Tensor({size}), shape);
      }
      case 1: {
        Shape reversed(shape.rbegin(), shape.rend());
        std::vector<int64_t> axes(shape.size());
        for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(axes.size() - 1 - i);
        return ops::MakeTranspose(Tensor(reversed), axes);
      }
      case 2: {
        if (shape.empty() || shape[0] != 1) return Call("copy", {Tensor(shape)});
        return ops::MakeExpandDims(Tensor(Shape(shape.begin() + 1, shape.end())), 0);
      }
      default: {
        if (shape.empty()) return ops::MakeReshape(Tensor({1}), shape);
        Shape larger = shape;
        for (int64_t& dim : larger) ++dim;
        return ops::MakeStridedSlice(Tensor(larger), std::vector<int64_t>(shape.size(), 1),
                                     std::vector<int64_t>(larger.begin(), larger.end()));
      }
    }
  }

  Expr Heavy(const Shape& shape) {
    if (shape.size() == 2) {
      if (Chance(30)) return Call("nn.softmax", {Tensor(shape)});
      Expr x = Tensor({shape[0], 3});
      Expr y = Call("nn.dense", {x, Chance(70) ? Constant({shape[1], 3}) : Tensor({shape[1], 3})});
      return Chance(40) ? Call("nn.bias_add", {y, Constant({shape[1]})}) : y;
    }
    if (shape.size() == 4) {
      Expr x = Tensor(shape);
      const auto channels = shape[1];
      if (Chance(25)) {
        auto vector = [&] { return Call("abs", {Constant({channels})}); };
        Expr mean = Constant({channels}), beta = Constant({channels});
        return relay::TupleGetItem(Call("nn.batch_norm", {x, vector(), beta, mean, vector()}), 0);
      }
      Expr weight = Constant({channels, channels, 3, 3});
      return ops::CallWith<ops::Conv2DAttrs>("nn.conv2d", {x, weight}, [](auto& a) { a.padding = {1, 1, 1, 1}; });
    }
    return Call("tanh", {Tensor(shape)});
  }

  Expr Bools(const Shape& shape) {
    static const char* const kCompare[] = {"greater", "less", "less_equal", "equal"};
    Expr a = Tensor(shape);
    return Call(kCompare[Pick(4)], {a, Tensor(shape)});
  }
  Expr Condition() { return Bools({}); }

  Expr Control(const Shape& shape) {
    switch (Pick(9)) {
      case 0: {
        Expr cond = Condition();
        return relay::If(cond, Scoped(shape), Scoped(shape));
      }
      case 1:
      case 2: {
        const Shape bound = RandomShape();
        Expr value = Tensor(bound);
        Scope scope(this);
        Var var(Name());
        pool_.push_back({var, bound});
        return relay::Let(var, value, Tensor(shape));
      }
      case 3: {
        const Shape param = RandomShape();
        relay::Function func = Lambda(param, shape);
        return relay::Call(func, {Tensor(param)});
      }
      case 4: {
        const Shape param = RandomShape();
        relay::Function func = Lambda(param, shape);
        Var name(Name());
        Expr a = relay::Call(name, {Tensor(param)});
        Expr b = relay::Call(name, {Tensor(param)});
        return relay::Let(name, func, Call("add", {a, b}));
      }
      case 5: {
        Var ref(Name());
        Var ignored("_" + Name()), read(Name());
        Expr first = Tensor(shape), second = Tensor(shape);
        Scope scope(this);
        pool_.push_back({read, shape});
        Expr body = Tensor(shape);
        return relay::Let(ref, relay::RefCreate(first),
                          relay::Let(ignored, relay::RefWrite(ref, Call("add", {relay::RefRead(ref), second})),
                                     relay::Let(read, relay::RefRead(ref), body)));
      }
      case 6:
        return MatchList(shape);
      case 7: {
        if (globals_.empty()) return Call("negative", {Tensor(shape)});
        const Global& global = globals_[static_cast<size_t>(Pick(static_cast<int>(globals_.size())))];
        if (global.result != shape) return Call("nn.relu", {Tensor(shape)});
        Array<Expr> args;
        for (const Shape& param : global.params) args.push_back(Tensor(param));
        return relay::Call(global.var, args);
      }
      default: {
        Var x(Name(), F32(shape)), acc(Name(), F32(shape));
        relay::Function add({acc, x}, Call("add", {acc, x}), F32(shape));
        return relay::Call(module_->GetGlobalVar("foldl"), {add, Tensor(shape), List(shape)});
      }
    }
  }

  Expr Scoped(const Shape& shape) {
    Scope scope(this);
    return Tensor(shape);
  }
  relay::Function Lambda(const Shape& param, const Shape& result) {
    Scope scope(this);
    Var var = Param(param);
    return relay::Function({var}, Tensor(result));
  }

  Constructor ConstructorOf(const std::string& name) {
    for (const auto& [var, type] : module_->type_definitions) {
      for (const Constructor& constructor : type->constructors) {
        if (constructor->name_hint == name) return constructor;
      }
    }
    throw Error("no constructor " + name);
  }
  Expr List(const Shape& shape) {
    Expr list = relay::Call(ConstructorOf("Nil"), {});
    // The annotation tells the type of an empty list.
    Type element = F32(shape);
    Var empty(Name(), TypeCall(module_->global_type_vars.at("List"), {element}));
    list = relay::Let(empty, list, empty);
    const int length = Pick(4);
    for (int i = 0; i < length; ++i) list = relay::Call(ConstructorOf("Cons"), {Tensor(shape), list});
    if (Chance(30)) list = relay::Call(module_->GetGlobalVar("rev"), Array<Expr>{list});
    if (Chance(30)) list = relay::Call(module_->GetGlobalVar("map"), {Lambda(shape, shape), list});
    return list;
  }
  Expr MatchList(const Shape& shape) {
    Expr list = List(shape);
    Var head(Name());
    Scope scope(this);
    Expr otherwise = Scoped(shape);
    pool_.push_back({head, shape});
    Expr found = Tensor(shape);
    Constructor cons = ConstructorOf("Cons"), nil = ConstructorOf("Nil");
    relay::Clause some(relay::PatternConstructor(cons, {relay::PatternVar(head), relay::PatternWildcard(Span())}),
                       found);
    relay::Clause none(relay::PatternConstructor(nil, {}), otherwise);
    return relay::Match(list, Chance(50) ? Array<relay::Clause>{some, none} : Array<relay::Clause>{none, some});
  }

  void AddGlobal(const std::string& name) {
    Global global{GlobalVar(name), {RandomShape()}, RandomShape()};
    fuel_ = options_.size / 3;
    Scope scope(this);
    Array<Var> params;
    for (const Shape& shape : global.params) params.push_back(Param(shape));
    Expr body = Tensor(global.result);
    relay::Function func(params, body, F32(global.result));
    if (Chance(50)) func = WithAttr(func, attr::kInline, IntImm(DataType::Int(32), 1));
    module_.CopyOnWrite()->Add(global.var, func);
    globals_.push_back(global);
  }

  std::mt19937 random_;
  RandomProgramOptions options_;
  IRModule module_;
  std::vector<Known> pool_;
  std::vector<Global> globals_;
  int fuel_ = 0;
  int next_ = 0;
};

}  // namespace treadle::testing
