// Records what RapidJSON 1.1.0 makes of documents, with the parse flags TensorFlow Serving sets.
// Reads base64 documents, one a line; writes the lines of rapidjson-answers.ndjson.
//
//   g++ -std=c++14 -I<rapidjson>/include record-rapidjson.cc -o record
//   jq -r .body rapidjson-answers.ndjson | ./record

#include <rapidjson/document.h>
#include <rapidjson/encodedstream.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

using namespace rapidjson;
using Pretty = PrettyWriter<StringBuffer>;

// util/json_tensor.cc, JsonWriterWithLimit: nothing is begun after 256 bytes.
struct Dump {
  StringBuffer buffer;
  Pretty writer{buffer};
  Dump() { writer.SetFormatOptions(kFormatSingleLineArray); }
  bool More() { return buffer.GetSize() < 256; }
  bool Null() { return More() && writer.Null(); }
  bool Bool(bool b) { return More() && writer.Bool(b); }
  bool Int(int i) { return More() && writer.Int(i); }
  bool Uint(unsigned u) { return More() && writer.Uint(u); }
  bool Int64(int64_t i) { return More() && writer.Int64(i); }
  bool Uint64(uint64_t u) { return More() && writer.Uint64(u); }
  bool Double(double d) { return More() && writer.Double(d); }
  bool RawNumber(const char* s, SizeType n, bool c) { return More() && writer.RawNumber(s, n, c); }
  bool String(const char* s, SizeType n, bool c) { return More() && writer.String(s, n, c); }
  bool Key(const char* s, SizeType n, bool c) { return More() && writer.Key(s, n, c); }
  bool StartObject() { return More() && writer.StartObject(); }
  bool EndObject(SizeType n) { return More() && writer.EndObject(n); }
  bool StartArray() { return More() && writer.StartArray(); }
  bool EndArray(SizeType n) { return More() && writer.EndArray(n); }
};

// Kinds, strings in hex, numbers as the bits of their float64.
struct Tokens {
  std::string text;
  bool Add(const std::string& token) {
    text += (text.empty() ? "" : " ") + token;
    return true;
  }
  bool Number(char kind, double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    if (value != value) bits = 0x7ff8000000000000ull;
    char token[32];
    std::snprintf(token, sizeof token, "%c%016llx", kind, (unsigned long long)bits);
    return Add(token);
  }
  bool Null() { return Add("n"); }
  bool Bool(bool b) { return Add(b ? "t" : "f"); }
  bool Int(int i) { return Number('i', i); }
  bool Uint(unsigned u) { return Number('i', u); }
  bool Int64(int64_t i) { return Number('i', double(i)); }
  bool Uint64(uint64_t u) { return Number('i', double(u)); }
  bool Double(double d) { return Number('d', d); }
  bool RawNumber(const char*, SizeType, bool) { return true; }
  bool String(const char* s, SizeType n, bool) {
    std::string token = "s";
    char hex[3];
    for (SizeType i = 0; i < n; i++) {
      std::snprintf(hex, sizeof hex, "%02x", (unsigned char)s[i]);
      token += hex;
    }
    return Add(token);
  }
  bool Key(const char* s, SizeType n, bool c) { return String(s, n, c); }
  bool StartObject() { return Add("{"); }
  bool EndObject(SizeType n) { return Add("}" + std::to_string(n)); }
  bool StartArray() { return Add("["); }
  bool EndArray(SizeType n) { return Add("]" + std::to_string(n)); }
};

std::string Unpacked(const std::string& base64) {
  static const std::string alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (char c : base64) {
    size_t value = alphabet.find(c);
    if (value == std::string::npos) continue;
    bits = (bits << 6) | unsigned(value);
    if ((count += 6) >= 8) bytes += char((bits >> (count -= 8)) & 0xff);
  }
  return bytes;
}

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::string body = Unpacked(line);
    Document document;
    MemoryStream memory(body.data(), body.size());
    EncodedInputStream<UTF8<>, MemoryStream> stream(memory);
    constexpr unsigned flags = kParseIterativeFlag | kParseNanAndInfFlag | kParseStopWhenDoneFlag;
    document.ParseStream<flags>(stream);
    StringBuffer out;
    Writer<StringBuffer> answer(out);
    answer.StartObject();
    answer.Key("body");
    answer.String(line.c_str());
    if (document.HasParseError()) {
      std::string error = GetParseError_En(document.GetParseError());
      error += "@" + std::to_string(document.GetErrorOffset());
      answer.Key("error");
      answer.String(error.c_str());
    } else {
      Dump dump;
      document.Accept(dump);
      Tokens tokens;
      document.Accept(tokens);
      answer.Key("tokens");
      answer.String(tokens.text.c_str());
      answer.Key("dump");
      answer.String(dump.buffer.GetString());
    }
    answer.EndObject();
    std::cout << out.GetString() << "\n";
  }
}
