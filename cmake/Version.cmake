# SPDX-License-Identifier: Apache-2.0
# The version, whose one source is python/treadle/_version.py, and the commit that `treadle --version` prints.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../python/treadle/_version.py line REGEX "^__version__ = ")
string(REGEX REPLACE "^__version__ = \"([0-9.]+)\"$" "\\1" TREADLE_VERSION "${line}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS python/treadle/_version.py)

# Gives src/runtime/manifest.cc the version. Call it where that is compiled.
function(treadle_compile_version)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/runtime/manifest.cc PROPERTIES
    COMPILE_DEFINITIONS "TREADLE_VERSION=\"${TREADLE_VERSION}\"")
endfunction()

# Gives src/cli/version.cc of `target` the commit: the file is compiled again when it has changed.
function(treadle_compile_commit target)
  set(header ${CMAKE_BINARY_DIR}/generated/commit/commit.inc)
  add_custom_target(treadle_commit BYPRODUCTS ${header}
    COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR} -D HEADER=${header} -P ${CMAKE_SOURCE_DIR}/cmake/write_commit.cmake
    COMMENT "" VERBATIM)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/cli/version.cc PROPERTIES
    INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/generated/commit OBJECT_DEPENDS ${header})
  add_dependencies(${target} treadle_commit)
endfunction()
