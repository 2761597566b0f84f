// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/model_card.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"
#include "exeunt/base/utf8.h"
#include "exeunt/base/version.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/model/cost.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr size_t kLargestCard = size_t{1} << 24;

// A text as YAML and JSON both read it.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Text in a cell of a table: what would be markup stays text.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      out += ' ';
      continue;
    }
    if (std::string_view("\\|*_<>[]`#").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// A name as code, so that commas and markup in it are not interpreted.
std::string code(const std::string& name) {
  std::string fence = "`";
  while (name.find(fence) != std::string::npos) fence += '`';
  const std::string blank = fence.size() > 1 ? " " : "";  // Markdown takes it off again
  std::string text = blank + name + blank;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return fence + text + fence;
}

std::string text_at(const Json& value, const char* part, const char* name) {
  if (!value.is_object() || !value.contains(part)) return {};
  const Json& inner = value.at(part);
  return inner.is_object() && inner.contains(name) && inner.at(name).is_string() ? inner.at(name).get<std::string>()
                                                                                 : "";
}

// The rows of "exits" in all_results.json; malformed ones are skipped.
std::vector<Json> exit_rows(const Json& results) {
  std::vector<Json> out;
  if (!results.is_object() || !results.contains("exits") || !results.at("exits").is_array()) return out;
  for (const Json& row : results.at("exits")) {
    if (row.is_object() && row.contains("layer") && row.at("layer").is_number_integer()) out.push_back(row);
  }
  return out;
}

// Metrics by name; null (NaN) is skipped.
std::vector<std::pair<std::string, double>> scores_of(const Json& row) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [name, value] : row.items()) {
    if (name != "layer" && value.is_number()) out.emplace_back(name, value.get<double>());
  }
  return out;
}

// What our card takes over from another.
struct SourceCard {
  std::string author = {}, text = {};
};

// The metadata entries that only an author can fill in, each with its continuation lines.
std::string authors_lines(std::string_view metadata) {
  constexpr std::string_view kKeys[] = {"license",  "license_name", "license_link",
                                        "language", "datasets",     "base_model"};
  std::string out;
  for (bool taken = false; !metadata.empty();) {
    const std::string_view line = metadata.substr(0, metadata.find('\n'));
    metadata.remove_prefix(std::min(line.size() + 1, metadata.size()));
    const bool goes_on = line.starts_with(' ') || line.starts_with('-');
    const std::string_view key = line.substr(0, line.find(':'));
    if (!goes_on)
      taken = key.size() < line.size() && std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
    if (taken) out += fmt::format("{}\n", line);
  }
  return out;
}

SourceCard read_source_card(const fs::path& folder) {
  const fs::path path = folder / kCardFile;
  constexpr std::string_view kFence = "---\n", kFenceEnd = "\n---\n";
  std::error_code ignored;
  if (!path_exists(path) || fs::file_size(path, ignored) > kLargestCard) return {};
  std::string all = replace_invalid_utf8(read_text(ReadPath::in(folder, kCardFile), kLargestCard));
  std::erase(all, '\r');
  std::string_view text = all;
  SourceCard card;
  if (text.starts_with(kFence)) {
    const size_t end = text.find(kFenceEnd);
    if (end != std::string_view::npos) {
      card.author = authors_lines(text.substr(kFence.size(), end + 1 - kFence.size()));
      text.remove_prefix(end + kFenceEnd.size());
    }
  }
  if (text.find(kCardMark) != std::string_view::npos) {  // ours: the text that follows it, if any
    const size_t mark = text.find(kOriginMark);
    text.remove_prefix(mark == std::string_view::npos ? text.size() : mark + kOriginMark.size());
  }
  const size_t first = text.find_first_not_of("\n ");
  if (first != std::string_view::npos) card.text = text.substr(first);
  return card;
}

