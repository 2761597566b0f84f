// SPDX-License-Identifier: Apache-2.0
// Heads that two programs could read in two ways. Each must be answered with 400, and the connection closed.
#pragma once

#include <string>
#include <vector>

namespace exeunt::serve {

struct SmugglingCase {
  std::string name;
  std::string bytes;  // whole, with the empty line
};

inline std::vector<SmugglingCase> smuggling_heads() {
  const std::string post = "POST /predict HTTP/1.1\r\nHost: x\r\n";
  const std::string nul(1, '\0');
  return {
      {"length and chunks", post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"chunks and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"},
      {"two lengths", post + "Content-Length: 4\r\nContent-Length: 5\r\n\r\n"},
      {"two equal lengths", post + "Content-Length: 4\r\nContent-Length: 4\r\n\r\n"},
      {"a list of lengths", post + "Content-Length: 4, 4\r\n\r\n"},
      {"a signed length", post + "Content-Length: +4\r\n\r\n"},
      {"a negative length", post + "Content-Length: -1\r\n\r\n"},
      {"a hexadecimal length", post + "Content-Length: 0x4\r\n\r\n"},
      {"a length with a point", post + "Content-Length: 4.0\r\n\r\n"},
      {"an empty length", post + "Content-Length: \r\n\r\n"},
      {"a length of 20 digits", post + "Content-Length: 18446744073709551616\r\n\r\n"},
      {"a length with a blank inside", post + "Content-Length: 1 2\r\n\r\n"},
      {"a blank before the colon", post + "Content-Length : 4\r\n\r\n"},
      {"a tab before the colon", post + "Transfer-Encoding\t: chunked\r\n\r\n"},
      {"a folded field", post + "X: a\r\n b\r\n\r\n"},
      {"a folded encoding", post + "Transfer-Encoding:\r\n chunked\r\n\r\n"},
      {"a first field that is folded", "POST /predict HTTP/1.1\r\n Host: x\r\n\r\n"},
      {"LF alone behind a field", post + "X: a\nContent-Length: 4\r\n\r\n"},
      {"LF alone behind the request line", "POST /predict HTTP/1.1\nHost: x\r\n\r\n"},
      {"CR alone in a field", post + "X: a\rContent-Length: 4\r\n\r\n"},
      {"CR alone before the end", post + "X: a\r\r\n\r\n"},
      {"NUL in a value", post + "X: a" + nul + "b\r\n\r\n"},
      {"NUL in a name", post + "X" + nul + ": a\r\n\r\n"},
      {"a control character in a value", post + "X: \x0b\r\n\r\n"},
      {"vertical tab before chunked", post + "Transfer-Encoding: \x0b"
                                             "chunked\r\n\r\n"},
      {"an empty name", post + ": a\r\n\r\n"},
      {"no colon", post + "nothing\r\n\r\n"},
      {"a name with a parenthesis", post + "X(: a\r\n\r\n"},
      {"a name beyond ASCII", post + "X\xc3\xa4: a\r\n\r\n"},
      {"identity", post + "Transfer-Encoding: identity\r\n\r\n"},
      {"gzip, chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n"},
      {"chunked, chunked", post + "Transfer-Encoding: chunked, chunked\r\n\r\n"},
      {"chunked twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"chunked and identity", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"},
      {"xchunked", post + "Transfer-Encoding: xchunked\r\n\r\n"},
      {"quoted chunked", post + "Transfer-Encoding: \"chunked\"\r\n\r\n"},
      {"chunked with a parameter", post + "Transfer-Encoding: chunked;a=b\r\n\r\n"},
      {"chunks in HTTP/1.0", "POST /predict HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"no host", "POST /predict HTTP/1.1\r\nContent-Length: 4\r\n\r\n"},
      {"two hosts", post + "Host: y\r\n\r\n"},
      {"HTTP/2", "POST /predict HTTP/2.0\r\nHost: x\r\n\r\n"},
      {"HTTP/1.2", "POST /predict HTTP/1.2\r\nHost: x\r\n\r\n"},
      {"lower-case version", "POST /predict http/1.1\r\nHost: x\r\n\r\n"},
      {"no version", "POST /predict\r\nHost: x\r\n\r\n"},
      {"two blanks", "POST  /predict HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"a blank in the target", "POST /pre dict HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"a tab in the target", "POST /pre\tdict HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"an absolute target", "POST http://x/predict HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"bytes beyond ASCII in the target", "POST /\xff HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"a method that is no token", "PO(ST /predict HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"a blank behind the version", "POST /predict HTTP/1.1 \r\nHost: x\r\n\r\n"},
  };
}

}  // namespace exeunt::serve
