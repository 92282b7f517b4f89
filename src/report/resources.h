// SPDX-License-Identifier: Apache-2.0
// The files of the page, which are part of the library.
#pragma once

#include <string_view>

namespace treadle::report {

struct Resources {
  std::string_view frame;    ///< page.html, with places for the others
  std::string_view style;    ///< page.css
  std::string_view program;  ///< page.js
  std::string_view charts;   ///< Vega, Vega-Lite and Vega-Embed; empty in builds without
  std::string_view layout;   ///< dagre; empty in builds without
};

const Resources& PageResources();

}  // namespace treadle::report