// Hugging Face's fields. The comments are for the author, who fills in what we cannot know.
std::string metadata(const Checkpoint& model, const CardFacts& facts) {
  const ExitLayout& exits = model.exits();
  std::string out = "---\n";
  const auto named = [&](std::string_view key) { return ("\n" + facts.author).find(key) != std::string::npos; };
  if (!named("\nlicense:"))
    out += "# license: …        for you to choose; the licences of the base model and the data may restrict it\n";
  if (!named("\nbase_model:")) out += "# base_model: …     the model this one was trained from\n";
  out += facts.author;
  out += fmt::format("library_name: {}\n", facts.reader == CardFor::transformers ? "transformers" : "exeunt");
  if (!exits.sites.empty()) out += "pipeline_tag: text-classification\n";
  out += fmt::format("tags:\n- exeunt\n- early-exit\n- {}\n", name_of(model.spec().family));
  if (facts.reader == CardFor::onnx) out += "- onnx\n";
  const std::vector<Json> rows = exit_rows(facts.results);
  const std::string task = text_at(facts.recipe, "run", "task");
  if (!rows.empty()) {
    out += "metrics:\n";
    for (const auto& [name, value] : scores_of(rows.back())) out += fmt::format("- {}\n", name);
    const std::string data = quoted(task.empty() ? "own data" : task);
    out += fmt::format(
        "model-index:\n- name: {}\n  results:\n  - task:\n      type: text-classification\n    dataset:\n      name: "
        "{}\n"
        "      type: {}\n    metrics:\n",
        quoted(facts.name), data, data);
    for (const auto& [name, value] : scores_of(rows.back())) {
      out += fmt::format("    - type: {}\n      value: {:.4f}\n      name: {} of the last exit\n", name, value, name);
    }
  }
  return out + "---\n";
}

std::string exit_table(const Checkpoint& model, const Json& results) {
  constexpr int kTokens = 128;
  const ExitLayout& exits = model.exits();
  const std::vector<Json> rows = exit_rows(results);
  std::string head = "| exit after layer | reads | MFLOPs |", rule = "| ---: | --- | ---: |", out;
  if (!rows.empty()) {
    for (const auto& [name, value] : scores_of(rows.front())) {
      head += fmt::format(" {} |", cell(name));
      rule += " ---: |";
    }
  }
  for (const ExitSite& site : exits.sites) {
    const double cost = mflops(departure_macs(model.spec(), exits, {.after = site.after, .tokens = kTokens}));
    out += fmt::format("| {} | {} | {:.0f} |", site.after,
                       site.after == 0 ? "hashed n-grams, before the first layer"
                       : site.reader   ? "row 0 and a learned mean of all rows"
                                       : cell(word_of(exits.input)),
                       cost);
    for (const Json& row : rows) {
      if (row.at("layer") != site.after) continue;
      for (const auto& [name, value] : scores_of(row)) out += fmt::format(" {:.2f} |", 100 * value);
    }
    out += "\n";
  }
  const std::string scores = rows.empty() ? "" : "; scores in percent, on the evaluation set of the training";
  return fmt::format("{}\n{}\n{}\nMFLOPs of a text of {} tokens that exits there, including the heads before it{}.\n",
                     head, rule, out, kTokens, scores);
}

// `sentence`: what it promises as things are.
std::string promise(const PolicyEntry& entry, const std::string& sentence) {
  if (!entry.certificate || sentence != promise_of(entry)) return fmt::format("Promise: {}.", sentence);
  const Certificate& c = *entry.certificate;
  std::string out = fmt::format("Promise: {} ({}, {} texts, data `{:.12}`), on texts drawn like those", sentence,
                                name_of(c.method), c.rows, c.certify.data);
  if (c.max_length > 0) out += fmt::format(" and truncated to {} tokens", c.max_length);
  return out + ". It does not extend to other texts.";
}

