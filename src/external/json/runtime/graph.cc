// SPDX-License-Identifier: Apache-2.0
#include "external/json/runtime/graph.h"

#include <charconv>
#include <sstream>

#include "treadle/base/error.h"

namespace treadle::external {
namespace {

class Parser {
 public:
  std::map<std::string, JsonGraph> Parse(const std::string& text) {
    std::istringstream lines(text);
    std::string line;
    while (std::getline(lines, line)) {
      ++line_;
      words_ = SplitWords(line);
      if (!words_.empty()) ParseLine();
    }
    FinishGraph();
    if (graphs_.empty()) throw ModelFormatError("ExampleJSON: no graph in the text");
    return std::move(graphs_);
  }

 private:
  [[noreturn]] void Fail(const std::string& problem) const {
    throw ModelFormatError(StrCat("ExampleJSON, line ", line_, ": ", problem));
  }

  template <typename T>
  T Number(const std::string& word) const {
    T value{};
    auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || end != word.data() + word.size())
      Fail(StrCat("'", word, "' isn't a number of its type"));
    return value;
  }

  size_t Reference(const std::string& word) const {
    auto it = position_.find(Number<int64_t>(word));
    if (it == position_.end()) Fail(StrCat("node ", word, " isn't there yet"));
    return it->second;
  }

  void ParseLine() {
    if (words_.size() == 1) return StartGraph();
    if (graph_ == nullptr) Fail("a node before the name of a graph");
    if (words_[0] == "output") return ParseOutput();
    if (has_output_) Fail("a node after the outputs");
    static const std::map<std::string, JsonNode::Op> ops = {{"input", JsonNode::kInput},
                                                            {"const", JsonNode::kConst},
                                                            {"add", JsonNode::kAdd},
                                                            {"sub", JsonNode::kSub},
                                                            {"mul", JsonNode::kMul}};
    auto op = ops.find(words_[0]);
    if (op == ops.end()) Fail(StrCat("unknown operator '", words_[0], "'; there are add, sub and mul"));
    JsonNode node;
    node.op = op->second;
    std::vector<std::string> values = ParseFields(&node);
    if (node.dtype != DataType::Float(32) && node.dtype != DataType::Float(64) && node.dtype != DataType::Int(8) &&
        node.dtype != DataType::Int(32) && node.dtype != DataType::Int(64)) {
      Fail(StrCat("elements can't be of type ", node.dtype));
    }
    try {
      runtime::TensorBytes(node.shape, node.dtype);  // refuses what is negative or too large
    } catch (const Error& error) {
      Fail(error.what());
    }
    if (node.op == JsonNode::kConst) node.data = ReadValues(node, values);
    if (node.op != JsonNode::kConst && !values.empty()) Fail("only constants have values");
    if (node.op != JsonNode::kInput && node.op != JsonNode::kConst) CheckOperands(node);
    if (node.op == JsonNode::kInput) graph_->inputs.push_back(graph_->nodes.size());
    if (!position_.emplace(Number<int64_t>(words_[1]), graph_->nodes.size()).second) {
      Fail(StrCat("node ", words_[1], " is there already"));
    }
    graph_->nodes.push_back(std::move(node));
  }

  void StartGraph() {
    FinishGraph();
    auto [it, inserted] = graphs_.emplace(words_[0], JsonGraph());
    if (!inserted) Fail(StrCat("graph ", words_[0], " is there already"));
    graph_ = &it->second;
    position_.clear();
    has_output_ = false;
  }

  void FinishGraph() {
    if (graph_ == nullptr) return;
    if (graph_->nodes.empty()) Fail("a graph without nodes");
    if (!has_output_) graph_->outputs = {graph_->nodes.size() - 1};
    graph_ = nullptr;
  }

  void ParseOutput() {
    if (has_output_) Fail("outputs are given twice");
    for (size_t i = 1; i < words_.size(); ++i) graph_->outputs.push_back(Reference(words_[i]));
    has_output_ = true;
  }

