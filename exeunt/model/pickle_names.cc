// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "exeunt/model/pickle.h"

namespace exeunt {
namespace {

using Role = PickleName::Role;

// The closed list. Storages name the type of their elements; types by themselves occur in metadata only.
constexpr std::array kNames{
    PickleName{"collections", "OrderedDict", Role::ordered_dict},
    PickleName{"torch._utils", "_rebuild_tensor", Role::rebuild_tensor},
    PickleName{"torch._utils", "_rebuild_tensor_v2", Role::rebuild_tensor_v2},
    PickleName{"torch._utils", "_rebuild_parameter", Role::rebuild_parameter},
    PickleName{"torch", "Size", Role::size},
    PickleName{"torch", "DoubleStorage", Role::storage, DType::f64},
    PickleName{"torch", "FloatStorage", Role::storage, DType::f32},
    PickleName{"torch", "HalfStorage", Role::storage, DType::f16},
    PickleName{"torch", "BFloat16Storage", Role::storage, DType::bf16},
    PickleName{"torch", "LongStorage", Role::storage, DType::i64},
    PickleName{"torch", "IntStorage", Role::storage, DType::i32},
    PickleName{"torch", "ShortStorage", Role::storage, DType::i16},
    PickleName{"torch", "CharStorage", Role::storage, DType::i8},
    PickleName{"torch", "ByteStorage", Role::storage, DType::u8},
    PickleName{"torch", "BoolStorage", Role::storage, DType::boolean},
    PickleName{"torch", "float64", Role::dtype},
    PickleName{"torch", "float32", Role::dtype},
    PickleName{"torch", "float16", Role::dtype},
    PickleName{"torch", "bfloat16", Role::dtype},
    PickleName{"torch", "int64", Role::dtype},
    PickleName{"torch", "int32", Role::dtype},
    PickleName{"torch", "int16", Role::dtype},
    PickleName{"torch", "int8", Role::dtype},
    PickleName{"torch", "uint8", Role::dtype},
    PickleName{"torch", "bool", Role::dtype},
};

struct Opcode {
  uint8_t code;
  std::string_view name;
};

constexpr Opcode kOpcodes[] = {{0x28, "MARK"},         {0x29, "EMPTY_TUPLE"},
                               {0x2e, "STOP"},         {0x30, "POP"},
                               {0x31, "POP_MARK"},     {0x32, "DUP"},
                               {0x42, "BINBYTES"},     {0x43, "SHORT_BINBYTES"},
                               {0x46, "FLOAT"},        {0x47, "BINFLOAT"},
                               {0x49, "INT"},          {0x4a, "BININT"},
                               {0x4b, "BININT1"},      {0x4c, "LONG"},
                               {0x4d, "BININT2"},      {0x4e, "NONE"},
                               {0x50, "PERSID"},       {0x51, "BINPERSID"},
                               {0x52, "REDUCE"},       {0x53, "STRING"},
                               {0x54, "BINSTRING"},    {0x55, "SHORT_BINSTRING"},
                               {0x56, "UNICODE"},      {0x58, "BINUNICODE"},
                               {0x5d, "EMPTY_LIST"},   {0x61, "APPEND"},
                               {0x62, "BUILD"},        {0x63, "GLOBAL"},
                               {0x64, "DICT"},         {0x65, "APPENDS"},
                               {0x67, "GET"},          {0x68, "BINGET"},
                               {0x69, "INST"},         {0x6a, "LONG_BINGET"},
                               {0x6c, "LIST"},         {0x6f, "OBJ"},
                               {0x70, "PUT"},          {0x71, "BINPUT"},
                               {0x72, "LONG_BINPUT"},  {0x73, "SETITEM"},
                               {0x74, "TUPLE"},        {0x75, "SETITEMS"},
                               {0x7d, "EMPTY_DICT"},   {0x80, "PROTO"},
                               {0x81, "NEWOBJ"},       {0x82, "EXT1"},
                               {0x83, "EXT2"},         {0x84, "EXT4"},
                               {0x85, "TUPLE1"},       {0x86, "TUPLE2"},
                               {0x87, "TUPLE3"},       {0x88, "NEWTRUE"},
                               {0x89, "NEWFALSE"},     {0x8a, "LONG1"},
                               {0x8b, "LONG4"},        {0x8c, "SHORT_BINUNICODE"},
                               {0x8d, "BINUNICODE8"},  {0x8e, "BINBYTES8"},
                               {0x8f, "EMPTY_SET"},    {0x90, "ADDITEMS"},
                               {0x91, "FROZENSET"},    {0x92, "NEWOBJ_EX"},
                               {0x93, "STACK_GLOBAL"}, {0x94, "MEMOIZE"},
                               {0x95, "FRAME"},        {0x96, "BYTEARRAY8"},
                               {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"}};

}  // namespace

const PickleName* find_pickle_name(std::string_view module, std::string_view name) noexcept {
  for (const PickleName& known : kNames) {
    if (known.name == name && known.module == module) return &known;
  }
  return nullptr;
}

std::string_view opcode_name(uint8_t opcode) noexcept {
  for (const Opcode& known : kOpcodes) {
    if (known.code == opcode) return known.name;
  }
  return {};
}

}  // namespace exeunt
