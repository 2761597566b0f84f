# SPDX-License-Identifier: Apache-2.0
# Builds for the other architecture (aarch64 on x86-64, x86-64 on aarch64) and runs the tests under qemu. The processor "max"
# has every instruction set qemu implements, so that the fast paths run too.
if(CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
  set(exeunt_emulator qemu-aarch64-static -cpu max)
else()
  set(CMAKE_SYSTEM_PROCESSOR x86_64)
  set(exeunt_emulator qemu-x86_64-static -cpu max)
endif()
set(CMAKE_SYSTEM_NAME Linux)
set(exeunt_triple ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_CXX_COMPILER ${exeunt_triple}-g++)
set(CMAKE_C_COMPILER ${exeunt_triple}-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR ${exeunt_emulator})
# The CMake files of fmt and Boost are among the host's libraries; only their headers are used (libraries.cmake).
set(fmt_DIR /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake/fmt)
file(GLOB Boost_DIR /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake/Boost-*)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/${exeunt_triple}/pkgconfig)  # so that FindOpenSSL does not take the host's
