# SPDX-License-Identifier: Apache-2.0
# What programs outside of the tree need: headers, libraries, the package that find_package(treadle) reads, pkg-config's
# file. Component `runtime` runs compiled models, `compiler` makes them, `development` is for building against both.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

foreach(library treadle treadle_runtime)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${library} INTERFACE cxx_std_20)
  if(TREADLE_SONAMES)
    set_target_properties(${library} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  endif()
endforeach()
# The libraries find each other beside themselves, and LLVM where it was when they were built.
if(TREADLE_LLVM_STATIC)
  treadle_run_path(treadle "$ORIGIN")
else()
  treadle_run_path(treadle "$ORIGIN" ${LLVM_LIBRARY_DIR})
endif()
install(TARGETS treadle_runtime EXPORT treadle_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(TARGETS treadle EXPORT treadle_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler NAMELINK_COMPONENT development)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/treadle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT treadle_targets NAMESPACE treadle::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/treadle COMPONENT development)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/treadle-config.cmake.in ${CMAKE_BINARY_DIR}/treadle-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/treadle PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/treadle-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/treadle-config.cmake ${CMAKE_BINARY_DIR}/treadle-config-version.cmake
  ${CMAKE_SOURCE_DIR}/cmake/TreadleAddModel.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/treadle COMPONENT development)
file(RELATIVE_PATH TREADLE_PC_INCLUDES ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(${CMAKE_SOURCE_DIR}/cmake/treadle-runtime.pc.in ${CMAKE_BINARY_DIR}/treadle-runtime.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/treadle-runtime.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# The program, and what it loads for verbs that compile. Call it once they are known.
function(treadle_install_program)
  file(RELATIVE_PATH libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set(places "$ORIGIN/../lib" "$ORIGIN/${libraries}")  # in the build tree and the wheel, and installed
  list(REMOVE_DUPLICATES places)
  treadle_run_path(treadle_cli ${places})
  treadle_run_path(treadle_cli_compiler "$ORIGIN")
  install(TARGETS treadle_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  install(TARGETS treadle_cli_compiler LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler)
  if(NOT CMAKE_CROSSCOMPILING)
    install(CODE "set(program \"$<TARGET_FILE:treadle_cli>\")
      set(data \"\$ENV{DESTDIR}${CMAKE_INSTALL_FULL_DATADIR}\")
      include(\"${CMAKE_SOURCE_DIR}/cmake/InstallManual.cmake\")" COMPONENT runtime)
  endif()
  foreach(plugin ${TREADLE_PLUGINS})
    treadle_run_path(${plugin} "$ORIGIN")
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
  endforeach()
endfunction()

# Packages of Debian, one of each component: `cpack -G DEB` in the build tree.
set(CPACK_PACKAGE_NAME treadle)
set(CPACK_PACKAGE_VENDOR "The Treadle developers")
set(CPACK_PACKAGE_CONTACT "The Treadle developers <treadle@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Deep-learning compiler: ONNX models to native code")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL runtime compiler development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME treadle-runtime)
set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME treadle-compiler)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtreadle-dev)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPILER_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "Runs models that Treadle compiled")
set(CPACK_DEBIAN_COMPILER_DESCRIPTION "Compiles ONNX models to native code")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Headers and CMake package of Treadle")
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS "treadle-runtime (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "treadle-runtime (= ${PROJECT_VERSION}), treadle-compiler (= ${PROJECT_VERSION})")
include(CPack)
