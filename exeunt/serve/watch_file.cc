// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/watch_file.h"

#include <array>

#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"

namespace exeunt::serve {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr std::array<std::string_view, 1> kFormats = {"exeunt.watch/1"};

struct WatchFile {
  std::string format = std::string(kFormats[0]);
  std::vector<WatchedBets> points = {};

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "format", .choices = kFormats, .required = true}, self.format);
    visit(Field{.name = "points", .required = true}, self.points);
  }
};

}  // namespace

template <class Self, class Visit>
void WatchedBets::fields(Self& self, Visit&& visit) {
  visit(Field{.name = "policy", .required = true}, self.policy);
  visit(Field{.name = "max_drop", .low = 0, .high = 1, .required = true}, self.max_drop);
  visit(Field{.name = "created", .required = true}, self.created);
  visit(Field{.name = "others"}, self.others);
  visit(Field{.name = "losses", .low = 0, .required = true}, self.losses);
  visit(Field{.name = "wealth", .low = 0, .high = 1e100, .required = true}, self.wealth);
  visit(Field{.name = "alarm", .required = true}, self.alarm);
}

std::vector<WatchedBets> read_watch_file(const std::filesystem::path& path) {
  if (!path_exists(path)) return {};
  const WatchFile file = read_fields<WatchFile>(parse_json(read_text(path, kMostBytes), path.string()), path.string());
  for (const WatchedBets& point : file.points) {
    if (point.wealth.size() != RiskAlarm::Memory{}.wealth.size())
      throw_bad_file(path.string(), "wealth: got {} numbers, want {}", point.wealth.size(),
                     RiskAlarm::Memory{}.wealth.size());
  }
  return file.points;
}

std::string watch_file_text(const std::vector<WatchedBets>& points) {
  return fields_json(WatchFile{.points = points}).dump(1) + "\n";
}

}  // namespace exeunt::serve
