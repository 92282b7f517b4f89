# SPDX-License-Identifier: Apache-2.0
# find_package(treadle) of an installed Python package: cmake -DCMAKE_PREFIX_PATH=$(python -c 'import treadle;
# print(treadle.cmake_prefix_path)'). The same names as those of libtreadle-dev: treadle::treadle_runtime runs compiled
# models, treadle::treadle is the compiler, treadle_add_model compiles models while a program is built.
get_filename_component(_treadle_package ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
foreach(_treadle_library treadle_runtime treadle)
  if(NOT TARGET treadle::${_treadle_library})
    add_library(treadle::${_treadle_library} SHARED IMPORTED)
    set_target_properties(treadle::${_treadle_library} PROPERTIES
      IMPORTED_LOCATION ${_treadle_package}/lib/lib${_treadle_library}.so
      INTERFACE_INCLUDE_DIRECTORIES ${_treadle_package}/include
      INTERFACE_COMPILE_FEATURES cxx_std_20)
  endif()
endforeach()
set_target_properties(treadle::treadle PROPERTIES INTERFACE_LINK_LIBRARIES treadle::treadle_runtime)
set(TREADLE_PROGRAM ${_treadle_package}/bin/treadle CACHE FILEPATH "compiles models")
include(${CMAKE_CURRENT_LIST_DIR}/TreadleAddModel.cmake)
foreach(_treadle_component ${treadle_FIND_COMPONENTS})
  if(treadle_FIND_REQUIRED_${_treadle_component})
    set(treadle_FOUND FALSE)
    set(treadle_NOT_FOUND_MESSAGE "there is no component ${_treadle_component}; treadle::treadle_runtime and treadle::treadle \
are always there")
  endif()
endforeach()