  /// Reads what follows the id; returns the words after "values:".
  std::vector<std::string> ParseFields(JsonNode* node) {
    std::vector<std::string> values;
    enum { kNothing, kInputs, kShape, kType, kValues } field = node->op == JsonNode::kInput ? kShape : kNothing;
    for (size_t i = 2; i < words_.size(); ++i) {
      const std::string& word = words_[i];
      if (word == "inputs:")
        field = kInputs;
      else if (word == "shape:")
        field = kShape;
      else if (word == "dtype:")
        field = kType;
      else if (word == "values:")
        field = kValues;
      else if (field == kInputs)
        node->inputs.push_back(Reference(word));
      else if (field == kShape)
        node->shape.push_back(Number<int64_t>(word));
      else if (field == kType)
        node->dtype = ReadType(word);
      else if (field == kValues)
        values.push_back(word);
      else
        Fail(StrCat("'", word, "' where inputs: or shape: is expected"));
    }
    return values;
  }

  DataType ReadType(const std::string& word) const {
    try {
      return DataType::FromString(word);
    } catch (const Error& error) {
      Fail(error.what());
    }
  }

  template <typename T>
  runtime::NDArray ReadAs(const JsonNode& node, const std::vector<std::string>& words) const {
    std::vector<T> values;
    for (const std::string& word : words) values.push_back(Number<T>(word));
    return runtime::NDArray::FromVector(values, node.shape, node.dtype);
  }

  runtime::NDArray ReadValues(const JsonNode& node, const std::vector<std::string>& words) const {
    int64_t count = runtime::TensorBytes(node.shape, node.dtype) / node.dtype.bytes();
    if (count != static_cast<int64_t>(words.size())) Fail(StrCat(words.size(), " values for ", count, " elements"));
    if (node.dtype == DataType::Float(32)) return ReadAs<float>(node, words);
    if (node.dtype == DataType::Float(64)) return ReadAs<double>(node, words);
    if (node.dtype == DataType::Int(32)) return ReadAs<int32_t>(node, words);
    if (node.dtype == DataType::Int(64)) return ReadAs<int64_t>(node, words);
    std::vector<int8_t> values;
    for (const std::string& word : words) {
      int value = Number<int>(word);
      if (value < -128 || value > 127) Fail(StrCat(value, " doesn't fit into int8"));
      values.push_back(static_cast<int8_t>(value));
    }
    return runtime::NDArray::FromVector(values, node.shape, node.dtype);
  }

  void CheckOperands(const JsonNode& node) const {
    if (node.inputs.size() != 2) Fail(StrCat(words_[0], " takes 2 inputs, not ", node.inputs.size()));
    std::vector<int64_t> shape;
    for (size_t input : node.inputs) {
      const JsonNode& operand = graph_->nodes[input];
      if (operand.dtype != node.dtype)
        Fail(StrCat("an input of type ", operand.dtype, " for a result of ", node.dtype));
      std::vector<int64_t> own = operand.shape;
      if (own.size() < shape.size()) own.insert(own.begin(), shape.size() - own.size(), 1);
      if (shape.size() < own.size()) shape.insert(shape.begin(), own.size() - shape.size(), 1);
      for (size_t d = 0; d < own.size(); ++d) {
        if (own[d] != shape[d] && own[d] != 1 && shape[d] != 1) Fail("the inputs can't be broadcast to each other");
        if (shape[d] == 1) shape[d] = own[d];
      }
    }
    if (shape != node.shape) {
      Fail(StrCat("the result is of shape ", runtime::ShapeString(shape), ", not ", runtime::ShapeString(node.shape)));
    }
  }

  std::map<std::string, JsonGraph> graphs_;
  JsonGraph* graph_ = nullptr;
  std::map<int64_t, size_t> position_;  ///< by id
  bool has_output_ = false;
  std::vector<std::string> words_;
  int line_ = 0;
};

}  // namespace

std::map<std::string, JsonGraph> ParseExampleJson(const std::string& text) { return Parser().Parse(text); }

}  // namespace treadle::external
