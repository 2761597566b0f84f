# SPDX-License-Identifier: Apache-2.0
# All build options. Presets set them.
option(EXEUNT_BUILD_APPS "Build the exeunt command" ON)
option(EXEUNT_BUILD_TESTS "Build the tests" OFF)
set(EXEUNT_TESTS "" CACHE STRING "Build only the tests of these folders, e.g. base;text; empty = all")
option(EXEUNT_BUILD_BENCHMARKS "Build the benchmarks" OFF)
option(EXEUNT_BUILD_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
option(EXEUNT_JOINED_SOURCES "Compile a folder's sources ten at a time, which halves the build" ON)
option(EXEUNT_WARNINGS_AS_ERRORS "Treat our own warnings as errors" OFF)
set(EXEUNT_CUDA "AUTO" CACHE STRING "CUDA backend: ON, OFF, or AUTO (on where nvcc is present)")
set_property(CACHE EXEUNT_CUDA PROPERTY STRINGS AUTO ON OFF)
set(EXEUNT_TRAIN "AUTO" CACHE STRING "exeunt-train, on LibTorch: ON, OFF, or AUTO (on where LibTorch is present)")
set_property(CACHE EXEUNT_TRAIN PROPERTY STRINGS AUTO ON OFF)
set(EXEUNT_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")
