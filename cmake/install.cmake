# SPDX-License-Identifier: Apache-2.0
# `cmake --install BUILD --prefix DIR`: the command with its manual and the trainer, the C library, and for C++ the static
# libraries of the runtime with their headers, found by find_package(exeunt). Component `command` is the first of these,
# `dev` the rest.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/exeunt)
set(layers base text model exits runtime)
foreach(layer ${layers})
  list(APPEND libraries exeunt_${layer})
  set_target_properties(exeunt_${layer} PROPERTIES EXPORT_NAME ${layer})
  target_include_directories(exeunt_${layer} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(exeunt_${layer} INTERFACE cxx_std_20)
  install(DIRECTORY exeunt/${layer} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/exeunt COMPONENT dev FILES_MATCHING PATTERN "*.h")
endforeach()
install(TARGETS ${libraries} exeunt_shared EXPORT exeunt
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev NAMELINK_COMPONENT dev)
install(FILES exeunt/c/exeunt.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(EXPORT exeunt NAMESPACE exeunt:: FILE exeunt-targets.cmake DESTINATION ${package} COMPONENT dev)
configure_package_config_file(cmake/exeunt-config.cmake.in ${CMAKE_BINARY_DIR}/exeunt-config.cmake
  INSTALL_DESTINATION ${package})
# Below 1.0 a minor version may break what came before (docs/versioning.md).
write_basic_package_version_file(${CMAKE_BINARY_DIR}/exeunt-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/exeunt-config.cmake ${CMAKE_BINARY_DIR}/exeunt-config-version.cmake
  DESTINATION ${package} COMPONENT dev)
if(TARGET exeunt)
  install(TARGETS exeunt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  # Man pages and completion, written by the command itself; share/exeunt there only links to sources, installed elsewhere.
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT command
    PATTERN exeunt/models EXCLUDE)
endif()
if(TARGET exeunt-train)  # a LibTorch in an unusual place is found again where it was
  set_target_properties(exeunt-train PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS exeunt-train RUNTIME DESTINATION libexec/exeunt COMPONENT command)
endif()
