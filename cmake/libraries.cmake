# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, as Debian packages them. A wheel and a cross build link them as archives: a wheel may
# need glibc alone, and of the other architecture no other library is installed.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
if(CMAKE_CROSSCOMPILING OR EXEUNT_PORTABLE)
  add_link_options(-static-libstdc++ -static-libgcc)
  set(OPENSSL_USE_STATIC_LIBS ON)
  set(ZLIB_USE_STATIC_LIBS ON)
  add_library(exeunt_fmt ALIAS fmt::fmt-header-only)
  if(EXEUNT_GLIBC_ROOT)
    # Also its libgcc_eh, because that of GCC 12 needs glibc 2.35.
    set(triple ${CMAKE_LIBRARY_ARCHITECTURE})
    add_link_options(--sysroot=${EXEUNT_GLIBC_ROOT} -B${EXEUNT_GLIBC_ROOT}/usr/lib/${triple}/ -L${EXEUNT_GLIBC_ROOT}/lib/${triple}
      -L${EXEUNT_GLIBC_ROOT}/usr/lib/gcc/${triple}/10 -Wl,-u,arc4random,-u,__libc_single_threaded)
    add_library(exeunt_older_glibc STATIC cmake/older_glibc.cc)
    target_link_libraries(Threads::Threads INTERFACE $<LINK_ONLY:exeunt_older_glibc> -lpthread -ldl)
  endif()
else()
  add_library(exeunt_fmt ALIAS fmt::fmt)
endif()
find_package(Boost 1.81 CONFIG QUIET)  # FindBoost is gone from newer CMakes
find_package(OpenSSL QUIET)
find_package(ZLIB QUIET)
foreach(package Boost OpenSSL ZLIB)
  if(NOT ${package}_FOUND)
    list(APPEND missing ${package})
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "not found: ${missing}\nInstall libboost1.81-dev, libssl-dev and zlib1g-dev; "
    "scripts/setup installs all packages, 'scripts/setup check' those of a cross build, too.")
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
