// SPDX-License-Identifier: Apache-2.0
// The interpreter of graph IR.
#include "python/checked.h"
#include "treadle/driver/interpreter.h"

namespace treadle::python {
namespace {

using driver::Interpreter;
using driver::Value;

class InterpreterNode : public Object {
 public:
  std::unique_ptr<Interpreter> interpreter;
  TREADLE_NODE(InterpreterNode, Object, "relay.Interpreter")
};
class InterpreterRef : public ObjectRef {
 public:
  TREADLE_BASE_REF(InterpreterRef, ObjectRef, InterpreterNode);
};

}  // namespace

void RegisterInterpreterApi() {
  using runtime::Registry;
  RegisterChecked("relay.interpreter.Create", [](IRModule module, int64_t max_steps, int64_t max_depth) {
    driver::InterpreterLimits limits;
    if (max_steps > 0) limits.max_steps = max_steps;
    if (max_depth > 0) limits.max_depth = max_depth;
    auto node = MakeObject<InterpreterNode>();
    node->interpreter = std::make_unique<Interpreter>(module, limits);
    return InterpreterRef(ObjectPtr<Object>(node));
  });
  RegisterChecked("relay.interpreter.Evaluate",
                  [](InterpreterRef self, RelayExpr expr) { return self->interpreter->Evaluate(expr); });
  RegisterChecked("relay.interpreter.Invoke", [](InterpreterRef self, Value function, Array<Value> args) {
    return self->interpreter->Invoke(function, std::vector<Value>(args.begin(), args.end()));
  });
  RegisterChecked("relay.interpreter.Run", [](InterpreterRef self, std::string name, Array<Value> args) {
    return self->interpreter->Run(name, std::vector<Value>(args.begin(), args.end()));
  });
  RegisterChecked("relay.interpreter.Tuple", [](Array<Value> fields) { return driver::TupleValue(fields); });
  RegisterChecked("relay.interpreter.Constructor", [](Constructor constructor, Array<Value> fields) {
    return driver::ConstructorValue(constructor, fields);
  });
  RegisterChecked("relay.interpreter.Ref", [](Value value) { return driver::RefValue(value); });
}

}  // namespace treadle::python
