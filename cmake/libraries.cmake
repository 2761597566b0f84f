# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, as Debian packages them; header-only in a cross build, which has no libraries for its target.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
if(EXEUNT_PORTABLE)
  set(OPENSSL_USE_STATIC_LIBS ON)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
if(CMAKE_CROSSCOMPILING OR EXEUNT_PORTABLE)
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

  # For property tests. Debian's CMake files of rapidcheck lack its targets, so it is searched for here; without the library
  # (in a cross build) those tests are skipped.
  find_path(RAPIDCHECK_INCLUDE rapidcheck/gtest.h)
  find_library(RAPIDCHECK_LIBRARY rapidcheck)
  if(RAPIDCHECK_INCLUDE AND RAPIDCHECK_LIBRARY)
    add_library(exeunt_rapidcheck STATIC IMPORTED)
    set_target_properties(exeunt_rapidcheck PROPERTIES IMPORTED_LOCATION "${RAPIDCHECK_LIBRARY}"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${RAPIDCHECK_INCLUDE}")
  else()
    message(STATUS "rapidcheck not found: property tests are skipped")
  endif()
endif()
