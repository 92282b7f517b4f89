# SPDX-License-Identifier: Apache-2.0
# What a C++ program outside of the tree needs: headers, libraries, and the package that find_package(treadle) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

foreach(library treadle treadle_runtime)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${library} INTERFACE cxx_std_20)
  # Installed, the libraries find each other beside themselves, and LLVM where it was when they were built.
  set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN;${LLVM_LIBRARY_DIR}")
endforeach()
if(TREADLE_LLVM_STATIC)
  set_target_properties(treadle treadle_runtime PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()
install(TARGETS treadle treadle_runtime EXPORT treadle_targets COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/treadle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT treadle_targets FILE treadle-config.cmake NAMESPACE treadle::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/treadle COMPONENT development)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/treadle-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/treadle-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/treadle COMPONENT development)
