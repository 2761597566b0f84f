# SPDX-License-Identifier: Apache-2.0
# cmake -DIN=x.json -DOUT=x.inc -P tables.cmake
# Writes the constants and arrays of a JSON file as C++. Text in an array is an identifier.
file(READ "${IN}" json)
set(text "// Generated from ${IN}.\n")
string(JSON arrays GET "${json}" arrays)
string(JSON last LENGTH "${arrays}")
math(EXPR last "${last} - 1")
foreach(index RANGE ${last})
  string(JSON name GET "${arrays}" ${index} name)
  string(JSON type GET "${arrays}" ${index} type)
  string(JSON values GET "${arrays}" ${index} values)
  string(REPLACE "[" "{" values "${values}")
  string(REPLACE "]" "}" values "${values}")
  string(REPLACE "\"" "" values "${values}")
  string(APPEND text "constexpr ${type} ${name}[] = ${values};\n")
endforeach()
file(WRITE "${OUT}" "${text}")
