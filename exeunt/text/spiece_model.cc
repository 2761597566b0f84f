// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/spiece_model.h"

#include <cmath>
#include <optional>
#include <unordered_map>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/protobuf.h"
#include "exeunt/base/secret_hash.h"
#include "exeunt/base/utf8.h"
#include "exeunt/text/vocabulary.h"

namespace exeunt {
namespace {

using Type = ProtoField::Type;

std::string piece_place(const std::string& where, size_t id) {
  return fmt::format("{}: piece {}", where, id);
}

SentencePiece parse_piece(const ProtoField& message, const std::string& where) {
  SentencePiece piece;
  ProtoReader reader(message.bytes, where);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        reader.expect(*field, Type::bytes);
        piece.text = field->text();
        break;
      case 2:
        reader.expect(*field, Type::fixed32);
        piece.score = field->real();
        break;
      case 3:
        reader.expect(*field, Type::varint);
        if (field->value < 1 || field->value > 6) throw_bad_file(where, "got type {}, want 1 to 6", field->value);
        piece.kind = SentencePiece::Kind(field->value);
        break;
      default:
        break;
    }
  }
  if (piece.text.empty()) throw_bad_file(where, "the piece is empty");
  if (piece.text.size() > kMaxPieceBytes) {
    throw_bad_file(where, "got {} bytes, want at most {}", piece.text.size(), kMaxPieceBytes);
  }
  if (find_invalid_utf8(piece.text)) throw_bad_file(where, "the piece is not UTF-8");
  if (!std::isfinite(piece.score)) throw_bad_file(where, "'{}' has the score {}", piece.text, piece.score);
  return piece;
}

struct Trainer {
  uint64_t model_type = 1;  // unigram, the default of the format
  int64_t unknown = 0;
  bool byte_fallback = false;
};

void parse_trainer(const ProtoField& message, const std::string& where, Trainer& trainer) {
  ProtoReader reader(message.bytes, where + ": trainer_spec");
  while (const auto field = reader.next()) {
    if (field->number != 3 && field->number != 35 && field->number != 40) continue;
    reader.expect(*field, Type::varint);
    if (field->number == 35) trainer.byte_fallback = field->value != 0;
    if (field->number == 3) trainer.model_type = field->value;
    if (field->number == 40) trainer.unknown = field->integer();
  }
}

void parse_normalizer(const ProtoField& message, const std::string& where, SpieceModel& model) {
  ProtoReader reader(message.bytes, where + ": normalizer_spec");
  bool* const flags[] = {&model.whitespace.dummy_prefix, &model.whitespace.remove_extra, &model.whitespace.escape};
  while (const auto field = reader.next()) {
    if (field->number == 2) {
      reader.expect(*field, Type::bytes);
      model.charsmap = field->text();
    } else if (field->number >= 3 && field->number <= 5) {
      reader.expect(*field, Type::varint);
      *flags[field->number - 3] = field->value != 0;
    }
  }
}

void check_model(const SpieceModel& model, const Trainer& trainer, const std::string& where) {
  constexpr std::string_view kModelTypes[] = {"?", "unigram", "BPE", "word", "character"};
  if (trainer.model_type != 1) {
    throw Error(Code::bad_file,
                fmt::format("{}: got a model of type {} ({}), want 1 (unigram)", where, trainer.model_type,
                            kModelTypes[trainer.model_type < std::size(kModelTypes) ? trainer.model_type : 0]),
                "only unigram models, like ALBERT's, are supported in spiece.model");
  }
  if (model.pieces.empty()) throw_bad_file(where, "the model has no pieces");
  const auto size = static_cast<int64_t>(model.pieces.size());
  if (trainer.unknown < 0 || trainer.unknown >= size) {
    throw_bad_file(where, "trainer_spec: unk_id: got {}, want 0 to {}", trainer.unknown, size - 1);
  }
  std::unordered_map<std::string_view, size_t, SecretHash> seen;
  seen.reserve(model.pieces.size());
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    const auto [first, fresh] = seen.emplace(piece.text, id);
    if (!fresh) throw_bad_file(piece_place(where, id), "'{}' was piece {} already", piece.text, first->second);
    const bool unknown = static_cast<int64_t>(id) == trainer.unknown;
    if (unknown != (piece.kind == SentencePiece::Kind::unknown)) {
      throw_bad_file(piece_place(where, id), "'{}' {} of the unknown type, but unk_id is {}", piece.text,
                     unknown ? "is not" : "is", trainer.unknown);
    }
  }
}

// How long the list of pieces will be: one that grows would take up to three times its size. A piece without a text is
// refused later; not counting it bounds the list by eight times the file.
size_t count_pieces(std::span<const std::byte> bytes, const std::string& where) {
  constexpr size_t kShortest = 3;  // tag, length and one byte of text
  ProtoReader reader(bytes, where);
  size_t count = 0;
  while (const auto field = reader.next()) count += field->number == 1 && field->bytes.size() >= kShortest ? 1 : 0;
  return count;
}

}  // namespace

SpieceModel parse_spiece_model(std::span<const std::byte> bytes, const std::string& where) {
  SpieceModel model;
  const size_t pieces = count_pieces(bytes, where);
  if (pieces > size_t{kMaxTokenId} + 1) {
    throw_bad_file(where, "got {} pieces, want at most {}", pieces, kMaxTokenId + 1);
  }
  model.pieces.reserve(pieces);
  Trainer trainer;
  ProtoReader reader(bytes, where);
  while (const auto field = reader.next()) {
    if (field->number < 1 || field->number > 3) continue;  // self tests, denormaliser, extensions
    reader.expect(*field, Type::bytes);
    if (field->number == 1) {
      model.pieces.push_back(parse_piece(*field, piece_place(where, model.pieces.size())));
    } else if (field->number == 2) {
      parse_trainer(*field, where, trainer);
    } else {
      parse_normalizer(*field, where, model);
    }
  }
  check_model(model, trainer, where);
  model.unknown = static_cast<int32_t>(trainer.unknown);
  model.byte_fallback = trainer.byte_fallback;
  return model;
}

void check_spiece_vocab(const SpieceModel& model, std::string_view text, const std::string& where) {
  size_t id = 0;
  for (; !text.empty(); ++id) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string place = fmt::format("{}: line {}", where, id + 1);
    if (id == model.pieces.size()) throw_bad_file(place, "the model has only {} pieces", id);
    const SentencePiece& piece = model.pieces[id];
    const size_t tab = line.rfind('\t');
    if (tab == std::string_view::npos) throw_bad_file(place, "got no tab, want a piece, a tab and its score");
    if (line.substr(0, tab) != piece.text) {
      throw_bad_file(place, "got piece '{}', want '{}' as in the model", line.substr(0, tab), piece.text);
    }
    // The trainer prints about six digits.
    const auto score = number_of<double>(line.substr(tab + 1));
    const double slack = 1e-4 * std::max(1.0F, std::abs(piece.score));
    if (!score || !(std::abs(*score - piece.score) <= slack)) {
      throw_bad_file(place, "got score '{}', want {} as in the model", line.substr(tab + 1), piece.score);
    }
  }
  if (id < model.pieces.size()) {
    throw_bad_file(where, "got {} lines, want {}, one for each piece of the model", id, model.pieces.size());
  }
}

}  // namespace exeunt
