# SPDX-License-Identifier: Apache-2.0
# Decides EXEUNT_HAVE_TORCH from the option EXEUNT_TRAIN (ON, OFF, AUTO) and from what the machine has. To use another
# LibTorch than Debian's, set -DCMAKE_PREFIX_PATH=…, e.g. to the one in Python's package:
#   $(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')
set(EXEUNT_HAVE_TORCH OFF)
if(EXEUNT_TRAIN STREQUAL "AUTO" AND (CMAKE_CROSSCOMPILING OR EXEUNT_SANITIZE OR EXEUNT_BUILD_FUZZERS))
  message(STATUS "exeunt-train: not built in a cross build or under sanitizers")
elseif(EXEUNT_TRAIN)
  find_package(Torch QUIET)
  if(Torch_FOUND)
    set(EXEUNT_HAVE_TORCH ON)
  elseif(NOT EXEUNT_TRAIN STREQUAL "AUTO")
    message(FATAL_ERROR "EXEUNT_TRAIN=${EXEUNT_TRAIN}, but LibTorch was not found: install libtorch-dev, name another "
      "LibTorch with -DCMAKE_PREFIX_PATH=..., or configure with -DEXEUNT_TRAIN=OFF")
  endif()
endif()
message(STATUS "exeunt-train: ${EXEUNT_HAVE_TORCH}")

# Compiler settings for a target that includes LibTorch's headers: ccache needs to know of the precompiled header, and
# LibTorch 2 ships headers of another fmt version than the library that is linked, so fmt is used header-only.
function(exeunt_torch_flags target)
  target_compile_definitions(${target} PRIVATE FMT_HEADER_ONLY)
  if(CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CCACHE}")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
