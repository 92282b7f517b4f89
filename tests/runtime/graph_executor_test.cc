// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/graph_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "runtime/json.h"
#include "runtime/test_models.h"
#include "treadle/runtime/registry.h"
#include "treadle/runtime/thread_pool.h"

namespace treadle::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const DataType kF32 = DataType::Float(32);

NDArray Floats(const std::vector<float>& values, const std::vector<int64_t>& shape) {
  return NDArray::FromVector(values, shape, kF32);
}
std::vector<float> Values(const NDArray& array) {
  std::vector<float> values(array.size());
  array.CopyToBytes(values.data(), values.size() * sizeof(float));
  return values;
}

/// Text of a graph, assembled from its parts so that tests can break one of them.
struct GraphText {
  std::string nodes, arg_nodes, heads, shapes, dtypes, storage, row_ptr, more_attrs;
  std::string str() const {
    return "{\"nodes\":[" + nodes + "],\"arg_nodes\":[" + arg_nodes + "],\"heads\":[" + heads +
           "],\"attrs\":{\"shape\":[\"list_shape\",[" + shapes + "]],\"dltype\":[\"list_str\",[" + dtypes +
           "]],\"storage_id\":[\"list_int\",[" + storage + "]]" + more_attrs + "},\"node_row_ptr\":[" + row_ptr + "]}";
  }
};

std::string Input(const std::string& name) { return R"({"op":"null","name":")" + name + R"(","inputs":[]})"; }
std::string Op(const std::string& name, const std::string& func, const std::string& inputs, int num_inputs,
               const std::string& flatten = "0") {
  return R"({"op":"tvm_op","name":")" + name + R"(","attrs":{"func_name":")" + func + R"(","num_inputs":")" +
         std::to_string(num_inputs) + R"(","num_outputs":"1","flatten_data":")" + flatten + R"("},"inputs":[)" +
         inputs + "]}";
}

/// y = 2 * (x + w); z = y reshaped.
GraphText AddGraph() {
  GraphText g;
  g.nodes = Input("x") + "," + Input("w") + "," + Op("add", "test_add", "[0,0,0],[1,0,0]", 2) + "," +
            Op("double", "test_double", "[2,0,0]", 1) + "," + Op("reshape_nop", "__nop", "[3,0,0]", 1);
  g.arg_nodes = "0,1";
  g.heads = "[3,0,0],[4,0,0]";
  g.shapes = "[2,2],[2,2],[2,2],[2,2],[4]";
  g.dtypes = R"("float32","float32","float32","float32","float32")";
  g.storage = "0,1,2,3,3";
  g.row_ptr = "0,1,2,3,4,5";
  return g;
}

/// Two functions called one after the other: t = first(x), y = second(t).
GraphText ChainGraph(const std::string& first, const std::string& second, const std::string& flatten = "0") {
  GraphText g;
  g.nodes = Input("x") + "," + Op("a", first, "[0,0,0]", 1, flatten) + "," + Op("b", second, "[1,0,0]", 1, flatten);
  g.arg_nodes = "0";
  g.heads = "[2,0,0]";
  g.shapes = "[2,2],[2,2],[2,2]";
  g.dtypes = R"("float32","float32","float32")";
  g.storage = "0,1,2";
  g.row_ptr = "0,1,2,3";
  return g;
}

Module Kernels() { return Module::LoadFromFile(TREADLE_TEST_KERNELS); }

std::shared_ptr<const GraphModel> Build(const GraphText& text, const ParamList& params = {}) {
  return std::make_shared<GraphModel>(GraphSpec::FromJson(text.str()), Kernels(), std::vector<Device>{Cpu()}, params);
}

