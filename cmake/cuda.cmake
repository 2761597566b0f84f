# SPDX-License-Identifier: Apache-2.0
# Decides EXEUNT_HAVE_CUDA from the option EXEUNT_CUDA (ON, OFF, AUTO) and from what the machine has.
set(EXEUNT_HAVE_CUDA OFF)
if(EXEUNT_CUDA STREQUAL "AUTO" AND (CMAKE_CROSSCOMPILING OR EXEUNT_SANITIZE))
  message(STATUS "CUDA backend: off in a cross build and under sanitizers")
elseif(EXEUNT_CUDA)
  # Machine code for Hopper with the instructions that only it has, and PTX that any GPU from Ampere on can compile.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90a-real)
  endif()
  find_program(EXEUNT_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(EXEUNT_NVCC AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${EXEUNT_NVCC})
  endif()
  include(CheckLanguage)
  check_language(CUDA)  # compiles a program, so a broken nvcc is not accepted
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know that nvcc supports C++20
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    # The PTX alone is 4 MB otherwise. Every driver that knows this toolkit reads it.
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
      add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
    endif()
    if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(EXEUNT_HAVE_CUDA ON)
  elseif(NOT EXEUNT_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "EXEUNT_CUDA=${EXEUNT_CUDA}, but no working nvcc was found: install the CUDA toolkit, "
      "put nvcc on the PATH, or configure with -DEXEUNT_CUDA=OFF")
  endif()
endif()
message(STATUS "CUDA backend: ${EXEUNT_HAVE_CUDA}")
