// SPDX-License-Identifier: Apache-2.0
#include "lab/pretrain/corpus.h"

#include <algorithm>
#include <array>
#include <climits>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/parallel.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/utf8.h"

namespace exeunt {
namespace {

constexpr size_t kMaxCorpusFile = size_t{1} << 36;

constexpr std::string_view kLineBlanks = " \t\r";

bool is_blank(char c) noexcept {
  return kLineBlanks.find(c) != std::string_view::npos;
}
bool is_upper(char c) noexcept {
  return c >= 'A' && c <= 'Z';
}
bool is_letter(char c) noexcept {
  return is_upper(c) || (c >= 'a' && c <= 'z');
}

// "Mr.", "e.g.", "J.": a full stop that ends no sentence.
bool abbreviates(std::string_view before) {
  constexpr std::string_view kShort[] = {"Mr",  "Mrs", "Ms", "Dr", "St", "Prof", "Jr", "Sr",  "vs",  "No",
                                         "Fig", "al",  "cf", "ca", "eg", "e.g",  "ie", "i.e", "etc", "approx"};
  const size_t blank = before.find_last_of(" \t(\"");
  const std::string_view word = blank == std::string_view::npos ? before : before.substr(blank + 1);
  if (word.size() == 1 && is_upper(word.front())) return true;
  if (word.size() > 2 && word[word.size() - 2] == '.' && is_letter(word.back())) return true;  // U.S
  return std::find(std::begin(kShort), std::end(kShort), word) != std::end(kShort);
}

// Skips a closing quote or bracket at `at`; 0 if there is none.
size_t closing_at(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  if (text[at] == '"' || text[at] == '\'' || text[at] == ')' || text[at] == ']') return 1;
  for (const std::string_view mark : {"\u201d", "\u2019", "\u00bb"}) {
    if (text.substr(at).starts_with(mark)) return mark.size();
  }
  return 0;
}

bool may_begin(std::string_view rest) {
  if (rest.empty()) return true;
  const char c = rest.front();
  if (is_upper(c) || (c >= '0' && c <= '9') || c == '"' || c == '\'' || c == '(' || c == '[') return true;
  return static_cast<uint8_t>(c) >= 0x80;  // another script or an opening mark
}

// A document as tokens: sentences behind each other.
struct Encoded {
  std::vector<int32_t> ids;
  std::vector<int64_t> ends;
};

Encoded encode_document(std::string_view document, const Tokenizer& tokenizer, int most) {
  Encoded out;
  const EncodeOptions options{.max_length = INT_MAX, .special_tokens = false};
  while (!document.empty()) {
    const std::string_view line = document.substr(0, document.find('\n'));
    document.remove_prefix(std::min(line.size() + 1, document.size()));
    for (const std::string_view sentence : split_sentences(line)) {
      const std::vector<int32_t> ids = tokenizer.encode(sentence, std::nullopt, options).ids;
      for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(most)) {
        const size_t end = std::min(at + static_cast<size_t>(most), ids.size());
        out.ids.insert(out.ids.end(), ids.begin() + static_cast<ptrdiff_t>(at),
                       ids.begin() + static_cast<ptrdiff_t>(end));
        out.ends.push_back(static_cast<int64_t>(out.ids.size()));
      }
    }
  }
  return out;
}

std::vector<std::string_view> documents_in(std::string_view text) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  const auto take = [&](size_t end) {
    const std::string_view document = text.substr(begin, end - begin);
    const auto blank = [](char c) { return is_blank(c) || c == '\n'; };
    if (!std::all_of(document.begin(), document.end(), blank)) out.push_back(document);
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (trimmed(text.substr(at, end - at), kLineBlanks).empty()) {
      take(at);
      begin = end;
    }
    at = end + 1;
  }
  take(text.size());
  return out;
}

}  // namespace

std::vector<std::string_view> split_sentences(std::string_view paragraph) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  const auto take = [&](size_t end) {
    const std::string_view sentence = trimmed(paragraph.substr(begin, end - begin), kLineBlanks);
    if (!sentence.empty()) out.push_back(sentence);
    begin = end;
  };
  for (size_t at = 0; at < paragraph.size(); ++at) {
    const char c = paragraph[at];
    if (c != '.' && c != '!' && c != '?') continue;
    size_t end = at + 1;
    while (const size_t more = closing_at(paragraph, end)) end += more;
    if (end < paragraph.size() && !is_blank(paragraph[end])) continue;
    if (!may_begin(trimmed(paragraph.substr(end), kLineBlanks))) continue;
    if (c == '.' && abbreviates(paragraph.substr(begin, at - begin))) continue;
    take(end);
    at = end - 1;
  }
  take(paragraph.size());
  return out;
}

Corpus read_corpus(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                   const CorpusOptions& options) {
  Corpus corpus;
  for (const std::filesystem::path& file : files) {
    const std::string text = read_text(file, kMaxCorpusFile);
    if (const auto bad = find_invalid_utf8(text)) throw_bad_file(file.string(), "byte {} is not UTF-8", *bad);
    const std::vector<std::string_view> documents = documents_in(text);
    std::vector<Encoded> encoded(documents.size());
    parallel_for(static_cast<int64_t>(documents.size()), options.threads, [&](int64_t i) {
      const auto place = static_cast<size_t>(i);
      encoded[place] = encode_document(documents[place], tokenizer, options.most);
    });
    for (const Encoded& document : encoded) {
      if (document.ids.empty()) continue;
      const auto before = static_cast<int64_t>(corpus.ids.size());
      corpus.ids.insert(corpus.ids.end(), document.ids.begin(), document.ids.end());
      for (const int64_t end : document.ends) corpus.sentences.push_back(before + end);
      corpus.documents.push_back(static_cast<int64_t>(corpus.sentences.size()) - 1);
    }
  }
  if (corpus.ids.empty()) {
    throw_bad_file(files.empty() ? "--data" : files.front().string(), "got no text in {} files", files.size());
  }
  return corpus;
}

std::string corpus_sha256(const Corpus& corpus) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(corpus.ids)));
  hash.add(std::as_bytes(std::span(corpus.sentences)));
  hash.add(std::as_bytes(std::span(corpus.documents)));
  return hash.hex();
}

}  // namespace exeunt
