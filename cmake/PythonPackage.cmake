# SPDX-License-Identifier: Apache-2.0
# The Python package: the extension module treadle._core, and the layout of the wheel.

# Install rules (component `python`) that lay out the package: `extension` is the file of treadle._core, `tree` the
# build tree with lib/ and bin/. Relative to the package all is as in the build tree, so that run paths hold in both.
function(treadle_install_python tree extension)
  set(scripts ${SKBUILD_SCRIPTS_DIR})
  if(NOT scripts)
    set(scripts bin)
  endif()
  install(FILES ${extension} DESTINATION treadle COMPONENT python)
  foreach(library treadle treadle_runtime treadle_cli_compiler)
    install(FILES ${tree}/lib/lib${library}.so DESTINATION treadle/lib COMPONENT python)
  endforeach()
  install(DIRECTORY ${tree}/lib/ DESTINATION treadle/lib COMPONENT python
    FILES_MATCHING PATTERN "libtreadle_opencl.so")
  foreach(library ${TREADLE_EXTERNAL_RUNTIMES})
    if(TARGET ${library})
      install(TARGETS ${library} LIBRARY DESTINATION treadle/lib COMPONENT python)
    endif()
  endforeach()
  if(TREADLE_PREBUILT)
    file(GLOB plugins ${tree}/lib/libtreadle_examplejson.so ${tree}/lib/libtreadle_cblas.so
      ${tree}/lib/libtreadle_dnnl.so)
    install(FILES ${plugins} DESTINATION treadle/lib COMPONENT python)
  endif()
  install(PROGRAMS ${tree}/bin/treadle DESTINATION treadle/bin COMPONENT python)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/treadle DESTINATION treadle/include COMPONENT python)
  install(PROGRAMS ${CMAKE_SOURCE_DIR}/python/scripts/treadle DESTINATION ${scripts} COMPONENT python)
endfunction()

# Builds treadle._core with nanobind into <build>/python/treadle, beside links to the sources of python/treadle:
# PYTHONPATH=<build>/python is a working package.
function(treadle_python_extension)
  if(NOT DEFINED Python_EXECUTABLE AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  endif()
  set(Python_FIND_VIRTUALENV FIRST)
  find_package(Python 3.11 COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
  if(NOT Python_FOUND)
    message(STATUS "Python package: skipped, no Python >= 3.11 with headers")
    return()
  endif()
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(STATUS "Python package: skipped, ${Python_EXECUTABLE} has no nanobind (tools/setup.sh python)")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/python/*.cc)
  find_package(nanobind CONFIG REQUIRED)
  set(stable_abi)
  if(SKBUILD AND NOT "${SKBUILD_SABI_COMPONENT}" STREQUAL "")
    set(stable_abi STABLE_ABI)  # of wheels, for Python 3.12 and later
  endif()
  nanobind_add_module(treadle_python NB_STATIC NOMINSIZE ${stable_abi} ${sources})
  treadle_compile_options(treadle_python)
  treadle_use_precompiled(treadle_python compiler)
  set(package ${CMAKE_BINARY_DIR}/python/treadle)
  target_include_directories(treadle_python PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(treadle_python PRIVATE treadle treadle_runtime)
  set_target_properties(treadle_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${package}
    BUILD_RPATH "$ORIGIN/lib")

  file(MAKE_DIRECTORY ${package})
  file(GLOB entries CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/treadle/*)
  foreach(entry ${entries})
    get_filename_component(name ${entry} NAME)
    file(CREATE_LINK ${entry} ${package}/${name} SYMBOLIC)
  endforeach()
  file(CREATE_LINK ${CMAKE_LIBRARY_OUTPUT_DIRECTORY} ${package}/lib SYMBOLIC)
  file(CREATE_LINK ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${package}/bin SYMBOLIC)
endfunction()
