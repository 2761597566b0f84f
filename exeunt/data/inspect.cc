// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/inspect.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/secret_hash.h"
#include "exeunt/base/suggest.h"
#include "exeunt/data/gold_reader.h"
#include "exeunt/data/rows.h"

namespace exeunt {
namespace {

constexpr size_t kNamed = 5;             // examples in one sentence
constexpr size_t kMostCompared = 1000;   // labels compared with each other
constexpr double kRepeatedShare = 0.01;  // of the rows, from which repeated ones are worth a sentence

// One key per text, or pair of texts. A hash, so that a large file is not in memory twice.
size_t key_of(const Example& example) {
  const SecretHash hash;
  return example.pair ? hash(example.text + '\0' + *example.pair) : hash(std::string_view(example.text));
}

int64_t words_in(std::string_view text) {
  int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    words += !blank && !inside ? 1 : 0;
    inside = !blank;
  }
  return words;
}

bool has_digit(std::string_view text) noexcept {
  return text.find_first_of("0123456789") != std::string_view::npos;
}

// A typo is rare beside what was meant, and most letters are right: "spam" is no typo of "ham". "topic 1" and "topic 2"
// are two topics.
std::vector<NearLabels> near_labels(const Dataset& data, const std::vector<int64_t>& counts) {
  std::vector<NearLabels> out;
  if (data.labels.size() > kMostCompared) return out;
  for (size_t i = 0; i < data.labels.size(); ++i) {
    if (counts[i] == 0 || data.labels[i].size() < 4 || has_digit(data.labels[i])) continue;
    std::vector<std::string> common;
    for (size_t j = 0; j < data.labels.size(); ++j) {
      const size_t most = std::min<size_t>(2, std::min(data.labels[i].size(), data.labels[j].size()) / 2);
      if (counts[j] >= 10 * counts[i] && edit_distance(data.labels[i], data.labels[j]) <= most)
        common.push_back(data.labels[j]);
    }
    const std::string best = nearest(data.labels[i], common);
    if (best.empty()) continue;
    const auto at = std::find(data.labels.begin(), data.labels.end(), best) - data.labels.begin();
    out.push_back({data.labels[i], best, counts[i], counts[static_cast<size_t>(at)]});
  }
  return out;
}

void count_labels(const Dataset& data, DataFacts& facts) {
  facts.label_counts.assign(data.labels.size(), 0);
  for (const Example& example : data.examples) ++facts.label_counts[static_cast<size_t>(example.gold)];
  for (size_t i = 0; i < data.labels.size(); ++i) {
    const int64_t rows = facts.label_counts[i];
    if (rows == 0) facts.absent.push_back(data.labels[i]);
    if (rows > 0 && rows < kRareRows) facts.rare.push_back(data.labels[i]);
    if (rows > 0 && looks_missing(data.labels[i])) {
      facts.missing.push_back(data.labels[i]);
      facts.missing_rows += rows;
    }
  }
  facts.near = near_labels(data, facts.label_counts);
}

void count_repeated(const Dataset& data, DataFacts& facts) {
  std::unordered_map<size_t, float> first;
  for (const Example& example : data.examples) {
    const auto [found, added] = first.emplace(key_of(example), example.gold);
    if (added) continue;
    ++facts.repeated;
    if (!data.labelled || found->second == example.gold) continue;
    if (facts.contradictions++ == 0) facts.first_contradiction = example.index;
  }
}

// "a (3), b (1) and 4 more".
std::string named(const std::vector<std::string>& labels, const DataFacts& facts, const Dataset& data) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(kNamed, labels.size()); ++i) {
    const auto at = std::find(data.labels.begin(), data.labels.end(), labels[i]) - data.labels.begin();
    parts.push_back(fmt::format("{} ({})", shown(labels[i]), facts.label_counts[static_cast<size_t>(at)]));
  }
  const std::string more = labels.size() > kNamed ? fmt::format(" and {} more", labels.size() - kNamed) : "";
  return fmt::format("{}{}", fmt::join(parts, ", "), more);
}

}  // namespace

DataFacts inspect(const Dataset& data) {
  DataFacts facts;
  facts.rows = static_cast<int64_t>(data.examples.size());
  if (data.labelled && data.problem == Problem::classification) count_labels(data, facts);
  count_repeated(data, facts);
  std::vector<int64_t> words;
  for (const Example& example : data.examples) {
    facts.pairs += example.pair ? 1 : 0;
    words.push_back(words_in(example.text) + (example.pair ? words_in(*example.pair) : 0));
  }
  if (words.empty()) return facts;
  std::sort(words.begin(), words.end());
  facts.median_words = words[words.size() / 2];
  facts.most_words = words.back();
  return facts;
}

int64_t shared_rows(const Dataset& data, const Dataset& other) {
  std::unordered_set<size_t> texts;
  for (const Example& example : data.examples) texts.insert(key_of(example));
  return std::count_if(other.examples.begin(), other.examples.end(),
                       [&](const Example& example) { return texts.contains(key_of(example)); });
}

std::vector<std::string> warnings_of(const DataFacts& facts, const Dataset& data, DataUse use) {
  std::vector<std::string> out;
  const auto say = [&](const std::string& text) { out.push_back(fmt::format("{}: {}", data.where, text)); };
  if (!facts.missing.empty()) {
    say(fmt::format("the label {} stands for a missing value and is a class here; --skip-bad leaves such rows out",
                    named(facts.missing, facts, data)));
  }
  for (size_t i = 0; i < std::min(kNamed, facts.near.size()); ++i) {
    const NearLabels& near = facts.near[i];
    say(fmt::format("labels {} ({}) and {} ({}) differ by a letter or two: are they the same?", shown(near.rare),
                    near.rare_rows, shown(near.common), near.common_rows));
  }
  // If all labels are rare, the file is just small.
  if (!facts.rare.empty() && facts.rare.size() < data.labels.size() && use == DataUse::learn) {
    say(fmt::format("{} of {} labels {} fewer than {} rows, too few to learn: {}", facts.rare.size(),
                    data.labels.size(), facts.rare.size() == 1 ? "has" : "have", kRareRows,
                    named(facts.rare, facts, data)));
  }
  const bool many = static_cast<double>(facts.repeated) >= kRepeatedShare * static_cast<double>(facts.rows);
  if (facts.contradictions > 0) {
    say(fmt::format("{} row{} an earlier one's text with another label, the first is row {}", facts.contradictions,
                    facts.contradictions == 1 ? " repeats" : "s repeat", facts.first_contradiction));
  } else if (facts.repeated > 0 && many) {
    say(fmt::format("{} of {} rows repeat an earlier one's text", facts.repeated, facts.rows));
  }
  return out;
}

UserReport check_user_data(const std::string& name, const UserColumns& columns) {
  UserReport report;
  const auto note = [&](const Error& error) {
    ++report.problem_count;
    if (report.problems.size() < kMaxProblems) report.problems.emplace_back(error.what());
  };
  report.data = read_user_data(name, columns, note);
  report.facts = inspect(report.data);
  return report;
}

}  // namespace exeunt
