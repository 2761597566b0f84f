// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/profile.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr std::string_view kProfileFormat = "exeunt.profile/1";
constexpr size_t kMaxProfileEntries = 1000, kMaxLengths = 100;

// What the list of fields does not say: every list has a column for each length, those of layers a row for each layer.
void check_entry(const ProfileEntry& entry, int layers, const std::string& where) {
  const std::vector<int>& lengths = entry.lengths;
  if (lengths.empty() || lengths.size() > kMaxLengths)
    throw_bad_file(where, "field 'lengths': got {}, want a list of 1 to {} lengths", lengths.size(), kMaxLengths);
  if (std::ranges::adjacent_find(lengths, std::greater_equal{}) != lengths.end())
    throw_bad_file(where, "field 'lengths': want rising numbers of tokens");
  const auto check_times = [&](std::string_view name, const std::vector<double>& times) {
    if (times.size() == lengths.size()) return;
    throw_bad_file(where, "field '{}': got {} times, want {}, one per length", name, times.size(), lengths.size());
  };
  const auto check_layers = [&](std::string_view name, const std::vector<std::vector<double>>& lists) {
    if (lists.size() != static_cast<size_t>(layers))
      throw_bad_file(where, "field '{}': got {} lists, want {} lists, one per layer of the model", name, lists.size(),
                     layers);
    for (const std::vector<double>& times : lists) check_times(name, times);
  };
  check_times("embedding_ms", entry.embedding_ms);
  check_layers("layer_ms", entry.layer_ms);
  if (!entry.leave_ms.empty()) check_layers("leave_ms", entry.leave_ms);
  check_times("exit_ms", entry.exit_ms);
  if (!entry.exit_0_ms.empty()) check_times("exit_0_ms", entry.exit_0_ms);
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
  read_fields(object, profile);
  object.finish();
  if (profile.entries.size() > kMaxProfileEntries)
    throw_bad_file(where, "got {} entries, want at most {}", profile.entries.size(), kMaxProfileEntries);
  for (size_t i = 0; i < profile.entries.size(); ++i)
    check_entry(profile.entries[i], layers, fmt::format("{}: entries[{}]", where, i));
  return profile;
}

Profile read_profile(const ReadPath& path, int layers) {
  return parse_profile(read_json(path), layers, path.string());
}

OrderedJson profile_json(const Profile& profile) {
  OrderedJson out{{"format", kProfileFormat}};
  out.update(fields_json(profile));
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
    if (entry.pack_rows && entry.precision == precision && entry.isa == isa) return *entry.pack_rows;
  }
  return 0;
}

double predicted_ms(const ProfileEntry& entry, const TimedDeparture& departure) {
  check(departure.after >= 0 && static_cast<size_t>(departure.after) <= entry.layer_ms.size(), "a layer of the model");
  const auto time = [&](const std::vector<double>& times) { return at_length(entry.lengths, times, departure.tokens); };
  const double exit = time(entry.exit_ms), exit_0 = entry.exit_0_ms.empty() ? exit : time(entry.exit_0_ms);
  if (departure.after == 0) return exit_0;
  const auto last = static_cast<size_t>(departure.after) - 1;
  double total = time(entry.embedding_ms) + departure.asked * exit + (departure.exit_0 ? exit_0 - exit : 0);
  for (size_t layer = 0; layer < last; ++layer) total += time(entry.layer_ms[layer]);
  return total + time(entry.leave_ms.empty() ? entry.layer_ms[last] : entry.leave_ms[last]);
}

}  // namespace exeunt
