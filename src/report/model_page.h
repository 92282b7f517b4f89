// SPDX-License-Identifier: Apache-2.0
// The page of one model: what to do next, time against the roofline, its graph, its memory, its calls.
#pragma once

#include <string>

#include "report/model_run.h"

namespace treadle::report {

/// The data of the page (page.h), as JSON text.
std::string ModelPage(const ModelRun& run, const Peaks& peaks);

}  // namespace treadle::report
