# SPDX-License-Identifier: Apache-2.0
include(CheckLinkerFlag)

# Where `target`, which is installed or packed into a wheel, looks for libraries, there and in the build tree. It is linked
# with that: the space that CMake leaves for changing it afterwards are empty entries, which mean the current directory.
function(treadle_run_path target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${ARGN}" BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# Warnings and include paths that every target of the project has.
function(treadle_compile_options target)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${TREADLE_WERROR}>:-Werror>)
endfunction()

# Compiles cmake/precompiled_NAME.h once into build/precompiled/NAME.pch, with `flags` beside those of every target; clang
# only. A precompiled header holds absolute paths: what ccache compares is the preprocessed text in NAME.pch.sum, so that
# trees in different places share their objects.
function(treadle_precompiled_header name flags)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
  separate_arguments(all UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}} -std=c++20 ${flags}")
  list(APPEND all -I${CMAKE_SOURCE_DIR}/include -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
  set(header ${CMAKE_SOURCE_DIR}/cmake/precompiled_${name}.h)
  set(out ${CMAKE_BINARY_DIR}/precompiled/${name}.pch)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/precompiled)
  add_custom_command(OUTPUT ${out} ${out}.sum
    COMMAND ${CMAKE_CXX_COMPILER} ${all} -Xclang -fno-pch-timestamp -fpch-instantiate-templates -MD -MF ${out}.d -MT ${out}
      -x c++-header ${header} -o ${out}
    COMMAND ${CMAKE_CXX_COMPILER} ${all} -E -P -x c++ ${header} -o ${out}.sum
    DEPENDS ${header} DEPFILE ${out}.d COMMENT "Precompiling ${name} headers" VERBATIM)
  add_custom_target(treadle_precompiled_${name} DEPENDS ${out} ${out}.sum)
endfunction()

# For all C++ sources of `target`, or for those named behind.
function(treadle_use_precompiled target name)
  if(NOT TARGET treadle_precompiled_${name})
    return()
  endif()
  set(options -include-pch ${CMAKE_BINARY_DIR}/precompiled/${name}.pch -Xclang -fno-pch-timestamp)
  if(ARGN)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS ${options})
  else()
    list(JOIN options " " options)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:${options}>")
  endif()
  add_dependencies(${target} treadle_precompiled_${name})
endfunction()