std::string policy_part(const CardFacts& facts) {
  if (!facts.policy || facts.policy->entries.empty()) {
    return "No exit policy is stored: the model runs at full depth until one is set (`exeunt calibrate`, "
           "`exeunt policy set`).\n";
  }
  std::string out;
  const std::vector<PolicyEntry>& entries = facts.policy->entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    const PolicyEntry& entry = entries[i];
    const std::string sentence = i < facts.promises.size() ? facts.promises[i] : promise_of(entry);
    out += fmt::format("**{}**{}{}: `{}` over the exits {}. {}\n\n", entry.precision,
                       entry.engine.empty() ? "" : " on " + entry.engine,
                       entry.precision == facts.policy->default_precision ? " (default)" : "", str(entry.policy),
                       fmt::join(entry.exits, ", "), promise(entry, sentence));
    if (entry.points.size() < 2) continue;
    out += "| budget | policy | layers used |\n| ---: | --- | ---: |\n";
    for (const PolicyPoint& point : entry.points) {
      out += fmt::format("| {:g} % | `{}` | {:.0f} % |\n", 100 * point.max_drop, str(point.policy),
                         100 * point.cost_fraction);
    }
    out += "\n";
  }
  const auto certifies_labels = [](const PolicyEntry& entry) {
    return entry.certificate && entry.certificate->loss == RiskLoss::disagreement;
  };
  if (std::any_of(entries.begin(), entries.end(), certifies_labels)) {
    out +=
        "Answers are promised, scores are not: a text may keep its label with another score, and how many cross a "
        "threshold is not promised.\n";
  }
  return out;
}

std::string use_part(const CardFacts& facts) {
  if (facts.reader == CardFor::onnx) {
    return "`all_exits.onnx` gives the logits of every exit; `segment-01.onnx` and so on stop at each of them and hand "
           "`hidden_out` to the next as `hidden` (`onnx.json` lists them). Inputs are `input_ids`, `attention_mask` "
           "and "
           "`token_type_ids`, padded on the right.\n";
  }
  std::string out = fmt::format("```\nexeunt predict {0} texts.txt\nexeunt serve {0}\n```\n", shell_word(facts.name));
  if (facts.reader == CardFor::transformers) {
    out +=
        "In transformers the folder is a model with one head at the last layer, or a plain encoder if that head has no "
        "equivalent there; the exits are additional tensors `exits.*`.\n";
  }
  return out;
}

std::string training_part(const CardFacts& facts) {
  if (!facts.recipe.is_object() || !facts.recipe.contains("name") || !facts.recipe.at("name").is_string()) return {};
  const std::string task = text_at(facts.recipe, "run", "task"), tool = text_at(facts.recipe, "provenance", "tool"),
                    created = text_at(facts.recipe, "provenance", "created");
  std::string out = fmt::format("\n## Training\nRecipe `{}`", facts.recipe.at("name").get<std::string>());
  if (!task.empty()) out += fmt::format(" on {}", cell(task));
  if (!created.empty()) out += fmt::format(", {}", created);
  if (!tool.empty()) out += fmt::format(", exeunt {}", cell(tool));
  return out + "; every setting is in `recipe.json`.\n";
}

// How the exits were attached, where they were.
std::string attached_part(const CardFacts& facts) {
  if (!facts.attached.is_object()) return {};
  const auto count = [&](const char* name) {
    const bool there = facts.attached.contains(name) && facts.attached.at(name).is_number_integer();
    return there ? facts.attached.at(name).get<int64_t>() : 0;
  };
  return fmt::format(
      "\n## Origin of the exits\nThe exits were attached to a finished model, whose weights and last exit are "
      "unchanged: at full depth it answers as before. Each new exit was distilled from the last one. Split of the "
      "unlabelled texts: {} train, {} validation, {} certification. Every setting is in `attach.json`.\n",
      count("learned"), count("chosen"), count("certified"));
}

