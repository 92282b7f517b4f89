// SPDX-License-Identifier: Apache-2.0
// The sections of a model's page, each from what is known of the run. A null value: there is nothing to show.
#pragma once

#include <vector>

#include "report/model_run.h"
#include "treadle/base/json.h"

namespace treadle::report {

Json AdviceSection(const ModelRun& run, const std::vector<Operation>& operations, const Peaks& peaks);
Json TimeSection(const std::vector<Operation>& operations);
Json RooflineSection(const std::vector<Operation>& operations, const Peaks& peaks);
Json MemorySection(const ModelRun& run);
Json GraphSection(const ModelRun& run, const std::vector<Operation>& operations);
Json CallsSection(const std::vector<Operation>& operations);
Json PrecisionSection(const ModelRun& run);
Json EnginesSection(const ModelRun& run);

/// Of all calls, in seconds.
double TotalSeconds(const std::vector<Operation>& operations);
/// "1.234 ms", of short times "0.00123 ms".
std::string TimeText(double seconds);
/// "1.5 MiB".
std::string BytesText(double bytes);

}  // namespace treadle::report
