// SPDX-License-Identifier: Apache-2.0
#include "ir/accuracy.h"

#include "treadle/base/error.h"
#include "treadle/base/suggest.h"
#include "treadle/ir/transform.h"

namespace treadle::transform {

Accuracy CurrentAccuracy() {
  const std::string level = PassContext::Current()->GetConfigString(kAccuracyOption, "default");
  if (level == "strict") return Accuracy::kStrict;
  if (level == "default") return Accuracy::kDefault;
  if (level == "fast") return Accuracy::kFast;
  throw Error(StrCat(kAccuracyOption, " is '", level, "'; expected strict, default or fast",
                     DidYouMean(level, {"strict", "default", "fast"})));
}

void RegisterAccuracyOption() {
  RegisterPassConfig(kAccuracyOption, "string",
                     "what may be lost for speed: strict (nothing), default, fast (1e-3 of a layer's range)");
}

}  // namespace treadle::transform
