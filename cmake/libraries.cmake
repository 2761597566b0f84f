# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, as Debian packages them. Header-only where a cross build has no libraries of the other machine.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
if(CMAKE_CROSSCOMPILING)
  add_library(exeunt_fmt ALIAS fmt::fmt-header-only)
else()
  add_library(exeunt_fmt ALIAS fmt::fmt)
endif()

if(EXEUNT_BUILD_TESTS)
  if(CMAKE_CROSSCOMPILING)
    add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    add_library(exeunt_gtest_main ALIAS gtest_main)
    add_library(exeunt_gmock ALIAS gmock)
  else()
    find_package(GTest REQUIRED)
    add_library(exeunt_gtest_main ALIAS GTest::gtest_main)
    add_library(exeunt_gmock ALIAS GTest::gmock)
  endif()

  # Property tests. Debian's package configuration of rapidcheck lacks its targets, so it is found by hand; where the
  # library is missing (a cross build) those tests are left out.
  find_path(RAPIDCHECK_INCLUDE rapidcheck/gtest.h)
  find_library(RAPIDCHECK_LIBRARY rapidcheck)
  if(RAPIDCHECK_INCLUDE AND RAPIDCHECK_LIBRARY)
    add_library(exeunt_rapidcheck STATIC IMPORTED)
    set_target_properties(exeunt_rapidcheck PROPERTIES IMPORTED_LOCATION "${RAPIDCHECK_LIBRARY}"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${RAPIDCHECK_INCLUDE}")
  else()
    message(STATUS "rapidcheck not found: property tests are left out")
  endif()
endif()
