// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/load/mutate.h"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>

#include "benchmarks/load/load.h"

namespace exeunt::load {
namespace {

// Words that parsers trip over: signs of HTTP and JSON, numbers at edges, broken UTF-8.
constexpr std::array<std::string_view, 34> kWords = {"\r\n",
                                                     "\n",
                                                     "\r",
                                                     "\r\n\r\n",
                                                     ":",
                                                     " ",
                                                     "\t",
                                                     "chunked",
                                                     "Transfer-Encoding: chunked\r\n",
                                                     "Content-Length: 5\r\n",
                                                     "Content-Length: -1\r\n",
                                                     "0\r\n\r\n",
                                                     "ffffffffffffffff\r\n",
                                                     "5;x=y\r\n",
                                                     "HTTP/1.1",
                                                     "HTTP/9.9",
                                                     "Expect: 100-continue\r\n",
                                                     "{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     "\"",
                                                     "\\u0000",
                                                     "\\ud800",
                                                     "null",
                                                     "NaN",
                                                     "1e999",
                                                     "-1",
                                                     "18446744073709551616",
                                                     "\"exit\":{\"policy\":\"full\"},",
                                                     "\xff",
                                                     "\xc0\xaf",
                                                     "\xed\xa0\x80",
                                                     "\xef\xbb\xbf"};

void damage(std::string& bytes, std::mt19937_64& random) {
  const auto below = [&](size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(random() % limit); };
  const size_t at = below(bytes.size() + 1), length = below(std::min<size_t>(bytes.size() - at, 40) + 1);
  switch (random() % 7) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random());
      break;
    case 1:
      bytes.insert(at, kWords[below(kWords.size())]);
      break;
    case 2:
      bytes.erase(at, length);
      break;
    case 3:
      bytes.insert(below(bytes.size() + 1), bytes.substr(at, length));
      break;
    case 4:
      bytes.replace(at, length, kWords[below(kWords.size())]);
      break;
    case 5:
      bytes.insert(at, std::string(1 + below(300), static_cast<char>(random())));
      break;
    default:
      bytes.resize(at);
  }
}

}  // namespace

const std::vector<std::string>& sound_requests() {
  static const std::string head = "POST /predict HTTP/1.1\r\nHost: localhost\r\n";
  static const std::string trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
  static const std::vector<std::string> requests = {
      post_request("/predict", R"({"inputs":"A fine film"})"),
      post_request("/predict", R"({"inputs":["a","b"],"truncate":true,"raw_scores":false})"),
      post_request("/predict",
                   R"({"inputs":[["a"],["b","c"]],"exit":{"policy":"full","max_layers":3,"details":true}})"),
      post_request("/", R"({"inputs":"x","truncation_direction":"Left"})", "Accept: application/json\r\n"),
      post_request("/classify", R"({"input":["one","two"],"user":"u"})"),
      post_request("/rerank", R"({"query":"q","texts":["a","b"],"return_text":true})"),
      post_request("/invocations", R"({"inputs":"\u00e4\ud83d\ude00"})", "X-Request-Id: 7\r\n"),
      post_request("/v2/models/m/infer",
                   R"({"id":"1","inputs":[{"name":"text","shape":[2],"datatype":"BYTES","data":["a","b"]}]})"),
      post_request("/v2/models/m/infer",
                   R"({"inputs":[{"name":"input_ids","shape":[1,3],"datatype":"INT64","data":[2,5,3]}]})"),
      head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"inp\r\nb\r\nuts\":\"abc\"}\r\n0\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /info HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + trace + "\r\n",
      "OPTIONS /predict HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a\r\n\r\n"};
  return requests;
}

std::string mutated_request(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto& sound = sound_requests();
  std::string bytes = sound[random() % sound.size()];
  for (uint64_t left = 1 + random() % 6; left > 0; --left) damage(bytes, random);
  return bytes;
}

}  // namespace exeunt::load
