// SPDX-License-Identifier: Apache-2.0
// The compile-time classes of code generators written for TVM 0.6 to 0.8, under their names: CodegenCBase with JitImpl,
// CSourceModuleCodegenBase, GetShape, IsOp, GetExtSymbol. Such code needs other include lines and the namespace
// treadle::familiar in place of tvm. New code uses codegen.h and region.h.
#pragma once

#include <cstdint>
#include <locale>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "treadle/external/familiar_runtime.h"
#include "treadle/ir/module.h"
#include "treadle/relay/expr.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::familiar::relay {

using namespace treadle::relay;  // NOLINT(google-build-using-namespace): the names below hide those that differ

using NodeRef = treadle::ObjectRef;
using Module = treadle::IRModule;
using ModuleNode = treadle::IRModuleNode;

/// The constant dimensions of a tensor type; throws ShapeError for symbolic ones, DTypeError for other types.
std::vector<int> GetShape(const Type& type);
/// Whether the call is of the operator of that name.
bool IsOp(const CallNode* call, const std::string& op_name);
/// The name of the function that a region's code must define; throws Error when there is none.
std::string GetExtSymbol(const Function& func);

/// Writes the functions around the body of a region.
class CodegenCBase {
 public:
  CodegenCBase() { code_stream_.imbue(std::locale::classic()); }
  virtual ~CodegenCBase() = default;

 protected:
  /// Three functions in C++: `ext_func_id`_ with arguments `args` and outputs, which has the buffers and the body;
  /// `ext_func_id`_wrapper_, which takes DLTensors; and `ext_func_id`, which the runtime calls. Buffers are freed; one
  /// that can't be had makes the call fail. What was written to code_stream_ comes first.
  /// `out`: values to copy to the outputs, as (buffer, number of float elements).
  std::string JitImpl(const std::string& ext_func_id, const std::vector<std::string>& args,
                      const std::vector<std::string>& buf_decl, const std::vector<std::string>& body,
                      const std::vector<std::pair<std::string, int>>& out);
  /// The same; the body writes to the outputs, which have these names.
  std::string JitImpl(const std::string& ext_func_id, const std::vector<std::string>& args,
                      const std::vector<std::string>& buf_decl, const std::vector<std::string>& body,
                      const std::vector<std::string>& out);

  void PrintIndents();
  void EnterScope() { indent_ += 2; }
  void ExitScope() { indent_ -= 2; }

  std::ostringstream code_stream_;

 private:
  void WriteBody(const std::string& name, const std::vector<std::string>& args, const std::vector<std::string>& outs,
                 const std::vector<std::string>& buf_decl, const std::vector<std::string>& body,
                 const std::vector<std::string>& copies);
  void WriteWrappers(const std::string& name, size_t inputs, size_t outputs);

  int indent_ = 0;
};

/// Makes modules of C source from functions or modules of the graph IR.
class CSourceModuleCodegenBase {
 public:
  virtual ~CSourceModuleCodegenBase() = default;
  virtual runtime::Module CreateCSourceModule(const NodeRef& ref) = 0;
};

}  // namespace treadle::familiar::relay
