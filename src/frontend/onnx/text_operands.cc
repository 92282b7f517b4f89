// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/text_operands.h"

#include <algorithm>
#include <map>

namespace treadle::onnx {

bool TextOperands::Allows(size_t input) const {
  return inputs.empty() || std::find(inputs.begin(), inputs.end(), input) != inputs.end();
}

const TextOperands* TextOperandsOf(const std::string& op) {
  static const std::map<std::string, TextOperands> table = {
      {"Identity", {{0}}},
      {"Reshape", {{0}}},
      {"Flatten", {{0}}},
      {"Squeeze", {{0}}},
      {"Unsqueeze", {{0}}},
      {"Transpose", {{0}}},
      {"Concat", {{}}},
      {"Split", {{0}}},
      {"Slice", {{0}}},
      {"Gather", {{0}}},
      {"GatherElements", {{0}}},
      {"GatherND", {{0}}},
      {"ScatterElements", {{0, 2}}},
      {"ScatterND", {{0, 2}}},
      {"Expand", {{0}}},
      {"Tile", {{0}}},
      {"Where", {{1, 2}}},
      {"Compress", {{0}}},
      {"ReverseSequence", {{0}}},
      {"SequenceConstruct", {{}}},
      {"SequenceInsert", {{0, 1}}},
      {"SequenceAt", {{0}}},
      {"SequenceErase", {{0}}},
      {"SequenceLength", {{0}, false}},
      {"SequenceMap", {{}, false, false}},
      {"SplitToSequence", {{0}}},
      {"ConcatFromSequence", {{0}}},
      {"Optional", {{0}}},
      {"OptionalGetElement", {{0}}},
      {"OptionalHasElement", {{0}, false}},
      {"Equal", {{0, 1}, false}},
      {"Shape", {{0}, false}},
      {"Size", {{0}, false}},
      {"Cast", {{0}, false}},
      {"CastLike", {{0, 1}, false, false}},
      {"If", {{}, false, false}},
      {"Loop", {{}, false, false}},
      {"Scan", {{}, false, false}},
      {"StringConcat", {{0, 1}, false, false}},
      {"StringNormalizer", {{0}, false, false}},
      {"StringSplit", {{0}, false, false}},
      {"RegexFullMatch", {{0}, false, false}},
      {"TfIdfVectorizer", {{0}, false, false}},
      {"com.microsoft.Tokenizer", {{0}, false, false}},
      {"ai.onnx.ml.LabelEncoder", {{0}, false, false}},
      {"ai.onnx.ml.CategoryMapper", {{0}, false, false}},
      {"ai.onnx.ml.OneHotEncoder", {{0}, false, false}},
      {"ai.onnx.ml.DictVectorizer", {{0}, false, false}},
      {"ai.onnx.ml.CastMap", {{0}, false, false}},
      {"ai.onnx.ml.ArrayFeatureExtractor", {{0}}},
  };
  auto it = table.find(op);
  return it == table.end() ? nullptr : &it->second;
}

bool MovesText(const NodeImport& n, const TextOperands& operands) {
  std::optional<bool> text;
  for (size_t i = 0; i < n.num_inputs(); ++i) {
    if (!n.Has(i) || !operands.Allows(i)) continue;
    if (operands.same && text && *text != n.IsText(i)) {
      n.Invalid(StrCat("input ", i, *text ? " isn't of strings, others are" : " is of strings, others aren't"));
    }
    text = n.IsText(i);
  }
  return operands.moves && text.value_or(false);
}

}  // namespace treadle::onnx