TEST(GraphSpec, RefusesInconsistentGraphs) {
  EXPECT_NO_THROW(GraphSpec::FromJson(AddGraph().str()));
  auto breaks = [](void (*edit)(GraphText*), const std::string& message) {
    GraphText text = AddGraph();
    edit(&text);
    EXPECT_THAT([&] { GraphSpec::FromJson(text.str(), "g.json"); },
                ThrowsMessage<ModelFormatError>(AllOf(HasSubstr("g.json"), HasSubstr(message))));
  };
  breaks([](GraphText* g) { g->nodes = Op("loop", "test_add", "[0,0,0],[1,0,0]", 2) + "," + g->nodes; },
         "doesn't come before it");
  breaks([](GraphText* g) { g->heads = "[5,0,0]"; }, "refers to node 5");
  breaks([](GraphText* g) { g->heads = "[0,1,0]"; }, "refers to output 1");
  breaks([](GraphText* g) { g->arg_nodes = "0"; }, "node 1 (w) is missing");
  breaks([](GraphText* g) { g->arg_nodes = "0,1,2"; }, "is an operator");
  breaks([](GraphText* g) { g->arg_nodes = "0,1,1"; }, "listed twice");
  breaks([](GraphText* g) { g->row_ptr = "0,1,2,3,4"; }, "node_row_ptr has 5");
  breaks([](GraphText* g) { g->row_ptr = "0,1,2,4,4,5"; }, "node_row_ptr[3] is 4");
  breaks([](GraphText* g) { g->shapes = "[2,2]"; }, "attrs.shape has 1 elements");
  breaks([](GraphText* g) { g->shapes = "[2,2],[2,-2],[2,2],[2,2],[4]"; }, "negative dimension");
  breaks([](GraphText* g) { g->shapes = "[2,2],[4000000000,4000000000,4],[2,2],[2,2],[4]"; }, "overflows");
  breaks([](GraphText* g) { g->dtypes = R"("float32","float33","float32","float32","float32")"; }, "float33");
  breaks([](GraphText* g) { g->storage = "0,1,2,3,-1"; }, "storage id -1");
  breaks([](GraphText* g) { g->storage = "0,1,2,3,4"; }, "must share storage");
  breaks([](GraphText* g) { g->shapes = "[2,2],[2,2],[2,2],[2,2],[5]"; }, "differ in size");
  breaks([](GraphText* g) { g->more_attrs = R"(,"device_index":["list_int",[1,1,1,4,1]])"; }, "two devices");
  breaks(
      [](GraphText* g) {
        g->more_attrs = R"(,"storage_offset":["list_int",[-1,-1,0,8,8]],"arena_bytes":["size_t",64])";
      },
      "don't fit");
  breaks(
      [](GraphText* g) {
        g->more_attrs = R"(,"storage_offset":["list_int",[0,-1,0,0,0]],"arena_bytes":["size_t",64])";
      },
      "can't lie in the arena");
  breaks([](GraphText* g) { g->nodes.replace(g->nodes.find("null"), 4, "what"); }, "unknown kind");
}

/// Once a null dereference: the storage of a parameter that is bound isn't made.
TEST(GraphContext, InputsMayShareTheStorageOfParameters) {
  GraphText text = AddGraph();
  text.storage = "0,0,2,3,3";
  GraphContext context(Build(text, {{"w", Floats({1, 2, 3, 4}, {2, 2})}}));
  context.SetInput("x", Floats({1, 1, 1, 1}, {2, 2}));
  context.Run();
  EXPECT_EQ(Values(context.GetOutput(0)), (std::vector<float>{4, 6, 8, 10}));
}

TEST(GraphSpec, AcceptsTheOriginalsVariants) {
  std::string text = AddGraph().str();
  auto replace_all = [&](const std::string& from, const std::string& to) {
    for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), to);
  };
  replace_all("[0,0,0]", "[0,0]");
  text.replace(text.find("\"attrs\":{\"func"), 7, "\"attr\"");
  EXPECT_EQ(GraphSpec::FromJson(text).nodes[2].func_name, "test_add");
}

