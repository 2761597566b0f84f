// SPDX-License-Identifier: Apache-2.0
// Values as Python prints and pickles them, for the originals' outputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace exeunt {

// str(float): the shortest digits that read back, "0.1", "1.0", "1e-05", "nan".
[[nodiscard]] std::string python_float(double value);

// str(dict) of integers: "{1: 0, 2: 49}".
[[nodiscard]] std::string python_dict(const std::map<int, int64_t>& values);

// Pickle protocol 3. Values are appended one after the other; containers are opened, filled and closed.
class PickleWriter {
 public:
  PickleWriter();

  void none() { add('N'); }
  void boolean(bool value) { add(value ? '\x88' : '\x89'); }
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view value);   // str; valid UTF-8
  void bytes(std::string_view value);  // bytes, up to 255
  void global(std::string_view module, std::string_view name);

  void open() { add('('); }         // before the items of what the next three close
  void close_tuple() { add('t'); }  // open, item, …, close_tuple
  void empty_dict() { add('}'); }   // empty_dict, open, key, value, …, close_dict
  void close_dict() { add('u'); }
  void empty_list() { add(']'); }  // empty_list, open, item, …, close_list
  void close_list() { add('e'); }
  void call() { add('R'); }       // callable, tuple of arguments -> its result
  void set_state() { add('b'); }  // object, state -> object

  [[nodiscard]] std::string finish();

 private:
  void add(char opcode) { out_ += opcode; }
  template <class Number>
  void add_bytes(Number value);
  std::string out_;
};

}  // namespace exeunt
