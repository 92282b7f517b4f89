# SPDX-License-Identifier: Apache-2.0
# Writes the commit of the git tree SOURCE to HEADER, a C string, if it isn't there already: "" outside of git.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=10 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "\"${commit}\"\n")
