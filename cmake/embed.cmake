# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=x.cc -DHEADER=... -DFUNCTION=name -DFILES="a;b" [-DNAMES=ON] -P embed.cmake
# Writes a source file with a function that returns the files' contents by name, as raw strings short enough for every
# compiler. With NAMES a second function, ${FUNCTION}_names, lists the names.
set(text "// Generated from files of the repository.\n#include \"${HEADER}\"\n\nnamespace exeunt {\n\n")
string(APPEND text "std::string_view ${FUNCTION}(std::string_view name) noexcept {\n")
foreach(file ${FILES})
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" content)
  string(LENGTH "${content}" length)
  set(pieces "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${content}" ${at} 8000 piece)
    string(APPEND pieces "\n      R\"EXEUNT(${piece})EXEUNT\"")
    math(EXPR at "${at} + 8000")
  endwhile()
  string(APPEND names "\"${name}\", ")
  string(APPEND text "  if (name == \"${name}\") {\n    return${pieces};\n  }\n")
endforeach()
string(APPEND text "  return {};\n}\n")
if(NAMES)
  string(APPEND text "\nstd::span<const std::string_view> ${FUNCTION}_names() noexcept {\n"
    "  static constexpr std::string_view kNames[] = {${names}};\n  return kNames;\n}\n")
endif()
string(APPEND text "\n}  // namespace exeunt\n")
file(WRITE "${OUT}" "${text}")
