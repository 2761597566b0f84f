// SPDX-License-Identifier: Apache-2.0
// Plain text for pretraining: documents of sentences, as token ids. A line is a paragraph; a blank line ends a
// document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/text/tokenizer.h"

namespace exeunt {

struct Corpus {
  std::vector<int32_t> ids;              // of all sentences, without special tokens
  std::vector<int64_t> sentences = {0};  // where each begins in `ids`, and the end
  std::vector<int64_t> documents = {0};  // where each begins in `sentences`, and the end

  [[nodiscard]] int64_t tokens_of(int64_t first, int64_t last) const {
    return sentences[static_cast<size_t>(last)] - sentences[static_cast<size_t>(first)];
  }
  [[nodiscard]] std::span<const int32_t> ids_of(int64_t first, int64_t last) const {
    return std::span(ids).subspan(static_cast<size_t>(sentences[static_cast<size_t>(first)]),
                                  static_cast<size_t>(tokens_of(first, last)));
  }
  [[nodiscard]] int64_t size() const noexcept { return static_cast<int64_t>(documents.size()) - 1; }
};

// Sentences of a paragraph without the blanks around them. One ends behind . ! or ?, and closing quotes and brackets
// after these, if a blank and then a capital letter, a digit or an opening mark follow; not behind an initial or one of
// a few abbreviations.
[[nodiscard]] std::vector<std::string_view> split_sentences(std::string_view paragraph);

struct CorpusOptions {
  int most = 125;  // tokens of a sentence; a longer one is cut into several
  int threads = 0;
};
// Throws Error: bad_file for a file that cannot be read, is not UTF-8, or for files without any text.
[[nodiscard]] Corpus read_corpus(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                                 const CorpusOptions& options);

// SHA-256 over ids, sentences and documents: what a resumed run must agree with.
[[nodiscard]] std::string corpus_sha256(const Corpus& corpus);

}  // namespace exeunt