TEST(GraphExecutor, RunsWithParametersInPlace) {
  NDArray w = Floats({10, 20, 30, 40}, {2, 2});
  GraphContext context(Build(AddGraph(), {{"w", w}}));
  EXPECT_EQ(context.GetInput(1).data_ptr(), w.data_ptr());
  context.SetInput("x", Floats({1, 2, 3, 4}, {2, 2}));
  context.Run();
  EXPECT_EQ(Values(context.GetOutput(0)), (std::vector<float>{22, 44, 66, 88}));
  EXPECT_EQ(Values(context.GetOutput(1)), (std::vector<float>{22, 44, 66, 88}));
  EXPECT_EQ(context.GetOutput(1).shape(), std::vector<int64_t>{4});
}

TEST(GraphExecutor, ArenaPlanGivesTheSameResult) {
  GraphText text = AddGraph();
  text.more_attrs = R"(,"storage_offset":["list_int",[-1,-1,0,64,64]],"arena_bytes":["size_t",128])";
  GraphContext context(Build(text, {{"w", Floats({1, 1, 1, 1}, {2, 2})}}));
  context.SetInput("x", Floats({1, 2, 3, 4}, {2, 2}));
  context.Run();
  EXPECT_EQ(Values(context.GetOutput(0)), (std::vector<float>{4, 6, 8, 10}));
  EXPECT_EQ(context.model().Memory().activations, 128);
}

TEST(GraphExecutor, ErrorsNameTheInput) {
  GraphContext context(Build(AddGraph(), {{"w", Floats({1, 1, 1, 1}, {2, 2})}}));
  EXPECT_THAT([&] { context.SetInput("y", Floats({1}, {1})); },
              ThrowsMessage<Error>("no input \"y\"; the inputs are: x"));
  EXPECT_THAT([&] { context.SetInput("x", Floats({1, 2}, {2})); },
              ThrowsMessage<ShapeError>("input \"x\": expected float32 (2, 2) but got float32 (2,)"));
  EXPECT_THAT([&] { context.SetInput("x", NDArray::Empty({2, 2}, DataType::Int(32))); },
              ThrowsMessage<DTypeError>("input \"x\": expected float32 (2, 2) but got int32 (2, 2)"));
}

TEST(GraphExecutor, MissingFunctionIsNamed) {
  GraphText text = ChainGraph("test_double", "no_such_kernel");
  EXPECT_THAT([&] { Build(text); }, ThrowsMessage<ModelFormatError>(HasSubstr("\"no_such_kernel\" of node 2 (b)")));
}

TEST(GraphExecutor, ParameterOfTheWrongShapeIsRefused) {
  EXPECT_THAT([] { Build(AddGraph(), {{"w", Floats({1}, {1})}}); },
              ThrowsMessage<ModelFormatError>(HasSubstr("parameter \"w\" is float32 (1,)")));
}

TEST(GraphExecutor, FailingNodeIsNamed) {
  GraphContext context(Build(ChainGraph("test_double", "test_fail")));
  EXPECT_THAT([&] { context.Run(); }, ThrowsMessage<RuntimeError>("node 2 (b): index 7 is out of bounds"));
}

TEST(GraphExecutor, SettingAParameterDoesNotTouchTheModel) {
  NDArray w = Floats({1, 1, 1, 1}, {2, 2});
  auto model = Build(AddGraph(), {{"w", w}});
  GraphContext first(model), second(model);
  first.SetInput("w", Floats({5, 5, 5, 5}, {2, 2}));
  first.Run();
  second.Run();
  EXPECT_EQ(Values(first.GetOutput(0)), (std::vector<float>{10, 10, 10, 10}));
  EXPECT_EQ(Values(second.GetOutput(0)), (std::vector<float>{2, 2, 2, 2}));
  EXPECT_EQ(Values(w), (std::vector<float>{1, 1, 1, 1}));
}

