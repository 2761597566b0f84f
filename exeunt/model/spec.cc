// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/spec.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

// Largest index that `pick` finds among the sites, plus one.
template <class Pick>
int count_of(const std::vector<ExitSite>& sites, Pick pick) noexcept {
  int count = 0;
  for (const ExitSite& site : sites) count = std::max(count, pick(site) + 1);
  return count;
}

}  // namespace

int ExitLayout::readers() const noexcept {
  return count_of(sites, [](const ExitSite& site) { return site.reader.value_or(-1); });
}

int ExitLayout::poolers() const noexcept {
  const int of_sites = count_of(sites, [](const ExitSite& site) { return site.pooler.value_or(-1); });
  return last_ramp ? std::max(of_sites, last_ramp->pooler + 1) : of_sites;
}

int ExitLayout::classifiers() const noexcept {
  const int of_sites = count_of(sites, [](const ExitSite& site) { return site.classifier; });
  return last_ramp ? std::max(of_sites, last_ramp->classifier + 1) : of_sites;
}

namespace {

void check_outputs(const ExitLayout& exits, std::string_view where) {
  if (exits.sites.empty()) {
    if (exits.outputs != 0) throw_bad_file(where, "got {} outputs without an exit, want 0", exits.outputs);
    if (!exits.labels.empty()) throw_bad_file(where, "got {} labels without an exit, want none", exits.labels.size());
    return;
  }
  if (exits.problem == Problem::regression) {
    if (exits.outputs != 1) throw_bad_file(where, "got {} outputs, want 1 for a regression", exits.outputs);
    if (!exits.labels.empty()) {
      throw_bad_file(where, "got {} labels, want none for a regression", exits.labels.size());
    }
  } else {
    const int least = exits.problem == Problem::multi_label ? 1 : 2;
    if (exits.outputs < least || exits.outputs > kMaxOutputs) {
      throw_bad_file(where, "got {} outputs, want {} to {} for a classification", exits.outputs, least, kMaxOutputs);
    }
    if (exits.labels.size() != static_cast<size_t>(exits.outputs)) {
      throw_bad_file(where, "got {} labels, want one for each of the {} outputs", exits.labels.size(), exits.outputs);
    }
    if (exits.range) throw_bad_file(where, "got a range of labels, want none for a classification");
  }
  if (!exits.logit_thresholds.empty() &&
      (exits.problem != Problem::multi_label || exits.logit_thresholds.size() != exits.labels.size())) {
    throw_bad_file(where, "got {} thresholds, want one for each label of a multi-label model, or none",
                   exits.logit_thresholds.size());
  }
  std::set<std::string_view> seen;
  for (const std::string& label : exits.labels) {
    if (label.empty()) throw_bad_file(where, "a label is empty");
    if (!seen.insert(label).second) throw_bad_file(where, "duplicate label '{}'", label);
  }
  if (exits.range) {
    const auto [low, high] = *exits.range;
    if (!std::isfinite(low) || !std::isfinite(high) || !(low < high)) {
      throw_bad_file(where, "got the range [{}, {}], want two rising finite numbers", low, high);
    }
  }
}

void check_places(const ModelSpec& spec, const ExitLayout& exits, std::string_view where) {
  int before = exits.ngrams ? -1 : 0;
  for (const ExitSite& site : exits.sites) {
    if (site.after <= before) {
      throw_bad_file(where, "got an exit after layer {} behind one after layer {}, want rising layers from {}",
                     site.after, std::max(before, 0), exits.ngrams ? 0 : 1);
    }
    before = site.after;
  }
  if (before != spec.layers) {
    throw_bad_file(where, "the last exit is after layer {}, want it after the last layer, {}", before, spec.layers);
  }
}

// Indices name tensors, so each from 0 to the largest must be in use.
void check_indices(std::string_view kind, const std::set<int>& used, std::string_view where) {
  int expected = 0;
  for (const int index : used) {
    if (index != expected) {
      throw_bad_file(where, "got {} {} but no {} {}, want indices from 0 without a gap", kind, index, kind, expected);
    }
    ++expected;
  }
}

void check_heads(const ModelSpec& spec, const ExitLayout& exits, std::string_view where) {
  std::set<int> readers, poolers, classifiers, with_reader, without_reader;
  for (const ExitSite& site : exits.sites) {
    if (site.after == 0) continue;
    if (site.classifier < 0) throw_bad_file(where, "the exit after layer {} has no classifier", site.after);
    if (site.reader && !site.pooler) {
      throw_bad_file(where, "the exit after layer {} has a reader without a pooler", site.after);
    }
    if (site.reader) readers.insert(*site.reader);
    if (site.pooler) {
      poolers.insert(*site.pooler);
      (site.reader ? with_reader : without_reader).insert(*site.pooler);
    } else if (exits.width != spec.hidden) {
      throw_bad_file(where, "got width {}, want the hidden size {}: the exit after layer {} has no pooler", exits.width,
                     spec.hidden, site.after);
    }
    classifiers.insert(site.classifier);
  }
  if (exits.last_ramp) {
    poolers.insert(exits.last_ramp->pooler);
    without_reader.insert(exits.last_ramp->pooler);
    classifiers.insert(exits.last_ramp->classifier);
  }
  check_indices("reader", readers, where);
  check_indices("pooler", poolers, where);
  check_indices("classifier", classifiers, where);
  for (const int pooler : with_reader) {
    if (without_reader.contains(pooler)) {
      throw_bad_file(where,
                     "pooler {} is shared by an exit with a reader and one without: want both with or both without",
                     pooler);
    }
  }
}

void check_ngrams(const ExitLayout& exits, std::string_view where) {
  if (!exits.ngrams) return;
  const NgramShape& shape = *exits.ngrams;
  const ExitSite& site = exits.sites.front();
  if (site.after != 0 || site.reader || site.pooler || site.classifier != kNoClassifier) {
    throw_bad_file(where, "got ngrams, want a first exit after layer 0 without reader, pooler and classifier");
  }
  if (exits.lte) throw_bad_file(where, "got lte and ngrams, want one of them");
  if (shape.bits < 1 || shape.bits > kMaxNgramBits)
    throw_bad_file(where, "ngrams: got {} bits, want 1 to {}", shape.bits, kMaxNgramBits);
  if (shape.rank < 1 || shape.rank > std::min(kMaxNgramRank, exits.outputs))
    throw_bad_file(where, "ngrams: got rank {}, want 1 to {}", shape.rank, std::min(kMaxNgramRank, exits.outputs));
  if (shape.piece_bytes < 0 || shape.piece_bytes > kMaxPieceBytes)
    throw_bad_file(where, "ngrams: got {} bytes of tokens, want 0 to {}", shape.piece_bytes, kMaxPieceBytes);
}

}  // namespace

