// SPDX-License-Identifier: Apache-2.0
// `exeunt tokenize`: lines of text in, tokens out.
#include <iostream>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/model/locate.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt::apps {
namespace {

struct TokenizeOptions {
  std::string model;
  std::string reader;
  bool pair = false;
  EncodeOptions encode;
};

OrderedJson as_json(const Encoding& encoding, const Tokenizer& tokenizer) {
  OrderedJson out;
  out["ids"] = encoding.ids;
  out["types"] = encoding.types;
  out["offsets"] = encoding.offsets;
  out["tokens"] = OrderedJson::array();
  for (const int32_t id : encoding.ids) out["tokens"].push_back(tokenizer.token(id));
  out["truncated"] = encoding.truncated;
  return out;
}

void print_encoding(const Common& common, const Encoding& encoding, const Tokenizer& tokenizer) {
  if (common.json) return print_json_line(as_json(encoding, tokenizer));
  std::vector<std::string> tokens;
  for (const int32_t id : encoding.ids) tokens.push_back(tokenizer.token(id));
  fmt::print("{}\n", fmt::join(tokens, " "));
}

void run(const Common& common, const TokenizeOptions& options) {
  const auto tokenizer = load_tokenizer(model_folder(options.model), spiece_reader_named(options.reader));
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    std::string_view text = line;
    if (text.ends_with('\r')) text.remove_suffix(1);
    std::optional<std::string_view> second;
    if (options.pair) {
      const size_t tab = text.find('\t');
      if (tab == std::string_view::npos) {
        throw Error(Code::bad_file,
                    fmt::format("standard input: line {}: got no tab, want two texts separated by a tab", number),
                    "omit --pair for single texts");
      }
      second = text.substr(tab + 1);
      text = text.substr(0, tab);
    }
    print_encoding(common, tokenizer->encode(text, second, options.encode), *tokenizer);
  }
}

}  // namespace

void add_tokenize(CommandLine& line) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* verb = add_verb(line, "tokenize", "Tokenize lines of text",
                            {"echo 'The plot thickens.' | exeunt tokenize models/sst2",
                             "exeunt tokenize models/mrpc --pair --json < pairs.tsv"},
                            [options, &common = line.common] { run(common, *options); });
  verb->add_option("MODEL", options->model, "Model folder, or org/name in the local Hugging Face cache")->required();
  add_tokenizer_flag(*verb, options->reader);
  verb->add_flag("--pair", options->pair, "Each line holds two texts separated by a tab");
  verb->add_option("--max-length", options->encode.max_length,
                   "Maximum tokens per line, special tokens included; longer lines are truncated")
      ->check(number_in(1, 1 << 20))
      ->capture_default_str();
  verb->add_flag_callback(
      "--no-special-tokens", [options] { options->encode.special_tokens = false; },
      "Omit special tokens such as [CLS] and [SEP]");
}

}  // namespace exeunt::apps