TEST(GraphExecutor, ZeroCopyInputsAndOutputs) {
  GraphText text = AddGraph();
  text.heads = "[4,0,0]";
  GraphContext context(Build(text, {{"w", Floats({1, 1, 1, 1}, {2, 2})}}));
  NDArray x = Floats({1, 2, 3, 4}, {2, 2}), y = NDArray::Empty({4}, kF32);
  context.SetInputZeroCopy(0, x);
  context.SetOutputZeroCopy(0, y);
  x.Data<float>()[0] = 7;
  context.Run();
  EXPECT_EQ(Values(y), (std::vector<float>{16, 6, 8, 10}));
  // A copy goes to the context's own memory again, not to the caller's.
  context.SetInput("x", Floats({0, 0, 0, 0}, {2, 2}));
  EXPECT_EQ(x.Data<float>()[0], 7);
  NDArray memory = NDArray::Empty({6}, kF32);
  context.SetInputZeroCopy(0, NDArray::View(memory.Data<float>() + 1, {2, 2}, kF32, Cpu(), nullptr));
  NDArray unaligned = NDArray::View(memory.Data<char>() + 2, {2, 2}, kF32, Cpu(), nullptr);
  EXPECT_THAT([&] { context.SetInputZeroCopy(0, unaligned); }, ThrowsMessage<Error>(HasSubstr("aligned to 4")));
}

TEST(GraphExecutor, OutputThatIsAnInputFollowsIt) {
  GraphText text;
  text.nodes = Input("x");
  text.arg_nodes = "0";
  text.heads = "[0,0,0]";
  text.shapes = "[2]";
  text.dtypes = "\"float32\"";
  text.storage = "0";
  text.row_ptr = "0,1";
  GraphContext context(Build(text));
  NDArray x = Floats({1, 2}, {2});
  context.SetInputZeroCopy(0, x);
  context.Run();
  EXPECT_EQ(context.GetOutput(0).data_ptr(), x.data_ptr());
  EXPECT_FALSE(context.BindOutput(0, NDArray::Empty({2}, kF32)));
  context.SetInput("x", Floats({3, 4}, {2}));
  EXPECT_EQ(Values(context.GetOutput(0)), (std::vector<float>{3, 4}));
  EXPECT_EQ(Values(x), (std::vector<float>{1, 2}));
}

TEST(GraphExecutor, FlattenedArgumentsHaveRankOne) {
  for (const char* flatten : {"0", "1"}) {
    GraphText text = ChainGraph("test_double", "test_rank", flatten);
    GraphContext context(Build(text));
    context.Run();
    EXPECT_EQ(Values(context.GetOutput(0))[0], flatten[0] == '1' ? 1.0f : 2.0f);
  }
}

TEST(GraphExecutor, ProfilesAndStopsAtTheFirstNan) {
  GraphContext context(Build(ChainGraph("test_nan", "test_double")));
  std::vector<OpTiming> timings = context.RunProfiled();
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0].name, "a");
  EXPECT_EQ(timings[0].shapes, "float32 (2, 2) -> float32 (2, 2)");
  EXPECT_NO_THROW(JsonValue::Parse(ChromeTrace(timings), "trace"));
  EXPECT_THAT([&] { context.RunProfiled(true); }, ThrowsMessage<VerifyError>(HasSubstr("node 1 (a) has a NaN")));
}