void check_layout(const ModelSpec& spec, const ExitLayout& exits, std::string_view where) {
  check_outputs(exits, where);
  if (exits.sites.empty()) {
    if (exits.lte || exits.inner || exits.last_ramp || exits.ngrams) {
      throw_bad_file(where, "got lte, inner, last_ramp or ngrams without an exit, want none");
    }
    return;
  }
  check_ngrams(exits, where);
  if (exits.sites.size() > kMaxExits)
    throw_bad_file(where, "got {} exits, want at most {}", exits.sites.size(), kMaxExits);
  if (exits.width < 1 || exits.width > kMaxHidden) {
    throw_bad_file(where, "got width {}, want 1 to {}", exits.width, kMaxHidden);
  }
  if (exits.inner && (*exits.inner < 1 || *exits.inner > kMaxHidden)) {
    throw_bad_file(where, "got inner {}, want 1 to {}", *exits.inner, kMaxHidden);
  }
  check_places(spec, exits, where);
  check_heads(spec, exits, where);
  if (exits.compat_last_ramp == LastHead::ramp && !exits.last_ramp) {
    throw_bad_file(where, "compat.last_ramp is 'ramp', but the model has no last_ramp");
  }
}

bool pooler_has_reader(const ExitLayout& exits, int pooler) noexcept {
  return std::ranges::any_of(exits.sites,
                             [&](const ExitSite& site) { return site.pooler == pooler && site.reader.has_value(); });
}

}  // namespace exeunt
