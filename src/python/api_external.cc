// SPDX-License-Identifier: Apache-2.0
// External code generators in Python: properties of operators, partitioning.
#include "external/partition.h"
#include "python/checked.h"
#include "treadle/external/codegen.h"
#include "treadle/relay/byoc.h"

namespace treadle::python {

using runtime::PackedFunc;
using runtime::Registry;

namespace {

constexpr char kTarget[] = "target.";

/// Sets a property of an operator. "target.<compiler>": `value` says of a call whether the code generator takes it, by
/// a bool, or by a text: the reason why not ("" for taking it).
void RegisterOpAttr(std::string op, std::string key, PackedFunc value) {
  if (key.rfind(kTarget, 0) != 0) {
    throw Error(StrCat("operators have no property '", key, "' that can be set; there is target.<code generator>"));
  }
  relay::RegisterExternalOp(key.substr(sizeof(kTarget) - 1), op,
                            [value](const relay::CallNode* call, std::string* reason) {
                              runtime::RetValue answer = value(GetRef<relay::Call>(call));
                              if (!answer.view().IsText()) return !answer.is_null() && answer.As<int64_t>() != 0;
                              *reason = answer.As<std::string>();
                              return reason->empty();
                            });
}

}  // namespace

void RegisterExternalApi() {
  RegisterChecked("ir.RegisterOpAttr", &RegisterOpAttr);
  RegisterChecked("external.ListCodegens", [] {
    Array<String> names;
    for (const std::string& name : external::ListCodegens()) names.push_back(name);
    return names;
  });
  RegisterChecked("external.Describe", &external::DescribeCodegen);
  // (module, report)
  RegisterChecked("external.Partition", [](IRModule module, Array<String> names) {
    std::vector<std::string> list;
    for (const String& name : names) list.push_back(name.str());
    external::PartitionReport report;
    IRModule result = external::Partition(module, list, nullptr, &report);
    return Array<ObjectRef>{result, String(report.text)};
  });
}

}  // namespace treadle::python