TEST(GraphExecutor, ContextsRunSideBySide) {
  auto model = Build(AddGraph(), {{"w", Floats({1, 1, 1, 1}, {2, 2})}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&model, t] {
      GraphContext context(model);
      context.SetThreads(2);
      auto v = static_cast<float>(t);
      context.SetInput("x", Floats({v, v, v, v}, {2, 2}));
      for (int i = 0; i < 200; ++i) {
        context.Run();
        ASSERT_EQ(Values(context.GetOutput(0))[3], 2 * v + 2);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

class ExecutorModuleTest : public ::testing::Test {
 protected:
  Module Create(bool debug = false) {
    Module factory =
        MakeGraphFactoryModule(AddGraph().str(), {{"w", Floats({1, 1, 1, 1}, {2, 2})}}, "default", Kernels());
    if (debug) return factory.GetFunction("debug_create")("default", Cpu()).As<Module>();
    return factory.GetFunction("default")(Cpu()).As<Module>();
  }
};

TEST_F(ExecutorModuleTest, HasTheOriginalsFunctions) {
  Module m = Create();
  m.GetFunction("set_input")("x", Floats({1, 2, 3, 4}, {2, 2}));
  m.GetFunction("run")();
  EXPECT_EQ(Values(m.GetFunction("get_output")(0).As<NDArray>()), (std::vector<float>{4, 6, 8, 10}));
  NDArray out = NDArray::Empty({4}, kF32);
  m.GetFunction("get_output")(1, out);
  EXPECT_EQ(Values(out), (std::vector<float>{4, 6, 8, 10}));
  EXPECT_THROW(m.GetFunction("get_output")(0, out), ShapeError);
  EXPECT_EQ(m.GetFunction("get_num_inputs")().As<int>(), 2);
  EXPECT_EQ(m.GetFunction("get_num_outputs")().As<int>(), 2);
  EXPECT_EQ(m.GetFunction("get_input_index")("w").As<int>(), 1);
  EXPECT_EQ(m.GetFunction("get_input_index")("v").As<int>(), -1);
  EXPECT_EQ(Values(m.GetFunction("get_input")("x").As<NDArray>())[3], 4);
  EXPECT_THROW(m.GetFunction("set_input")("nobody", out), Error);
  EXPECT_FALSE(m.GetFunction("no_such_function"));
  auto outputs = m.GetFunction("run_from_inputs")(1, 0, "x", Floats({0, 0, 0, 0}, {2, 2})).As<Array<NDArray>>();
  EXPECT_EQ(Values(outputs[0]), (std::vector<float>{2, 2, 2, 2}));
  EXPECT_EQ(m.GetFunction("benchmark")(3, 2).As<std::string>().size(), 2 * sizeof(double));
}

TEST_F(ExecutorModuleTest, LoadsAndSharesParameters) {
  Module first = Create(), second = Create();
  std::string blob = SaveParams({{"w", Floats({2, 2, 2, 2}, {2, 2})}, {"unknown", Floats({1}, {1})}});
  TreadleByteArray bytes{blob.data(), blob.size()};
  first.GetFunction("load_params")(&bytes);
  second.GetFunction("share_params")(first, &bytes);
  NDArray a = first.GetFunction("get_input")("w"), b = second.GetFunction("get_input")("w");
  EXPECT_EQ(a.data_ptr(), b.data_ptr());
  second.GetFunction("run")();
  EXPECT_EQ(Values(second.GetFunction("get_output")(0).As<NDArray>()), (std::vector<float>{4, 4, 4, 4}));
}

TEST_F(ExecutorModuleTest, DebugFunctions) {
  Module m = Create(true);
  m.GetFunction("set_input")("x", Floats({1, 2, 3, 4}, {2, 2}));
  m.GetFunction("run")();
  EXPECT_EQ(Values(m.GetFunction("get_node_output")("add", 0).As<NDArray>()), (std::vector<float>{2, 3, 4, 5}));
  NDArray sum = NDArray::Empty({2, 2}, kF32);
  m.GetFunction("debug_get_output")(2, sum);
  EXPECT_EQ(Values(sum), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_THAT(m.GetFunction("profile")().As<std::string>(), AllOf(HasSubstr("test_double"), HasSubstr("Total")));
  EXPECT_THAT(m.GetFunction("run_individual")(2, 1).As<std::string>(), HasSubstr("0,0,"));
  m.GetFunction("check_nan")();
}

TEST_F(ExecutorModuleTest, FactoryIsStoredAndLoaded) {
  Module factory =
      MakeGraphFactoryModule(AddGraph().str(), {{"w", Floats({1, 1, 1, 1}, {2, 2})}}, "default", Kernels());
  ByteWriter writer;
  SaveImports(factory, &writer);
  ByteReader reader(writer.bytes(), "t");
  Module loaded = LoadImports(&reader, Kernels());
  EXPECT_EQ(loaded.GetFunction("get_graph_json")().As<std::string>(), AddGraph().str());
  Module m = loaded.GetFunction("default")(Cpu());
  m.GetFunction("run")();
  EXPECT_EQ(Values(m.GetFunction("get_output")(0).As<NDArray>()), (std::vector<float>{2, 2, 2, 2}));
}

}  // namespace
}  // namespace treadle::runtime
