// SPDX-License-Identifier: Apache-2.0
#include "treadle/external/familiar_codegen.h"
#include "treadle/base/error.h"
#include "treadle/external/c_source_module.h"
#include "treadle/ir/op.h"

namespace treadle::familiar::relay {

std::vector<int> GetShape(const Type& type) {
  const auto* tensor = type.defined() ? type.as<TensorTypeNode>() : nullptr;
  if (tensor == nullptr) throw DTypeError("GetShape: expected a tensor type");
  std::vector<int> shape;
  for (int64_t dim : StaticShape(tensor, "GetShape")) {
    if (dim > INT32_MAX) throw ShapeError(StrCat("GetShape: dimension ", dim, " doesn't fit into an int"));
    shape.push_back(static_cast<int>(dim));
  }
  return shape;
}

bool IsOp(const CallNode* call, const std::string& op_name) {
  const auto* op = call->op.as<OpNode>();
  return op != nullptr && op->name == op_name;
}

std::string GetExtSymbol(const Function& func) {
  auto symbol = func->GetAttr<String>(attr::kGlobalSymbol);
  if (!symbol) throw Error("GetExtSymbol: the function has no attribute global_symbol");
  return symbol->str();
}

void CodegenCBase::PrintIndents() { code_stream_ << std::string(static_cast<size_t>(indent_), ' '); }

namespace {

/// The variable that a declaration such as "float* buf_0 = (float*)malloc(40);" declares.
std::string DeclaredName(const std::string& declaration) {
  const size_t end = declaration.find_last_not_of(" \t", declaration.find('=') - 1);
  const size_t before = end == std::string::npos ? end : declaration.find_last_of(" \t*&", end);
  if (declaration.find('=') == std::string::npos || before == std::string::npos) {
    throw Error(StrCat("JitImpl: \"", declaration, "\" isn't the declaration of a buffer: type name = value"));
  }
  return declaration.substr(before + 1, end - before);
}

std::string Closed(const std::string& statement) {
  return statement.empty() || statement.back() == ';' || statement.back() == '}' ? statement : statement + ";";
}

}  // namespace

std::string CodegenCBase::JitImpl(const std::string& ext_func_id, const std::vector<std::string>& args,
                                  const std::vector<std::string>& buf_decl, const std::vector<std::string>& body,
                                  const std::vector<std::pair<std::string, int>>& out) {
  std::vector<std::string> outs, copies;
  for (size_t i = 0; i < out.size(); ++i) {
    outs.push_back(StrCat("out", i));
    copies.push_back(StrCat("memcpy(out", i, ", ", out[i].first, ", 4 * ", out[i].second, ");"));
  }
  WriteBody(ext_func_id, args, outs, buf_decl, body, copies);
  WriteWrappers(ext_func_id, args.size(), outs.size());
  return code_stream_.str();
}

std::string CodegenCBase::JitImpl(const std::string& ext_func_id, const std::vector<std::string>& args,
                                  const std::vector<std::string>& buf_decl, const std::vector<std::string>& body,
                                  const std::vector<std::string>& out) {
  WriteBody(ext_func_id, args, out, buf_decl, body, {});
  WriteWrappers(ext_func_id, args.size(), out.size());
  return code_stream_.str();
}

void CodegenCBase::WriteBody(const std::string& name, const std::vector<std::string>& args,
                             const std::vector<std::string>& outs, const std::vector<std::string>& buf_decl,
                             const std::vector<std::string>& body, const std::vector<std::string>& copies) {
  std::string params, buffers, missing, releases;
  for (const auto* list : {&args, &outs}) {
    for (const std::string& param : *list) params += (params.empty() ? "float* " : ", float* ") + param;
  }
  for (const std::string& declaration : buf_decl) {
    const std::string buffer = DeclaredName(declaration);
    buffers += "  " + Closed(declaration) + "\n";
    missing += (missing.empty() ? "" : " && ") + buffer;
    releases += "  free(" + buffer + ");\n";
  }
  code_stream_ << "#include <stdlib.h>\n#include <string.h>\n#include \"treadle/runtime/c_types.h\"\n\n"
               << "/* Set by the loader. */\n"
               << "extern \"C\" __attribute__((weak)) void (*__TreadleBackendSetLastError)(const char* message);\n"
               << "__attribute__((weak)) void (*__TreadleBackendSetLastError)(const char* message) = 0;\n\n"
               << "static inline int " << name << "_fail(const char* message) {\n"
               << "  if (__TreadleBackendSetLastError) __TreadleBackendSetLastError(message);\n  return -1;\n}\n\n"
               << "extern \"C\" int " << name << "_(" << params << ") {\n"
               << buffers << "  const int ok = " << (missing.empty() ? "1" : missing) << ";\n  if (ok) {\n";
  for (const auto* list : {&body, &copies}) {
    for (const std::string& statement : *list) code_stream_ << "    " << Closed(statement) << "\n";
  }
  code_stream_ << "  }\n" << releases << "  return ok ? 0 : -1;\n}\n\n";
}

void CodegenCBase::WriteWrappers(const std::string& name, size_t inputs, size_t outputs) {
  const size_t count = inputs + outputs;
  std::string params, addresses, tensors;
  for (size_t i = 0; i < count; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    params += StrCat(comma, "DLTensor* arg", i);
    addresses += StrCat(comma, "(float*)((char*)arg", i, "->data + arg", i, "->byte_offset)");
    tensors += StrCat(comma, "(DLTensor*)args[", i, "].v_handle");
  }
  code_stream_
      << "extern \"C\" int " << name << "_wrapper_(" << params << ") {\n  return " << name << "_(" << addresses
      << ");\n}\n\n"
      << "extern \"C\" TREADLE_API int32_t " << name
      << "(TreadleValue* args, int* type_codes, int num_args, TreadleValue* ret, int* ret_code, void* resource)"
      << " {\n  if (num_args != " << count << ") return " << name << "_fail(\"" << name << ": num_args should be "
      << count << "\");\n  if (" << name << "_wrapper_(" << tensors << ") == 0) return 0;\n  return " << name
      << "_fail(\"" << name << ": out of memory\");\n}\n";
}

}  // namespace treadle::familiar::relay
