// What the tests of this module read and build.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "support/shared_data.h"
#include "text/tokenizer.h"

namespace pagoda::text {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline nlohmann::ordered_json read_json(const std::filesystem::path& path) {
  return nlohmann::ordered_json::parse(read_file(path));
}

// Through the xz program; empty when there is none.
inline std::string read_xz(const std::filesystem::path& path) {
  const std::string command = "xz --decompress --stdout '" + path.string() + "' 2>/dev/null";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 65536> buffer;
  while (pipe != nullptr) {
    const size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe.get());
    if (size == 0) break;
    text.append(buffer.data(), size);
  }
  return text;
}

// The text of golden/{tokenizers,real}/NAME/tokenizer.json[.xz]; empty when it can't be read here.
inline std::string golden_tokenizer_json(const std::string& name) {
  const auto shared = testing_support::shared_dir();
  if (!shared) return {};
  for (const char* folder : {"tokenizers", "real"}) {
    const std::filesystem::path path = *shared / "golden" / folder / name / "tokenizer.json";
    if (std::filesystem::exists(path)) return read_file(path);
    const std::filesystem::path packed = path.string() + ".xz";
    if (std::filesystem::exists(packed)) return read_xz(packed);
  }
  return {};
}

inline std::shared_ptr<const Tokenizer> load_or_fail(const std::string& json) {
  auto tokenizer = load_tokenizer(json);
  EXPECT_TRUE(tokenizer.has_value()) << (tokenizer ? "" : tokenizer.error().message);
  return tokenizer ? *tokenizer : nullptr;
}

// nullptr when the golden tokenizer is not here.
inline std::shared_ptr<const Tokenizer> golden_tokenizer(const std::string& name) {
  const std::string json = golden_tokenizer_json(name);
  return json.empty() ? nullptr : load_or_fail(json);
}

inline std::vector<int> values(const std::vector<TokenId>& ids) {
  std::vector<int> out;
  for (const TokenId id : ids) out.push_back(id.value);
  return out;
}

inline std::vector<TokenId> to_ids(const std::vector<int>& numbers) {
  std::vector<TokenId> out;
  for (const int n : numbers) out.push_back(TokenId{n});
  return out;
}

inline std::vector<int> encode(const Tokenizer& tokenizer, const std::string& text, EncodeOptions options) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.has_value()) << (ids ? "" : ids.error().message);
  return ids ? values(*ids) : std::vector<int>{};
}

// The pieces of a stream without context; the last one has what finish() gave.
inline std::vector<std::string> stream_pieces(const Tokenizer& tokenizer, const std::vector<int>& ids,
                                              const std::vector<int>& context = {},
                                              bool skip_special = false) {
  auto stream = tokenizer.stream(to_ids(context), skip_special);
  std::vector<std::string> pieces;
  for (const int id : ids) {
    auto piece = stream->push(TokenId{id});
    EXPECT_TRUE(piece.has_value()) << (piece ? "" : piece.error().message);
    pieces.push_back(piece ? *piece : std::string());
  }
  const std::string rest = stream->finish();
  if (pieces.empty()) {
    EXPECT_EQ(rest, "");
  } else {
    pieces.back() += rest;
  }
  return pieces;
}

inline std::string join(const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) out += piece;
  return out;
}

}  // namespace pagoda::text

// Ends the test as skipped unless the golden tokenizer `variable` is to be had.
#define PAGODA_GOLDEN_TOKENIZER(variable, name)                              \
  const auto variable##_pointer = ::pagoda::text::golden_tokenizer(name);    \
  if (variable##_pointer == nullptr)                                         \
    GTEST_SKIP() << "golden tokenizer " << (name) << " (or xz) is not here"; \
  const ::pagoda::text::Tokenizer& variable = *variable##_pointer
