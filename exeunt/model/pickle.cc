// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/pickle.h"

#include <algorithm>
#include <array>

#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/model/bytes.h"

namespace exeunt {
namespace {

using Kind = PickleValue::Kind;
using Role = PickleName::Role;

struct Opcode {
  uint8_t code = 0;
  std::string_view name = {};
};

#include "pickle_names.inc"  // made from pickle_names.json

enum class Op : uint8_t {};

// "MARK"_op; the compiler rejects a name that is not in the table.
consteval Op operator""_op(const char* name, size_t size) {
  const auto is_it = [&](const Opcode& known) { return known.name == std::string_view(name, size); };
  return Op{std::ranges::find_if(kPickleOpcodes, is_it)->code};
}

// Null for a name that no state dict needs.
const PickleName* find_pickle_name(std::string_view module, std::string_view name) noexcept {
  for (const PickleName& known : kPickleNames) {
    if (known.name == name && known.module == module) return &known;
  }
  return nullptr;
}

// A state dict of a thousand tensors makes about 20,000 values. The limits keep a hostile pickle under 40 MiB.
constexpr size_t kMaxValues = 1 << 18, kMaxStack = 1 << 18, kMaxItems = 1 << 20;
constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxNameLine = 256;
constexpr size_t kMemoSlack = 256;  // writers number memo places as they go, some from 1
constexpr PickleRef kUnset = ~PickleRef{0};

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  Pickle run() {
    if (bytes_.size() < 2 || bytes_[0] != std::byte{0x80}) fail("no pickle of protocol 2 starts here");
    if (const auto protocol = static_cast<int>(bytes_[1]); protocol != 2)
      fail("got pickle protocol {}, want 2, which torch.save uses", protocol);
    next_ = 2;
    while (true) {
      place_ = next_;
      const auto op = take<Op>();
      if (op == "STOP"_op) break;
      step(op);
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("got {} values at the end, want 1", stack_.size());
    out_.root = stack_.back();
    out_.size = next_;
    return std::move(out_);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw_bad_file(fmt::format("{}: byte {}", where_, place_), text, std::forward<Args>(args)...);
  }

  std::span<const std::byte> take_bytes(size_t count) {
    if (count > bytes_.size() - next_)
      fail("the pickle is truncated: got {} bytes, want {}", bytes_.size() - next_, count);
    next_ += count;
    return bytes_.subspan(next_ - count, count);
  }
  template <class T>
  T take() {
    return load_at<T>(take_bytes(sizeof(T)), 0);
  }
  std::string_view take_line() {
    const auto rest = text_of(bytes_.subspan(next_, std::min(bytes_.size() - next_, kMaxNameLine)));
    const size_t end = rest.find('\n');
    if (end == rest.npos) fail("a name is truncated or longer than {} bytes", kMaxNameLine);
    next_ += end + 1;
    return rest.substr(0, end);
  }

  PickleValue& value(PickleRef ref) { return out_.values[ref]; }
  PickleValue& top() {
    if (stack_.size() <= floor()) fail("the stack is empty");
    return value(stack_.back());
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  void push(PickleRef ref) {
    if (stack_.size() >= kMaxStack) fail("more than {} values wait on the stack", kMaxStack);
    stack_.push_back(ref);
  }
  PickleRef make(PickleValue made) {
    if (out_.values.size() >= kMaxValues) fail("more than {} values", kMaxValues);
    out_.values.push_back(std::move(made));
    return static_cast<PickleRef>(out_.values.size() - 1);
  }
  void push_new(PickleValue made) { push(make(std::move(made))); }
  PickleRef pop() {
    (void)top();
    const PickleRef ref = stack_.back();
    stack_.pop_back();
    return ref;
  }
  // The values above the last mark, which goes away.
  std::vector<PickleRef> pop_to_mark() {
    if (marks_.empty()) fail("no mark is left");
    std::vector<PickleRef> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleRef> pop_last(size_t count) {
    if (stack_.size() < floor() + count) fail("got {} values on the stack, want {}", stack_.size() - floor(), count);
    std::vector<PickleRef> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  // Adds `items` to the value `into`, counting them all and how deep they nest.
  void put_into(PickleRef into, std::span<const PickleRef> items) {
    if (items.size() > kMaxItems - items_) fail("more than {} items in tuples, lists and dicts", kMaxItems);
    items_ += items.size();
    PickleValue& target = value(into);
    for (const PickleRef item : items) {
      const size_t depth = value(item).depth + size_t{1};
      if (depth > kMaxDepth) fail("values nest more than {} deep", kMaxDepth);
      target.depth = std::max(target.depth, static_cast<uint8_t>(depth));
    }
    target.items.insert(target.items.end(), items.begin(), items.end());
  }
  void push_with(PickleValue empty, const std::vector<PickleRef>& items) {
    const PickleRef made = make(std::move(empty));
    put_into(made, items);
    push(made);
  }

  void step(Op op);
  bool push_scalar(Op op);
  bool collect(Op op);
  void push_text(size_t size);
  int64_t take_long();
  void push_name();
  void remember(size_t index);
  void recall(size_t index);
  void store_items(const std::vector<PickleRef>& items, Kind wanted);
  void build();
  void reduce();
  PickleRef ordered_dict(const std::vector<PickleRef>& arguments);

  std::span<const std::byte> bytes_;
  std::string_view where_;
  size_t next_ = 0, place_ = 0, items_ = 0;
  Pickle out_;
  std::vector<PickleRef> stack_, memo_;
  std::vector<size_t> marks_;  // heights of the stack
};

void Machine::step(Op op) {
  if (push_scalar(op) || collect(op)) return;
  if (op == "BINPUT"_op) return remember(take<uint8_t>());
  if (op == "LONG_BINPUT"_op) return remember(take<uint32_t>());
  if (op == "BINGET"_op) return recall(take<uint8_t>());
  if (op == "LONG_BINGET"_op) return recall(take<uint32_t>());
  if (op == "REDUCE"_op) return reduce();
  if (op == "BUILD"_op) return build();
  if (op == "BINPERSID"_op) return push_with({.kind = Kind::stored}, pop_last(1));
  const auto code = static_cast<uint8_t>(op);
  const std::string_view name = opcode_name(code);
  fail("opcode {} ({:#04x}) is not one that weights need", name.empty() ? "unknown" : name, code);
}

// Opcodes that stand for a value. False if `op` is none of them.
bool Machine::push_scalar(Op op) {
  const auto push_integer = [&](int64_t number) { push_new({.kind = Kind::integer, .integer = number}); };
  if (op == "NONE"_op) {
    push_new({.kind = Kind::none});
  } else if (op == "NEWTRUE"_op || op == "NEWFALSE"_op) {
    push_new({.kind = Kind::boolean, .integer = op == "NEWTRUE"_op ? 1 : 0});
  } else if (op == "BININT"_op) {
    push_integer(take<int32_t>());
  } else if (op == "BININT1"_op) {
    push_integer(take<uint8_t>());
  } else if (op == "BININT2"_op) {
    push_integer(take<uint16_t>());
  } else if (op == "LONG1"_op) {
    push_integer(take_long());
  } else if (op == "BINFLOAT"_op) {  // no weight is written so; the number itself is not kept
    (void)take_bytes(8);
    push_new({.kind = Kind::real});
  } else if (op == "BINUNICODE"_op || op == "BINSTRING"_op) {
    push_text(take<uint32_t>());
  } else if (op == "SHORT_BINSTRING"_op) {
    push_text(take<uint8_t>());
  } else if (op == "GLOBAL"_op) {
    push_name();
  } else {
    return false;
  }
  return true;
}

// Opcodes that make and fill tuples, lists and dicts. False if `op` is none of them.
bool Machine::collect(Op op) {
  if (op == "MARK"_op) {
    if (marks_.size() >= kMaxDepth) fail("more than {} marks", kMaxDepth);
    marks_.push_back(stack_.size());
  } else if (op == "EMPTY_TUPLE"_op) {
    push_with({.kind = Kind::tuple}, {});
  } else if (op == "TUPLE"_op) {
    push_with({.kind = Kind::tuple}, pop_to_mark());
  } else if (op >= "TUPLE1"_op && op <= "TUPLE3"_op) {
    push_with({.kind = Kind::tuple}, pop_last(static_cast<size_t>(op) - static_cast<size_t>("TUPLE1"_op) + 1));
  } else if (op == "EMPTY_LIST"_op || op == "EMPTY_DICT"_op) {
    push_new({.kind = op == "EMPTY_LIST"_op ? Kind::list : Kind::dict});
  } else if (op == "APPEND"_op || op == "APPENDS"_op) {
    store_items(op == "APPEND"_op ? pop_last(1) : pop_to_mark(), Kind::list);
  } else if (op == "SETITEM"_op || op == "SETITEMS"_op) {
    store_items(op == "SETITEM"_op ? pop_last(2) : pop_to_mark(), Kind::dict);
  } else {
    return false;
  }
  return true;
}

void Machine::push_text(size_t size) {
  const std::string_view text = text_of(take_bytes(size));
  if (find_invalid_utf8(text)) fail("a string is not UTF-8");
  push_new({.kind = Kind::text, .text = text});
}

int64_t Machine::take_long() {
  const size_t size = take<uint8_t>();
  if (size > 8) fail("got a number of {} bytes, want at most 8", size);
  const auto bytes = take_bytes(size);
  uint64_t number = size > 0 && static_cast<uint8_t>(bytes.back()) >= 0x80 ? ~uint64_t{0} : 0;  // the sign
  std::ranges::copy(bytes, reinterpret_cast<std::byte*>(&number));
  return static_cast<int64_t>(number);
}

void Machine::push_name() {
  const std::string_view module = take_line(), name = take_line();
  const PickleName* known = find_pickle_name(module, name);
  if (known == nullptr)
    fail("it names '{}.{}', which is not one of the names that weights need", printable(module), printable(name));
  push_new({.kind = Kind::name, .name = known});
}

void Machine::remember(size_t index) {
  (void)top();
  const size_t limit = out_.values.size() + kMemoSlack;
  if (index >= limit) fail("got memo place {} after {} values, want less than {}", index, out_.values.size(), limit);
  if (index >= memo_.size()) memo_.resize(index + 1, kUnset);
  memo_[index] = stack_.back();
}

void Machine::recall(size_t index) {
  if (index >= memo_.size() || memo_[index] == kUnset) fail("memo place {} is empty", index);
  push(memo_[index]);
}

void Machine::store_items(const std::vector<PickleRef>& items, Kind wanted) {
  PickleValue& target = top();
  if (target.kind != wanted) fail("got {} to put items into, want {}", name_of(target.kind), name_of(wanted));
  if (wanted == Kind::dict && items.size() % 2 != 0) fail("a dict gets a key without a value");
  put_into(stack_.back(), items);
}

// Python would hand the state to the object. Only a dict may get some (a state dict's `_metadata`), and it is dropped.
void Machine::build() {
  const Kind state = value(pop()).kind, target = top().kind;
  if (state != Kind::dict || target != Kind::dict)
    fail("it sets the state of {} from {}, want attributes of a dict", name_of(target), name_of(state));
}

// Python would call the function. Here a dict is made, a size is a tuple, and the making of a tensor is written down.
void Machine::reduce() {
  const PickleRef arguments = pop(), function = pop();
  const PickleName* name = value(function).name;
  if (value(function).kind != Kind::name) fail("it calls {}, want a function by name", name_of(value(function).kind));
  if (value(arguments).kind != Kind::tuple)
    fail("it calls '{}.{}' with {}, want a tuple", name->module, name->name, name_of(value(arguments).kind));
  const std::vector<PickleRef> items = value(arguments).items;
  switch (name->role) {
    case Role::ordered_dict:
      return push(ordered_dict(items));
    case Role::size:
      if (items.size() != 1 || value(items[0]).kind != Kind::tuple) fail("torch.Size wants one tuple");
      return push(items[0]);
    case Role::rebuild_tensor:
    case Role::rebuild_tensor_v2:
    case Role::rebuild_parameter:
      return push_with({.kind = Kind::call, .name = name}, items);
    case Role::storage:
    case Role::dtype:
      break;
  }
  fail("it calls '{}.{}', which is no function", name->module, name->name);
}

// OrderedDict(), or OrderedDict([[key, value], …]) as Python 2 wrote it.
PickleRef Machine::ordered_dict(const std::vector<PickleRef>& arguments) {
  const PickleRef made = make({.kind = Kind::dict});
  if (arguments.empty()) return made;
  if (arguments.size() != 1 || value(arguments[0]).kind != Kind::list) fail("OrderedDict wants nothing or one list");
  const std::vector<PickleRef> pairs = value(arguments[0]).items;
  for (const PickleRef pair : pairs) {
    const PickleValue& entry = value(pair);
    if ((entry.kind != Kind::list && entry.kind != Kind::tuple) || entry.items.size() != 2)
      fail("OrderedDict wants pairs of key and value");
    put_into(made, std::vector<PickleRef>(entry.items));
  }
  return made;
}

}  // namespace

Pickle parse_pickle(std::span<const std::byte> bytes, std::string_view where) {
  return with_hint(kSaveWeights, [&] { return Machine(bytes, where).run(); });
}

std::string_view name_of(PickleValue::Kind kind) noexcept {
  constexpr std::string_view kNamesOfKinds[] = {"None",   "a boolean", "an integer", "a float",  "a string", "a tuple",
                                                "a list", "a dict",    "a name",     "a tensor", "a storage"};
  return kNamesOfKinds[static_cast<size_t>(kind)];
}

std::string_view opcode_name(uint8_t opcode) noexcept {
  for (const Opcode& known : kPickleOpcodes) {
    if (known.code == opcode) return known.name;
  }
  return {};
}

}  // namespace exeunt
