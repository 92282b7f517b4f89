# SPDX-License-Identifier: Apache-2.0
# Packages carry Treadle's licence and those of what is linked into them: in the wheel treadle/THIRD_PARTY_LICENCES.txt
# beside the LICENSE of its metadata, of Debian's packages the file copyright.
set(TREADLE_THIRD_PARTY ${CMAKE_BINARY_DIR}/generated/THIRD_PARTY_LICENCES.txt)
add_custom_command(OUTPUT ${TREADLE_THIRD_PARTY}
  COMMAND ${page_python} ${CMAKE_SOURCE_DIR}/cmake/third_party_licences.py ${TREADLE_THIRD_PARTY}
  DEPENDS ${CMAKE_SOURCE_DIR}/cmake/third_party_licences.py COMMENT "Collecting licences" VERBATIM)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/generated/copyright
  COMMAND ${CMAKE_COMMAND} -E cat ${CMAKE_SOURCE_DIR}/LICENSE ${TREADLE_THIRD_PARTY} > ${CMAKE_BINARY_DIR}/generated/copyright
  DEPENDS ${CMAKE_SOURCE_DIR}/LICENSE ${TREADLE_THIRD_PARTY} VERBATIM)
add_custom_target(treadle_licences ALL DEPENDS ${CMAKE_BINARY_DIR}/generated/copyright)
install(FILES ${TREADLE_THIRD_PARTY} DESTINATION treadle COMPONENT python)
foreach(component runtime compiler development)
  string(TOUPPER ${component} upper)
  install(FILES ${CMAKE_BINARY_DIR}/generated/copyright COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
endforeach()
