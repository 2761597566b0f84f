# SPDX-License-Identifier: Apache-2.0
# Decides EXEUNT_HAVE_TORCH from the option EXEUNT_TRAIN (ON, OFF, AUTO) and from what the machine has. Another LibTorch
# than Debian's is found with -DCMAKE_PREFIX_PATH=…, e.g. the one inside Python's package:
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

# Compiler settings of a target that includes LibTorch's headers: ccache must be told that a precompiled header is meant,
# and LibTorch 2 brings headers of another fmt than the library that is linked, so nothing of that library is used.
function(exeunt_torch_flags target)
  target_compile_definitions(${target} PRIVATE FMT_HEADER_ONLY)
  if(CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CCACHE}")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