# One object library per folder of src, with all *.cc below it.
function(treadle_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/src/targets/[^/]+/runtime/")  # plug-ins of the runtime
  list(FILTER sources EXCLUDE REGEX "/src/base/json\\.cc$")  # treadle_json_objects
  if(NOT sources)
    return()
  endif()
  add_library(treadle_${name}_objects OBJECT ${sources})
  treadle_compile_options(treadle_${name}_objects)
  target_include_directories(treadle_${name}_objects PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_include_directories(treadle_${name}_objects SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  if(name MATCHES "^(base|runtime)$")  # these need the standard library alone
    treadle_small_objects(treadle_${name}_objects ${sources})
  else()
    target_link_libraries(treadle_${name}_objects PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
    set(llvm_sources ${sources})
    list(FILTER llvm_sources INCLUDE REGEX "/src/targets/llvm/")
    if(llvm_sources)
      list(REMOVE_ITEM sources ${llvm_sources})
      treadle_use_precompiled(treadle_${name}_objects llvm ${llvm_sources})
    endif()
    treadle_use_precompiled(treadle_${name}_objects compiler ${sources})
  endif()
  if(name STREQUAL "targets")
    treadle_list_cpu_kernels(treadle_targets_objects)
  endif()
endfunction()

# Lists the CPU kernels in cpu_kernels.inc (included by src/targets/cpu/kernels/kernels.cc): each source file of their
# folder that has no header of its name, in alphabetical order. direct_conv.cc becomes CPU_KERNEL(DirectConv).
function(treadle_list_cpu_kernels target)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/targets/cpu/kernels/*.cc)
  list(SORT files)
  set(kernels "")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    if(EXISTS ${CMAKE_SOURCE_DIR}/src/targets/cpu/kernels/${name}.h)
      continue()
    endif()
    string(REPLACE "_" ";" words ${name})
    set(camel "")
    foreach(word ${words})
      string(SUBSTRING ${word} 0 1 first)
      string(SUBSTRING ${word} 1 -1 rest)
      string(TOUPPER ${first} first)
      string(APPEND camel ${first}${rest})
    endforeach()
    string(APPEND kernels "CPU_KERNEL(${camel})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/cpu_kernels.inc CONTENT "${kernels}")
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/generated)
endfunction()

# JSON (treadle/base/json.h): objects of their own, for the compiler and for what links the runtime alone, which has
# another reader.
function(treadle_json_library)
  add_library(treadle_json_objects OBJECT ${CMAKE_SOURCE_DIR}/src/base/json.cc)
  treadle_compile_options(treadle_json_objects)
  target_link_libraries(treadle_json_objects PRIVATE nlohmann_json::nlohmann_json)
endfunction()

# Links the objects of several folders into one shared library.
function(treadle_shared_library target)
  cmake_parse_arguments(ARG "" "" "FOLDERS;LINKS" ${ARGN})
  set(objects)
  foreach(folder ${ARG_FOLDERS})
    if(TARGET treadle_${folder}_objects)
      list(APPEND objects $<TARGET_OBJECTS:treadle_${folder}_objects>)
    endif()
  endforeach()
  add_library(${target} SHARED ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
  target_link_libraries(${target} PUBLIC ${ARG_LINKS})
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # sanitizers leave their run time to the program
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()

# Files of the runtime whose loops runs spend time in: compiled for speed.
set(TREADLE_HOT_RUNTIME c_backend_api cpu_device huge_pages packed_func run_limits thread_pool time_evaluator
  vm/kernel_profile vm/shape_plans vm/tensor_pool)

# The rest of the runtime, of the sources given, is compiled for size; so are its precompiled headers.
function(treadle_small_objects target)
  set(small ${ARGN})
  foreach(name ${TREADLE_HOT_RUNTIME})
    set(source ${CMAKE_SOURCE_DIR}/src/runtime/${name}.cc)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2>")
    list(REMOVE_ITEM small ${source})
  endforeach()
  treadle_use_precompiled(${target} small ${small})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os> -ffunction-sections -fdata-sections)
endfunction()

# Links `target` without what nothing refers to, and exports the project's own names only: those of templates of the
# standard library would be a seventh of the file. Options that the linker doesn't know are left out.
function(treadle_small_library target)
  target_link_options(${target} PRIVATE -Wl,--gc-sections)
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/runtime_exports.map)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/runtime_exports.map)
  endif()
  separate_arguments(linker NATIVE_COMMAND "${CMAKE_SHARED_LINKER_FLAGS}")
  check_linker_flag(CXX "${linker};-Wl,--icf=safe" TREADLE_LINKER_FOLDS)
  if(TREADLE_LINKER_FOLDS)
    target_link_options(${target} PRIVATE -Wl,--icf=safe -Wl,-Bsymbolic-non-weak-functions)
  endif()
endfunction()

# libtreadle_runtime.so.
function(treadle_runtime_library)
  treadle_compile_version()
  treadle_shared_library(treadle_runtime FOLDERS base runtime)
  treadle_small_library(treadle_runtime)
  target_link_libraries(treadle_runtime PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
  treadle_run_path(treadle_runtime "$ORIGIN")
  # Its worker threads live as long as the process: unloading the library must not take their code away.
  target_link_options(treadle_runtime PRIVATE -Wl,-z,nodelete)
endfunction()

# Each src/targets/NAME/runtime is a plug-in of the runtime, libtreadle_NAME.so, that it loads when a device or a module
# of that kind is asked for. `TREADLE_PLUGINS` becomes the list of targets.
function(treadle_plugins)
  file(GLOB_RECURSE entries CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/targets/*/runtime/plugin.cc)
  set(plugins)
  foreach(entry ${entries})
    get_filename_component(folder ${entry} DIRECTORY)
    get_filename_component(backend ${folder} DIRECTORY)
    get_filename_component(name ${backend} NAME)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
    add_library(treadle_${name} SHARED ${sources})
    treadle_compile_options(treadle_${name})
    treadle_use_precompiled(treadle_${name} runtime)
    target_include_directories(treadle_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(treadle_${name} PRIVATE treadle_runtime ${CMAKE_DL_LIBS})
    list(APPEND plugins treadle_${name})
  endforeach()
  set(TREADLE_PLUGINS ${plugins} PARENT_SCOPE)
endfunction()

# One test program per folder of tests that holds *_test.cc files. Those of base and runtime see nothing else, so that
# they prove that the runtime needs no compiler; those of the loop level see nothing above it, which spares building the
# rest where only they are wanted (sanitizers).
function(treadle_tests folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${folder}/*.cc)
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" suffix ${folder})
  set(target treadle_${suffix}_test)
  add_executable(${target} ${sources})
  treadle_compile_options(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)  # a third less to compile; tests are short
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  if(folder MATCHES "^(ir|arith|tir|te)$")
    foreach(layer json ir arith tir te)
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:treadle_${layer}_objects>)
    endforeach()
    target_link_libraries(${target} PRIVATE fmt::fmt)
  elseif(NOT folder MATCHES "^(base|runtime|cli)$")
    target_link_libraries(${target} PRIVATE treadle fmt::fmt)
  endif()
  if(folder STREQUAL "base")
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:treadle_json_objects>)
  endif()
  if(folder STREQUAL "cli")
    target_link_libraries(${target} PRIVATE treadle_cli_common)
  endif()
  if(folder MATCHES "^(ops|targets)$")
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/register_all.cc)
  endif()
  target_link_libraries(${target} PRIVATE treadle_runtime GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE TREADLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(folder MATCHES "^(base|runtime|cli)$")
    treadle_use_precompiled(${target} tests)
  else()
    treadle_use_precompiled(${target} compiler_tests)
  endif()
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)
endfunction()
