// SPDX-License-Identifier: Apache-2.0
// The search for algorithms and layouts on graphs whose times are known.
#include "tune/graph_search.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace treadle::tune {
namespace {

using schedule::Alternative;
using schedule::GraphChoice;

/// Two problems. Of "a", winograd is faster; of "b", small blocks are, but only after "a" is computed by winograd.
class Graph {
 public:
  GraphSearch::Hooks Hooks() {
    GraphSearch::Hooks hooks;
    hooks.build = [this](const std::string& lines) { return Build(lines); };
    hooks.race = [](const std::string& a, const std::string& b) {
      Measured m;
      m.result.ratio = TimeOf(b) / TimeOf(a);
      m.state = m.result.ratio < 0.99 ? "raced" : "rejected";
      m.pairs = 10;
      return m;
    };
    hooks.confirm = [](const std::string& a, const std::string& b) {
      Confirmation c;
      c.result.ratio = TimeOf(b) / TimeOf(a);
      c.accepted = true;
      return c;
    };
    hooks.time_is_up = [this] { return builds_ >= most_builds; };
    hooks.tried = [this](const std::string&, const Alternative& a) { return a.kernel == known; };
    hooks.note = [this](const GraphStep& step) { noted.push_back(step.problem + step.to.kernel); };
    return hooks;
  }
  static std::string Kernel(const std::string& lines, const std::string& problem, const std::string& otherwise) {
    const size_t at = lines.rfind("\"problem\":\"" + problem + "\"");
    if (at == std::string::npos) return otherwise;
    const size_t begin = lines.find("\"kernel\":\"", at) + 10;
    return lines.substr(begin, lines.find('"', begin) - begin);
  }
  GraphBuild Build(const std::string& lines) {
    ++builds_;
    const std::string a = Kernel(lines, "a", "direct"), b = Kernel(lines, "b", "blocks16");
    if (b == "broken") throw Error("can't be compiled");
    GraphBuild build;
    build.folder = std::make_shared<const runtime::TemporaryDirectory>();
    folders.push_back(build.folder);
    build.path = a + "," + b;
    build.hash = std::hash<std::string>()(b == "same" ? a + ",blocks16" : build.path);
    auto add = [&](const char* problem, const std::string& chosen, std::vector<std::string> all) {
      GraphChoice choice{"nn.conv2d", StrCat("\"", problem, "\""), {chosen, "null", 100}, {}};
      for (const std::string& name : all) {
        if (name != chosen) choice.others.push_back({name, "null", name == "slow" ? 1000.0 : 120.0});
      }
      build.choices.push_back(choice);
    };
    add("a", a, {"direct", "winograd", "slow"});
    add("b", b, {"blocks16", "blocks8", "broken", "same"});
    return build;
  }
  static double TimeOf(const std::string& path) {
    const bool winograd = path.rfind("winograd", 0) == 0, small = path.find("blocks8") != std::string::npos;
    return (winograd ? 0.8 : 1.0) * (small ? (winograd ? 0.9 : 1.1) : 1.0);
  }
  int most_builds = 100;
  std::string known;
  std::vector<std::string> noted;
  std::vector<std::weak_ptr<const runtime::TemporaryDirectory>> folders;  ///< of all that were built

 private:
  int builds_ = 0;
};

TEST(GraphSearchTest, ChoicesAreMadeTogether) {
  Graph graph;
  GraphSearch search(graph.Hooks());
  search.Run("", graph.Build(""));
  EXPECT_EQ(search.best().path, "winograd,blocks8");
  EXPECT_NEAR(search.ratio(), 0.72, 1e-9);
  EXPECT_EQ(search.won().size(), 2);
  // Nothing twice, what loses a race isn't tried again, and what costs rule out isn't tried at all.
  std::vector<std::string> once = graph.noted;
  std::sort(once.begin(), once.end());
  EXPECT_EQ(std::unique(once.begin(), once.end()), once.end());
  EXPECT_EQ(std::count(once.begin(), once.end(), "\"a\"slow"), 0);
  EXPECT_EQ(std::count(once.begin(), once.end(), "\"a\"direct"), 0);
}

/// Each may be as large as the model.
TEST(GraphSearchTest, LibrariesThatLostAreRemoved) {
  Graph graph;
  GraphSearch::Hooks hooks = graph.Hooks();
  size_t most = 0;
  hooks.note = [&](const GraphStep&) {
    const auto kept = [](const auto& folder) { return !folder.expired(); };
    most = std::max<size_t>(most, static_cast<size_t>(std::count_if(graph.folders.begin(), graph.folders.end(), kept)));
  };
  GraphSearch search(hooks);
  search.Run("", graph.Build(""));
  EXPECT_GT(graph.folders.size(), 3);
  EXPECT_EQ(most, 2);  // the first and the best
}

TEST(GraphSearchTest, WhatIsKnownIsntMeasuredAgain) {
  Graph graph;
  graph.known = "winograd";
  GraphSearch search(graph.Hooks());
  search.Run("", graph.Build(""));
  EXPECT_EQ(search.best().path, "direct,blocks16");
}

TEST(GraphSearchTest, ItEndsWithTheTime) {
  Graph graph;
  graph.most_builds = 1;
  GraphSearch search(graph.Hooks());
  search.Run("", graph.Build(""));
  EXPECT_TRUE(graph.noted.empty());
}

TEST(GraphSearchTest, DearProblemsAndNearCostsComeFirst) {
  EXPECT_GT(PromiseOf({"x", "null", 1000}, {"y", "null", 1100}), PromiseOf({"x", "null", 100}, {"y", "null", 110}));
  EXPECT_GT(PromiseOf({"x", "null", 100}, {"y", "null", 110}), PromiseOf({"x", "null", 100}, {"y", "null", 180}));
  EXPECT_EQ(PromiseOf({"x", "null", 100}, {"y", "null", 200}), 0);
  EXPECT_GT(PromiseOf({"x", "null", -1}, {"y", "null", -1}), 0);
}

}  // namespace
}  // namespace treadle::tune
