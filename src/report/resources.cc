// SPDX-License-Identifier: Apache-2.0
#include "report/resources.h"

// TREADLE_PAGE: the folder of the page's own files; TREADLE_PAGE_LIBRARIES: that of the others (cmake/Report.cmake).
#define TREADLE_INCLUDE_FILE(name, path)                                                                  \
  __asm__(".section .rodata\n.global " #name "\n.hidden " #name "\n.global " #name "_end\n.hidden " #name \
          "_end\n" #name ":\n.incbin \"" path "\"\n" #name "_end:\n.byte 0\n.previous\n");                \
  extern "C" const char name[];                                                                           \
  extern "C" const char name##_end[];

TREADLE_INCLUDE_FILE(treadle_page_frame, TREADLE_PAGE "/page.html")
TREADLE_INCLUDE_FILE(treadle_page_style, TREADLE_PAGE "/page.css")
TREADLE_INCLUDE_FILE(treadle_page_program, TREADLE_PAGE "/page.js")
TREADLE_INCLUDE_FILE(treadle_page_charts, TREADLE_PAGE_LIBRARIES "/charts.js")
TREADLE_INCLUDE_FILE(treadle_page_layout, TREADLE_PAGE_LIBRARIES "/layout.js")

namespace treadle::report {

const Resources& PageResources() {
  static const Resources resources{{treadle_page_frame, treadle_page_frame_end},
                                   {treadle_page_style, treadle_page_style_end},
                                   {treadle_page_program, treadle_page_program_end},
                                   {treadle_page_charts, treadle_page_charts_end},
                                   {treadle_page_layout, treadle_page_layout_end}};
  return resources;
}

}  // namespace treadle::report
