# SPDX-License-Identifier: Apache-2.0
# The libraries of report pages, out of pinned Python packages (requirements-dev.txt): where those aren't installed, the
# build works all the same, and reports are refused.
set(TREADLE_PAGE_LIBRARIES ${CMAKE_BINARY_DIR}/generated/report)
set(page_python python3)
if(Python_EXECUTABLE)
  set(page_python ${Python_EXECUTABLE})
elseif(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(page_python ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
add_custom_command(OUTPUT ${TREADLE_PAGE_LIBRARIES}/charts.js ${TREADLE_PAGE_LIBRARIES}/layout.js
  COMMAND ${page_python} ${CMAKE_SOURCE_DIR}/cmake/page_libraries.py ${TREADLE_PAGE_LIBRARIES}
  DEPENDS ${CMAKE_SOURCE_DIR}/cmake/page_libraries.py ${CMAKE_SOURCE_DIR}/requirements-dev.txt
  COMMENT "Collecting the libraries of report pages" VERBATIM)
add_custom_target(treadle_page_libraries
  DEPENDS ${TREADLE_PAGE_LIBRARIES}/charts.js ${TREADLE_PAGE_LIBRARIES}/layout.js)

set(page ${CMAKE_SOURCE_DIR}/src/report/page)
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/report/resources.cc PROPERTIES
  COMPILE_DEFINITIONS "TREADLE_PAGE=\"${page}\";TREADLE_PAGE_LIBRARIES=\"${TREADLE_PAGE_LIBRARIES}\""
  OBJECT_DEPENDS "${page}/page.html;${page}/page.css;${page}/page.js;\
${TREADLE_PAGE_LIBRARIES}/charts.js;${TREADLE_PAGE_LIBRARIES}/layout.js")
add_dependencies(treadle_report_objects treadle_page_libraries)