std::string heads_part(const Checkpoint& model, const CardFacts& facts) {
  const ExitLayout& exits = model.exits();
  if (exits.sites.empty()) return " without heads: a backbone to train from.\n";
  std::string out = fmt::format(" with {} exit{}: it answers at the first one that its exit policy accepts.\n",
                                exits.sites.size(), exits.sites.size() == 1 ? "" : "s");
  if (exits.problem == Problem::regression) {
    out += "\nIt answers with a number";
    if (exits.range) out += fmt::format(" from {:g} to {:g}", exits.range->first, exits.range->second);
    out += ".\n";
  } else {
    std::vector<std::string> labels;
    for (const std::string& label : exits.labels) labels.push_back(code(label));
    out += fmt::format("\nLabels: {}.\n", fmt::join(labels, ", "));
  }
  out += "\n## Exits\n" + exit_table(model, facts.results);
  out += "\n## Exit policy\n" + policy_part(facts);
  out += "\n## Use\n" + use_part(facts);
  out += training_part(facts);
  out += attached_part(facts);
  return out +
         "\n## Limitations\nTraining data, possible harms and uses out of scope: to be described by the author.\n";
}

// "runs/sst2/" is called sst2.
std::string name_of_folder(const fs::path& folder) {
  const fs::path path = (folder / "").lexically_normal().parent_path();
  return path.filename().string();
}

}  // namespace

CardFacts card_facts(const fs::path& folder, const fs::path& source) {
  CardFacts facts{.name = name_of_folder(folder)};
  facts.attached = json_in(folder, "attach.json");
  if (path_exists(folder / "policy.json")) facts.policy = read_policy_file(ReadPath::in(folder, "policy.json"));
  if (source.empty()) return facts;
  facts.results = json_in(source, "all_results.json");
  facts.recipe = json_in(source, "recipe.json");
  SourceCard card = read_source_card(source);
  facts.author = std::move(card.author);
  facts.origin = std::move(card.text);
  return facts;
}

std::string model_card(const Checkpoint& model, const CardFacts& facts) {
  const ModelSpec& spec = model.spec();
  std::string out = metadata(model, facts);
  out += fmt::format("{}\n\n# {}\n", kCardMark, cell(facts.name));
  out += fmt::format("A {} with {} layers (hidden size {}, {:.1f} M parameters)", name_of(spec.family), spec.layers,
                     spec.hidden, static_cast<double>(count_parameters(model).total()) / 1e6);
  out += heads_part(model, facts);
  out += fmt::format("\nWritten by exeunt {}.\n", version());
  if (!facts.origin.empty()) out += fmt::format("\n{}\n\n{}", kOriginMark, facts.origin);
  return out;
}

void write_card(const fs::path& folder, const Checkpoint& model, const CardFacts& facts) {
  const fs::path path = folder / kCardFile;
  const auto ours = [&] {
    return read_text(ReadPath::in(folder, kCardFile), kLargestCard).find(kCardMark) != std::string::npos;
  };
  if (path_exists(path) && !ours()) return;
  write_atomically(path, model_card(model, facts));
}

CardFacts facts_of_folder(const fs::path& folder, const Checkpoint& model, const fs::path& source) {
  CardFacts facts = card_facts(folder, source);
  if (facts.policy) facts.promises = stored_promises(*facts.policy, model, folder);
  return facts;
}

std::function<std::vector<std::string>(const fs::path&)> card_writer(const Checkpoint& model, const fs::path& out,
                                                                     CardFor reader) {
  return [&model, out, reader](const fs::path& folder) -> std::vector<std::string> {
    CardFacts facts = facts_of_folder(folder, model, model.folder());
    facts.name = name_of_folder(out);
    facts.reader = reader;
    write_card(folder, model, facts);
    return {};  // people edit it, so no manifest lists it
  };
}

void refresh_card(const Checkpoint& model) {
  const fs::path& folder = model.folder();
  if (path_exists(folder / kCardFile)) write_card(folder, model, facts_of_folder(folder, model, folder));
}

}  // namespace exeunt
