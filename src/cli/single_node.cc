// SPDX-License-Identifier: Apache-2.0
#include "cli/single_node.h"

#include "cli/session.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

// Arguments: model, inputs.npz, value, model to write, inputs to write, results to write. Prints what the node is.
constexpr const char* kScript = R"py(
import os, sys
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy as np, onnx, onnxruntime
from onnx import helper
path, inputs_file, value, model_file, node_inputs, node_outputs = sys.argv[1:7]
model = onnx.load(path)
graph = model.graph
node = next(n for n in graph.node if value in n.output)
def outer_names(node):
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for body in ([attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs):
            own = {v.name for v in body.input} | {v.name for v in body.initializer}
            own |= {name for inner in body.node for name in inner.output}
            names += [name for inner in body.node for name in outer_names(inner) if name not in own]
            names += [v.name for v in body.output if v.name not in own]
    return list(dict.fromkeys(names))
weights = {w.name: w for w in graph.initializer}
given = dict(np.load(inputs_file))
wanted = [name for name in outer_names(node) if name not in weights and name not in given]
session_of = lambda m: onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
values = dict(given)
if wanted:
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    values.update(zip(wanted, session_of(whole).run(wanted, given)))
feed = {name: values[name] for name in outer_names(node) if name not in weights}
infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for name, v in feed.items()]
alone = onnx.ModelProto()
alone.CopyFrom(model)
alone.graph.Clear()
alone.graph.name = "node"
alone.graph.node.append(node)
alone.graph.input.extend(infos)
alone.graph.initializer.extend(weights[name] for name in outer_names(node) if name in weights)
alone.graph.output.append(onnx.ValueInfoProto(name=value))
result = session_of(alone).run([value], feed)[0]
del alone.graph.output[:]
alone.graph.output.append(helper.make_tensor_value_info(value, helper.np_dtype_to_tensor_dtype(result.dtype), result.shape))
onnx.save(alone, model_file)
np.savez(node_inputs, **feed)
np.savez(node_outputs, **{value: result})
print(f"{node.op_type} '{node.name}'" if node.name else node.op_type)
)py";

}  // namespace

SingleNode ExtractNode(const std::string& model, const NamedTensors& inputs, const std::string& value,
                       const std::string& folder) {
  SingleNode node{folder + "/node.onnx", folder + "/inputs.npz", folder + "/expected.npz", ""};
  const runtime::TemporaryDirectory own;
  WriteTensors(own.Path("inputs.npz"), inputs);
  const int status = RunPython(kScript, {model, own.Path("inputs.npz"), value, node.model, node.inputs, node.expected},
                               own.Path("text"));
  if (status != 0) throw RuntimeError(StrCat("the node that computes '", value, "' can't be taken out of ", model));
  node.text = ReadWholeFile(own.Path("text"));
  while (node.text.ends_with('\n')) node.text.pop_back();
  return node;
}

}  // namespace treadle::cli
