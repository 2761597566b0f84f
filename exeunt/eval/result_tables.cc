// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/result_tables.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/eval/table_kinds.h"
#include "exeunt/tasks/task.h"

namespace exeunt {
namespace {

struct SectionKind {
  std::string_view name, title;
  ResultTables (*make)(const StoredResults&);
  std::string_view needs, maker;  // what of the folder it is made of, and who writes that
};

constexpr std::array<SectionKind, 10> kSections{{
    {"speed", "Speed of training", speed_tables, "*-speed.json", "benchmarks/peers/training.py measures"},
    {"chosen", "SST-2: a threshold chosen on held-out rows", chosen_tables,
     "curves.json and runs of plain on SST-2 with held-out rows", "benchmarks/grid trains"},
    {"beside", "Beside plain PyTorch", beside_tables, "reference.json", ""},
    {"exits", "Every exit", exit_tables, "run of a task it knows in grid", "benchmarks/grid trains"},
    {"policies", "Policies", policy_tables, "curves.json", "benchmarks/reproducing.py --curves writes"},
    {"cut-short", "Models cut short", cut_short_tables, "run of elue-SST-2, elue-MRPC or elue-STS-B in grid",
     "benchmarks/grid trains"},
    {"tried", "What was tried to make `exeunt` better", trial_tables, "trials/*.json", "benchmarks/trials makes"},
    {"objectives", "`exeunt` with the objectives `sum` and `linear`", objective_tables, "objectives/*.json", ""},
    {"watched", "`pabee` at layer 6 of SST-2 while it learns", watched_tables, "pabee-watched.json", ""},
    {"attention", "Runs that ended in NaN, by attention", attention_tables, "attention.json", ""},
}};

std::string with_commas(int64_t count) {
  std::string text = fmt::format("{}", count);
  for (size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, 1, ',');
  return text;
}

[[noreturn]] void throw_unsaid(const StoredResults& results, std::string_view what) {
  throw Error(Code::bad_file, fmt::format("{}: got no run in grid that says {}", results.folder.string(), what),
              "benchmarks/grid keeps it");
}

std::string runs_phrase(const StoredResults& results) {
  int64_t steps = 0;
  for (const StoredRun& run : results.runs) steps += run.steps;
  return fmt::format("{} runs with {} steps", results.runs.size(), with_commas(steps));
}

std::string torch_phrase(const StoredResults& results) {
  std::set<std::string> versions;
  for (const StoredRun& run : results.runs) {
    if (!run.torch.empty()) versions.insert(run.torch);
  }
  if (versions.empty()) throw_unsaid(results, "which LibTorch trained it (settings.provenance.torch)");
  return fmt::format("LibTorch {}", fmt::join(versions, " and "));
}

// How far the best and the worst seed lie apart at the last exit, on average over the recipes with several seeds.
std::string seeds_phrase(const StoredResults& results) {
  std::vector<std::string> parts;
  for (const std::string_view task : kWholeTasks) {
    std::vector<double> spreads;
    for (const std::string_view recipe : kGridRecipes) {
      std::vector<double> scores;
      for (const StoredRun* run : runs_of(results, task, recipe)) {
        const auto score = run->exits.empty() ? std::nullopt : score_of(task, run->exits.back());
        if (score) scores.push_back(*score);
      }
      if (scores.size() < 2) continue;
      const auto [least, most] = std::minmax_element(scores.begin(), scores.end());
      spreads.push_back(*most - *least);
    }
    if (const auto mean = mean_of(spreads)) parts.push_back(fmt::format("{:.1f} on {}", *mean, task));
  }
  if (parts.empty()) throw_unsaid(results, "what a second seed of its recipe and task reaches");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string held_out_phrase(const StoredResults& results) {
  std::set<int64_t> counts;
  for (const StoredRun& run : results.runs) {
    if (run.task == "SST-2" && run.train_rows > 0) counts.insert(run.train_rows);
  }
  if (counts.empty()) throw_unsaid(results, "on how many rows of SST-2 it was trained (results.train_samples)");
  if (counts.size() > 1) {
    throw_bad_file((results.folder / "grid").string(), "got runs of SST-2 on {} rows, want one number of rows",
                   fmt::join(counts, " and "));
  }
  return with_commas(find_task("SST-2").find(Split::train)->rows - *counts.begin());
}

// Which runs were trained while long texts went through cuDNN's kernel of attention.
std::string cudnn_phrase(const StoredResults& results) {
  struct Count {
    size_t cudnn = 0, all = 0;
  };
  Count sum;
  std::map<std::string, Count> counts;
  for (const StoredRun& run : results.runs) {
    if (run.attention.empty()) {
      throw_bad_file((results.folder / "grid").string(),
                     "got a run of {} on {} without 'attention', want the kernel it was trained with", run.recipe,
                     run.task);
    }
    for (Count* count : {&sum, &counts[run.layers > 0 ? "models cut short" : run.task]}) {
      count->cudnn += run.attention == "cudnn" ? 1 : 0;
      ++count->all;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) {
    if (count.cudnn > 0) parts.push_back(fmt::format("{}: {} of {}", name, count.cudnn, count.all));
  }
  return fmt::format("{} of the {} runs ({})", sum.cudnn, sum.all, fmt::join(parts, ", "));
}

std::string watched_phrase(const StoredResults& results) {
  const int64_t rows = watched_rows(results);
  if (rows == 0) {
    throw_bad_file(results.folder.string(), "got no run in pabee-watched.json, want the rows it was trained on");
  }
  return with_commas(rows);
}

struct PhraseKind {
  std::string_view name;
  std::string (*make)(const StoredResults&);
};

constexpr std::array<PhraseKind, 6> kPhrases{{{"runs", runs_phrase},
                                              {"torch", torch_phrase},
                                              {"seeds", seeds_phrase},
                                              {"held-out-rows", held_out_phrase},
                                              {"cudnn-runs", cudnn_phrase},
                                              {"watched-rows", watched_phrase}}};

template <class Kinds>
std::vector<std::string> names_of(const Kinds& kinds) {
  std::vector<std::string> names;
  for (const auto& kind : kinds) names.emplace_back(kind.name);
  return names;
}

template <class Kinds>
const auto& kind_named(const Kinds& kinds, std::string_view name, std::string_view what) {
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.name == name; });
  if (found == kinds.end())
    throw Error(Code::usage, fmt::format("unknown {} '{}'", what, name), suggestion(name, names_of(kinds)));
  return *found;
}

ResultSection made(const SectionKind& kind, const StoredResults& results) {
  return {.name = std::string(kind.name), .title = std::string(kind.title), .tables = kind.make(results)};
}

}  // namespace

std::vector<std::string> section_names() {
  return names_of(kSections);
}

ResultSection section_named(const StoredResults& results, std::string_view name) {
  const SectionKind& kind = kind_named(kSections, name, "table");
  ResultSection section = made(kind, results);
  if (section.tables.empty()) {
    throw Error(Code::bad_file,
                fmt::format("{}: got no {} in it, want what the table '{}' is made of", results.folder.string(),
                            kind.needs, kind.name),
                kind.maker.empty() ? "benchmarks/results/train has ours"
                                   : fmt::format("benchmarks/results/train has ours; {} others", kind.maker));
  }
  return section;
}

std::vector<ResultSection> all_sections(const StoredResults& results) {
  std::vector<ResultSection> sections;
  for (const SectionKind& kind : kSections) sections.push_back(made(kind, results));
  std::erase_if(sections, [](const ResultSection& section) { return section.tables.empty(); });
  return sections;
}

std::vector<std::string> phrase_names() {
  return names_of(kPhrases);
}

std::string phrase_named(const StoredResults& results, std::string_view name) {
  return kind_named(kPhrases, name, "phrase").make(results);
}

std::string markdown(const ResultTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    return fmt::format("| {} |\n", fmt::join(cells, " | "));
  };
  std::string out;
  if (!table.title.empty()) out += fmt::format("### {}\n", table.title);
  if (!table.remark.empty()) out += fmt::format("{}\n\n", table.remark);
  out += line(table.header) + line(std::vector<std::string>(table.header.size(), "---"));
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> texts;
    for (const Cell& cell : row) texts.push_back(cell.text);
    out += line(texts);
  }
  return out;
}

