# SPDX-License-Identifier: Apache-2.0
# Writes generated/version.h at every build, but only if its contents change. They depend on the commit alone, not on date,
# path or machine, so two builds of one commit are identical. Run as a script: cmake -P, with VERSION, SOURCE, OUT.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C "${SOURCE}" describe --always --exclude=* --abbrev=12 --dirty=+
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit "")
endif()
file(CONFIGURE OUTPUT "${OUT}" NEWLINE_STYLE UNIX
  CONTENT "#define EXEUNT_VERSION \"${VERSION}\"\n#define EXEUNT_COMMIT \"${commit}\"\n")
