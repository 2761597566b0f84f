// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/profile.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/model/spec.h"

namespace exeunt {
namespace {

constexpr std::string_view kProfileFormat = "exeunt.profile/1";
constexpr size_t kMaxProfileEntries = 1000, kMaxLengths = 100;

std::vector<int> read_lengths(JsonObject& entry) {
  const Json& list = entry.get("lengths");
  if (!list.is_array() || list.empty() || list.size() > kMaxLengths)
    entry.fail("lengths", glimpse(list), fmt::format("a list of 1 to {} lengths", kMaxLengths));
  std::vector<int> lengths;
  for (const Json& value : list) {
    const bool fits =
        value.is_number_unsigned() && value.get<uint64_t>() >= 1 && value.get<uint64_t>() <= kMaxPositions;
    if (!fits || (!lengths.empty() && value.get<int>() <= lengths.back()))
      entry.fail("lengths", glimpse(value), "rising numbers of tokens from 1 on");
    lengths.push_back(value.get<int>());
  }
  return lengths;
}

// One time per length.
std::vector<double> read_times(JsonObject& entry, std::string_view name, const Json& list, size_t lengths) {
  if (!list.is_array() || list.size() != lengths)
    entry.fail(name, glimpse(list), fmt::format("a list of {} times, one per length", lengths));
  std::vector<double> times;
  for (const Json& value : list) {
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= 1e9))
      entry.fail(name, glimpse(value), "milliseconds from 0 to 1e9");
    times.push_back(value.get<double>());
  }
  return times;
}

std::vector<std::vector<double>> read_layers(JsonObject& entry, std::string_view name, const Json& list,
                                             std::pair<int, size_t> shape) {
  if (!list.is_array() || list.size() != static_cast<size_t>(shape.first))
    entry.fail(name, glimpse(list), fmt::format("{} lists, one per layer of the model", shape.first));
  std::vector<std::vector<double>> layers;
  for (const Json& times : list) layers.push_back(read_times(entry, name, times, shape.second));
  return layers;
}

ProfileEntry read_entry(const Json& value, int layers, const std::string& where) {
  JsonObject object(value, where);
  ProfileEntry entry;
  entry.precision = object.choice("precision", {"fp32", "bf16", "int8"});
  entry.threads = static_cast<int>(object.integer("threads", 1, 4096));
  entry.isa = object.string("isa");
  entry.lengths = read_lengths(object);
  const size_t lengths = entry.lengths.size();
  entry.embedding_ms = read_times(object, "embedding_ms", object.get("embedding_ms"), lengths);
  entry.layer_ms = read_layers(object, "layer_ms", object.get("layer_ms"), {layers, lengths});
  if (const Json* leave = object.find("leave_ms"))
    entry.leave_ms = read_layers(object, "leave_ms", *leave, {layers, lengths});
  entry.exit_ms = read_times(object, "exit_ms", object.get("exit_ms"), lengths);
  entry.pack_rows = static_cast<int>(object.integer_or("pack_rows", 1, kMaxPackRows, 0));
  object.finish();
  return entry;
}

// The time at `tokens`, from those at `lengths`.
double at_length(const std::vector<int>& lengths, const std::vector<double>& times, int tokens) {
  if (lengths.size() == 1) return times.front() * tokens / lengths.front();
  const auto above = std::upper_bound(lengths.begin() + 1, lengths.end() - 1, tokens);
  const auto right = static_cast<size_t>(above - lengths.begin());
  const double share = static_cast<double>(tokens - lengths[right - 1]) / (lengths[right] - lengths[right - 1]);
  return std::max(0.0, times[right - 1] + share * (times[right] - times[right - 1]));
}

}  // namespace

std::string ProfileEntry::name() const {
  return fmt::format("{}, {} thread{}, {}", precision, threads, threads == 1 ? "" : "s", isa);
}

Profile parse_profile(const Json& json, int layers, const std::string& where) {
  JsonObject object(json, where);
  const std::string format = object.string("format");
  if (format != kProfileFormat)
    throw_bad_file(where, "got the format '{}', want '{}'", format.substr(0, 64), kProfileFormat);
  Profile profile;
  profile.device = object.string_or("device", "");
  profile.tool = object.string_or("tool", "");
  profile.created = object.string_or("created", "");
  const Json& entries = object.get("entries");
  if (!entries.is_array() || entries.size() > kMaxProfileEntries)
    object.fail("entries", glimpse(entries), fmt::format("a list of at most {} entries", kMaxProfileEntries));
  for (const Json& value : entries) {
    const std::string place = fmt::format("{}: entries[{}]", where, profile.entries.size());
    profile.entries.push_back(read_entry(value, layers, place));
  }
  object.finish();
  return profile;
}

Profile read_profile(const ReadPath& path, int layers) {
  return parse_profile(read_json(path), layers, path.string());
}

OrderedJson profile_json(const Profile& profile) {
  OrderedJson out;
  out["format"] = kProfileFormat;
  out["device"] = profile.device;
  out["tool"] = profile.tool;
  out["created"] = profile.created;
  out["entries"] = OrderedJson::array();
  for (const ProfileEntry& entry : profile.entries) {
    OrderedJson one;
    one["precision"] = entry.precision;
    one["threads"] = entry.threads;
    one["isa"] = entry.isa;
    one["lengths"] = entry.lengths;
    one["embedding_ms"] = entry.embedding_ms;
    one["layer_ms"] = entry.layer_ms;
    if (!entry.leave_ms.empty()) one["leave_ms"] = entry.leave_ms;
    one["exit_ms"] = entry.exit_ms;
    if (entry.pack_rows > 0) one["pack_rows"] = entry.pack_rows;
    out["entries"].push_back(std::move(one));
  }
  return out;
}

const ProfileEntry* find_entry(const Profile& profile, std::string_view precision, int threads) {
  const ProfileEntry* best = nullptr;
  for (const ProfileEntry& entry : profile.entries) {
    if (entry.precision != precision) continue;
    if (entry.threads == threads) return &entry;
    if (best == nullptr || entry.threads < best->threads) best = &entry;
  }
  return best;
}

int measured_pack_rows(const Profile& profile, std::string_view device, std::string_view precision,
                       std::string_view isa) {
  if (profile.device != device) return 0;
  for (const ProfileEntry& entry : profile.entries) {
    if (entry.pack_rows > 0 && entry.precision == precision && entry.isa == isa) return entry.pack_rows;
  }
  return 0;
}

double predicted_ms(const ProfileEntry& entry, const TimedDeparture& departure) {
  check(departure.after >= 1 && static_cast<size_t>(departure.after) <= entry.layer_ms.size(), "a layer of the model");
  const auto time = [&](const std::vector<double>& times) { return at_length(entry.lengths, times, departure.tokens); };
  const auto last = static_cast<size_t>(departure.after) - 1;
  double total = time(entry.embedding_ms) + departure.asked * time(entry.exit_ms);
  for (size_t layer = 0; layer < last; ++layer) total += time(entry.layer_ms[layer]);
  return total + time(entry.leave_ms.empty() ? entry.layer_ms[last] : entry.leave_ms[last]);
}

}  // namespace exeunt
