// SPDX-License-Identifier: Apache-2.0
// The article's code generator for ExampleJSON and its run-time module; other include lines and namespaces only. What
// the article leaves to the reader (the visitor's functions, NodeEntry, the operators) is written out.
#include <treadle/external/familiar_codegen.h>
#include <treadle/external/familiar_runtime.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace treadle::familiar {
namespace relay {
namespace contrib {

class ExampleJsonCodeGen : public ExprVisitor {
 public:
  void VisitExpr_(const VarNode* node) {
    ids_[node] = next_++;
    code += "  input " + std::to_string(ids_[node]);
    for (int dim : GetShape(node->checked_type())) code += " " + std::to_string(dim);
    code += "\n";
  }

  void VisitExpr_(const CallNode* call) final {
    for (const auto& arg : call->args) VisitExpr(arg);
    ids_[call] = next_++;
    std::string op = IsOp(call, "add") ? "add" : IsOp(call, "subtract") ? "sub" : IsOp(call, "multiply") ? "mul" : "";
    if (op.empty()) LOG(FATAL) << "Unrecognized op";
    code += "  " + op + " " + std::to_string(ids_[call]) + " inputs:";
    for (const auto& arg : call->args) code += " " + std::to_string(ids_.at(arg.get()));
    code += " shape:";
    for (int dim : GetShape(call->checked_type())) code += " " + std::to_string(dim);
    code += "\n";
  }

  std::string gen(const NodeRef& ref) {
    this->code = "";
    if (ref->IsInstance<FunctionNode>()) {
      this->visit(Downcast<Function>(ref));
    } else if (ref->IsInstance<relay::ModuleNode>()) {
      relay::Module mod = Downcast<relay::Module>(ref);
      for (const auto& it : mod->functions) {
        this->visit(Downcast<Function>(it.second));
      }
    } else {
      LOG(FATAL) << "The input ref is expected to be a Relay function or module";
    }
    return this->code;
  }

 private:
  void visit(const Function& func) {
    code += GetExtSymbol(func) + "\n";
    for (const auto& param : func->params) VisitExpr(param);
    VisitExpr(func->body);
  }

  std::string code;
  std::map<const Object*, int> ids_;
  int next_ = 0;
};

runtime::Module ExampleJsonCompiler(const NodeRef& ref) {
  ExampleJsonCodeGen codegen;
  std::string code = codegen.gen(ref);
  const auto* pf = runtime::Registry::Get("module.examplejson_module_create");
  ICHECK(pf != nullptr) << "Cannot find ExampleJson module to create the external runtime module";
  return (*pf)(code);
}
TVM_REGISTER_GLOBAL("relay.ext.examplejsoncompiler").set_body_typed(ExampleJsonCompiler);

}  // namespace contrib
}  // namespace relay

namespace runtime {

struct NodeEntry {
  int id;
  int output;
  std::vector<int> inputs;
};

template <typename F>
void Elementwise(TVMValue* values, int* type_codes, int nargs, F f) {
  TVMArgs args(values, type_codes, nargs);
  DLTensor* a = args[0];
  DLTensor* b = args[1];
  DLTensor* out = args[2];
  int64_t size = 1;
  for (int i = 0; i < out->ndim; ++i) size *= out->shape[i];
  for (int64_t i = 0; i < size; ++i) {
    static_cast<float*>(out->data)[i] = f(static_cast<float*>(a->data)[i], static_cast<float*>(b->data)[i]);
  }
}
void Add(TVMValue* values, int* type_codes, int nargs) {
  Elementwise(values, type_codes, nargs, [](float a, float b) { return a + b; });
}
void Sub(TVMValue* values, int* type_codes, int nargs) {
  Elementwise(values, type_codes, nargs, [](float a, float b) { return a - b; });
}
void Mul(TVMValue* values, int* type_codes, int nargs) {
  Elementwise(values, type_codes, nargs, [](float a, float b) { return a * b; });
}

class ExampleJsonModule : public ModuleNode {
 public:
  explicit ExampleJsonModule(std::string graph_json) {
    this->graph_json_ = graph_json;
    ParseJson(this->graph_json_);
  }

  PackedFunc GetFunction(const std::string& name, const ObjectPtr<Object>& sptr_to_self) final {
    if (this->graph_.find(name) != this->graph_.end()) {
      this->curr_subgraph_ = name;
      return PackedFunc([sptr_to_self, this](TVMArgs args, TVMRetValue* rv) {
        // Copy input tensors to corresponding data entries.
        for (auto i = 0; i < args.size(); ++i) {
          ICHECK(args[i].type_code() == kNDArrayContainer || args[i].type_code() == kArrayHandle)
              << "Expect NDArray or DLTensor as inputs\n";
          if (args[i].type_code() == kArrayHandle) {
            DLTensor* arg = args[i];
            this->data_entry_[i].CopyFrom(arg);
          } else {
            NDArray arg = args[i];
            this->data_entry_[i].CopyFrom(arg);
          }
        }

        // Execute the subgraph.
        for (const auto& it : this->graph_[this->curr_subgraph_]) {
          this->Run(it.id, it.inputs, it.output);
        }
        ICHECK_GT(graph_.count(this->curr_subgraph_), 0U);

        // Copy the output from a data entry back to TVM runtime argument.
        auto out_idx = graph_[this->curr_subgraph_].back().output;
        if (args[args.size() - 1].type_code() == kArrayHandle) {
          DLTensor* arg = args[args.size() - 1];
          this->data_entry_[out_idx].CopyTo(arg);
        } else {
          NDArray arg = args[args.size() - 1];
          this->data_entry_[out_idx].CopyTo(arg);
        }
        *rv = data_entry_.back();
      });
    } else {
      LOG(FATAL) << "Unknown subgraph: " << name << "\n";
      return PackedFunc();
    }
  }

