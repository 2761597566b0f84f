// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/gunzip.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <zlib.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr size_t kPiece = size_t{1} << 16;  // unpacked at a time
constexpr int kGzipAlone = 16 + MAX_WBITS;  // of zlib's formats

void end_inflate(z_stream* zlib) {
  (void)inflateEnd(zlib);
  delete zlib;
}

}  // namespace

GzipReader::GzipReader(Source source, std::string where)
    : source_(std::move(source)), where_(std::move(where)), zlib_(new z_stream{}, end_inflate) {
  const int status = inflateInit2(zlib_.get(), kGzipAlone);
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  check(status == Z_OK, "zlib starts");
}

void GzipReader::refuse(int status) const {
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  const bool no_member = zlib_->total_in <= 2;  // it has read no more than the two bytes every member starts with
  if (no_member && first_) throw_bad_file(where_, "got a file that is not gzip, although its name ends in .gz");
  std::string_view what = "unreadable";
  if (no_member) {
    what = "bytes behind its end";
  } else if (status == Z_BUF_ERROR) {
    what = "the file ends too early";
  } else if (zlib_->msg != nullptr) {
    what = zlib_->msg;
  }
  throw_bad_file(where_, Hint{"compress it again; 'gzip -t FILE' checks it"}, "damaged gzip data: {}", what);
}

size_t GzipReader::read(std::span<char> out) {
  size_t filled = 0;
  while (filled < out.size()) {
    if (zlib_->avail_in == 0) {
      zlib_->next_in = reinterpret_cast<Bytef*>(packed_.data());
      zlib_->avail_in = static_cast<uInt>(source_(packed_));
    }
    if (!in_member_) {
      if (zlib_->avail_in == 0 && !first_) break;
      (void)inflateReset(zlib_.get());
      in_member_ = true;
    }
    const size_t room = std::min(out.size() - filled, kPiece);
    zlib_->next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    zlib_->avail_out = static_cast<uInt>(room);
    const int status = inflate(zlib_.get(), Z_NO_FLUSH);  // Z_BUF_ERROR: there is room, so it lacks input
    filled += room - zlib_->avail_out;
    if (status == Z_STREAM_END) {
      first_ = in_member_ = false;
    } else if (status != Z_OK) {
      refuse(status);
    }
  }
  return filled;
}

uint32_t crc32(std::span<const std::byte> bytes) noexcept {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::function<size_t(std::span<char>)> unpacking(std::string_view packed, const std::string& where, uint64_t limit) {
  const auto source = [packed](std::span<char> into) mutable {
    const size_t size = std::min(into.size(), packed.size());
    std::memcpy(into.data(), packed.data(), size);
    packed.remove_prefix(size);
    return size;
  };
  return
      [reader = std::make_shared<GzipReader>(source, where), where, limit, left = limit](std::span<char> out) mutable {
        const size_t got = reader->read(out);
        if (got > left) throw_bad_file(where, "got more than {} bytes when unpacked, want at most that", limit);
        left -= got;
        return got;
      };
}

}  // namespace exeunt