std::string markdown(const ResultSection& section) {
  std::string out;
  for (const ResultTable& table : section.tables) {
    if (!out.empty()) out += '\n';
    out += markdown(table);
  }
  return out;
}

OrderedJson table_json(const ResultSection& section, const ResultTable& table) {
  OrderedJson rows = OrderedJson::array(), numbers = OrderedJson::array();
  for (const std::vector<Cell>& row : table.rows) {
    OrderedJson texts = OrderedJson::array(), behind = OrderedJson::array();
    for (const Cell& cell : row) {
      texts.push_back(cell.text);
      behind.push_back(cell.numbers);
    }
    rows.push_back(std::move(texts));
    numbers.push_back(std::move(behind));
  }
  return {{"name", section.name},   {"title", table.title.empty() ? section.title : table.title},
          {"remark", table.remark}, {"header", table.header},
          {"rows", rows},           {"numbers", numbers}};
}

Cell one_digit(double value) {
  return {fmt::format("{:.1f}", value), {value}};
}

Cell with_sign(double value) {
  return {fmt::format("{:+.1f}", value), {value}};
}

Cell with_difference(double value, double against) {
  return {fmt::format("{:.1f} ({:+.1f})", value, value - against), {value, value - against}};
}

Cell mean_cell(const std::vector<double>& values) {
  const std::optional<double> mean = mean_of(values);
  return mean ? one_digit(*mean) : Cell("–");
}

Cell count_cell(size_t count) {
  return {fmt::format("{}", count), {static_cast<double>(count)}};
}

std::string in_marks(std::string_view name) {
  return fmt::format("`{}`", name);
}

std::vector<std::string> layer_header(std::vector<std::string> first) {
  for (int layer = 1; layer <= kGridLayers; ++layer) first.push_back(fmt::format("{}", layer));
  return first;
}

}  // namespace exeunt