  const char* type_key() const { return "examplejson"; }

  void SaveToBinary(dmlc::Stream* stream) final { stream->Write(this->graph_json_); }

  static Module LoadFromBinary(void* strm) {
    dmlc::Stream* stream = static_cast<dmlc::Stream*>(strm);
    std::string graph_json;
    stream->Read(&graph_json);
    auto n = treadle::familiar::runtime::make_object<ExampleJsonModule>(graph_json);
    return Module(n);
  }

  static Module Create(const std::string& path) {
    std::ifstream filep;
    filep.open(path, std::ios::in);
    std::string graph_json;
    std::string line;
    while (std::getline(filep, line)) {
      graph_json += line;
      graph_json += "\n";
    }
    filep.close();
    auto n = treadle::familiar::runtime::make_object<ExampleJsonModule>(graph_json);
    return Module(n);
  }

  std::string GetSource(const std::string& format = "") { return graph_json_; }

  void Run(int id, const std::vector<int>& inputs, int output) {
    // Make a list data entry indexs.
    std::vector<int> args(inputs.begin(), inputs.end());
    args.push_back(output);

    // Initialize data holders.
    std::vector<TVMValue> values(args.size());
    std::vector<int> type_codes(args.size());

    // Initialize a TVM arg setter with TVMValue and its type code.
    TVMArgsSetter setter(values.data(), type_codes.data());

    // Set each argument to its corresponding data entry.
    if (op_id_[id] == "add" || op_id_[id] == "sub" || op_id_[id] == "mul") {
      for (size_t i = 0; i < args.size(); i++) {
        setter(i, data_entry_[args[i]]);
      }
    }

    // Invoke the corresponding operator function.
    if (op_id_[id] == "add") {
      Add(values.data(), type_codes.data(), args.size());
    } else if (op_id_[id] == "sub") {
      Sub(values.data(), type_codes.data(), args.size());
    } else if (op_id_[id] == "mul") {
      Mul(values.data(), type_codes.data(), args.size());
    } else {
      LOG(FATAL) << "Unknown op: " << op_id_[id] << "\n";
    }
  }

  void ParseJson(const std::string& json) {
    std::string line;
    std::string curr_subgraph;
    std::stringstream ss(json);

    while (std::getline(ss, line, '\n')) {
      std::stringstream ss2(line);
      std::string token;
      int id = 0;

      ss2 >> token;
      if (token.find("subgraph_") != std::string::npos) {
        curr_subgraph = token;
        continue;
      }

      ss2 >> id;
      if (op_id_.size() <= static_cast<size_t>(id)) {
        op_id_.resize(id + 1);
        data_entry_.resize(id + 1);
      }

      int64_t total_elements = 1;
      std::vector<int64_t> shape;
      if (token == "input") {
        int64_t size = 0;
        while (ss2 >> size) {
          total_elements *= size;
          shape.push_back(size);
        }
      } else {
        op_id_[id] = token;
        bool shape_data = false;
        NodeEntry entry;
        while (ss2 >> token) {
          if (token == "shape:") {
            shape_data = true;
          } else if (shape_data) {
            total_elements *= std::stoll(token);
            shape.push_back(std::stoll(token));
          } else if (token != "inputs:") {
            entry.inputs.push_back(std::stoi(token));
          }
        }
        entry.id = id;
        entry.output = id;
        graph_[curr_subgraph].push_back(entry);
      }
      DLDevice dev;
      dev.device_type = static_cast<DLDeviceType>(1);
      dev.device_id = 0;
      data_entry_[id] = NDArray::Empty(shape, DLDataType{kDLFloat, 32, 1}, dev);
    }
  }

 private:
  std::string graph_json_;
  std::string curr_subgraph_;
  std::map<std::string, std::vector<NodeEntry>> graph_;
  std::vector<NDArray> data_entry_;
  std::vector<std::string> op_id_;
};

TVM_REGISTER_GLOBAL("module.examplejson_module_create").set_body_typed([](std::string code) {
  auto n = make_object<ExampleJsonModule>(code);
  return runtime::Module(n);
});

TVM_REGISTER_GLOBAL("module.loadbinary_examplejson").set_body_typed(ExampleJsonModule::LoadFromBinary);

TVM_REGISTER_GLOBAL("module.loadfile_examplejson").set_body([](TVMArgs args, TVMRetValue* rv) {
  *rv = ExampleJsonModule::Create(args[0]);
});

}  // namespace runtime
}  // namespace treadle::familiar
