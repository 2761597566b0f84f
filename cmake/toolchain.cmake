# SPDX-License-Identifier: Apache-2.0
# Compiler settings shared by all targets.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# The same sources give the same binaries wherever the checkout is.
# (Here and below: nvcc does not know these options, so they are for C++ alone.)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.>
  $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_BINARY_DIR}=build>)
add_link_options(-Wl,--build-id=sha1)

# What is given to users checks its stack and its buffers, its table of functions is read-only, and it carries the functions
# that it uses, not whole files of them. Not in other builds, where sanitizers check more.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT EXEUNT_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong> $<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE>
    $<$<COMPILE_LANGUAGE:CXX>:-D_FORTIFY_SOURCE=2>
    $<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections> $<$<COMPILE_LANGUAGE:CXX>:-fdata-sections>)
  add_link_options(-Wl,-z,relro,-z,now -Wl,--gc-sections)
endif()

# Results are promised bit for bit: no contraction or reassociation by the compiler.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)

if(EXEUNT_SANITIZE)
  add_compile_options(-fsanitize=${EXEUNT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${EXEUNT_SANITIZE})
  # GCC warns that it does not follow fences, wherever Boost.Asio has one; Clang has no such warning.
  if(EXEUNT_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
  endif()
endif()
if(EXEUNT_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)  # libFuzzer needs the coverage of our own code
endif()

# GCC 10 changed how Arm passes a few types. Everything here is built by one compiler, so its notes on that are noise.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-psabi>)
endif()

# Strict warnings for our own targets; third-party headers are SYSTEM and give none.
function(exeunt_strict target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wvla;\
-Wnon-virtual-dtor;-Woverloaded-virtual;-Wimplicit-fallthrough;$<$<BOOL:${EXEUNT_WARNINGS_AS_ERRORS}>:-Werror>>")
endfunction()

# The headers a file includes (JSON, fmt, GoogleTest, CLI11, LibTorch) cost more to compile than its own code, so ten files are
# compiled as one. Names in unnamed namespaces must therefore be unique within a folder. Sources with compiler flags of their
# own, such as the kernels, are compiled alone. Development builds compile each file alone, so that a change rebuilds little.
function(exeunt_unity_build target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${EXEUNT_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 10)
endfunction()

# exeunt_library(name SOURCES ... [LINKS ...] [PRIVATE_LINKS ...]): the library of one folder under exeunt/.
function(exeunt_library name)
  cmake_parse_arguments(LIB "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(exeunt_${name} STATIC ${LIB_SOURCES})
  add_library(exeunt::${name} ALIAS exeunt_${name})
  target_include_directories(exeunt_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
  target_link_libraries(exeunt_${name} PUBLIC ${LIB_LINKS} PRIVATE ${LIB_PRIVATE_LINKS})
  exeunt_strict(exeunt_${name})
  exeunt_unity_build(exeunt_${name})
endfunction()

# exeunt_tables(target x ...): x.json of the folder as C++ arrays, which a source includes as "x.inc" (tables.cmake).
function(exeunt_tables target)
  foreach(table ${ARGN})
    add_custom_command(OUTPUT ${table}.inc
      COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${table}.json -DOUT=${table}.inc
        -P ${CMAKE_SOURCE_DIR}/cmake/tables.cmake
      DEPENDS ${table}.json ${CMAKE_SOURCE_DIR}/cmake/tables.cmake VERBATIM)
    target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${table}.inc)
  endforeach()
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()

# Tests that take long begin first, so that no core waits for them at the end: set_tests_properties(... COST ${EXEUNT_LONG}).
set(EXEUNT_LONG 100)

# exeunt_test(folder [THREADS] [LONG] SOURCES ... LINKS ...): one GoogleTest program per tested folder. THREADS marks those that
# use threads, clocks or signals, for scripts/stress; LONG those that take a minute or more under sanitizers.
function(exeunt_test folder)
  cmake_parse_arguments(TEST "THREADS;LONG;FAST" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${folder}_test ${TEST_SOURCES})
  target_link_libraries(${folder}_test PRIVATE ${TEST_LINKS} exeunt_gtest_main exeunt_gmock)
  target_include_directories(${folder}_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${folder}_test PRIVATE EXEUNT_TEST_DATA="tests/fixtures")
  # Tests are built often and run briefly: less optimisation halves the build and costs nothing; under sanitizers, none.
  if(EXEUNT_SANITIZE)
    target_compile_options(${folder}_test PRIVATE -O0)
  else()
    target_compile_options(${folder}_test PRIVATE -O1)
  endif()
  if(EXEUNT_SANITIZE MATCHES "undefined")
    # The code under test is checked; checking the tests themselves would double their build time.
    target_compile_options(${folder}_test PRIVATE -fno-sanitize=undefined)
  endif()
  exeunt_strict(${folder}_test)
  exeunt_unity_build(${folder}_test)
  add_test(NAME ${folder} COMMAND ${folder}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${folder} PROPERTIES TIMEOUT 1200 LABELS "unit$<$<BOOL:${TEST_THREADS}>:;threads>$<$<BOOL:${TEST_FAST}>:;fast>")
  if(TEST_FAST)
    add_dependencies(fast_tests ${folder}_test)
  endif()
  if(TEST_LONG)
    set_tests_properties(${folder} PROPERTIES COST ${EXEUNT_LONG})
  endif()
endfunction()
