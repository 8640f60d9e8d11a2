// Tokenizers small enough to be written down, with every byte as a token.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace pagoda::text {

struct AddedToken {
  std::string content;
  bool special = true;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
};

inline void append_utf8(std::string& out, int code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// GPT-2's alphabet: the spelling of each byte.
inline std::string byte_spelling(int byte) {
  const auto stands_for_itself = [](int b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  int code = byte;
  if (!stands_for_itself(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += !stands_for_itself(b);
  }
  std::string out;
  append_utf8(out, code);
  return out;
}

inline nlohmann::ordered_json added_entries(const std::vector<AddedToken>& added, int first_id) {
  auto entries = nlohmann::ordered_json::array();
  for (const AddedToken& token : added) {
    entries.push_back({{"id", first_id++},
                       {"content", token.content},
                       {"single_word", false},
                       {"lstrip", token.lstrip},
                       {"rstrip", token.rstrip},
                       {"normalized", token.normalized},
                       {"special", token.special}});
  }
  return entries;
}

// Ids 0..255 are the bytes; added tokens follow. `bos`: put in front of every text.
inline std::string byte_tokenizer_json(const std::vector<AddedToken>& added, const std::string& bos = "") {
  nlohmann::ordered_json vocab;
  for (int b = 0; b < 256; ++b) vocab[byte_spelling(b)] = b;
  nlohmann::ordered_json post = nullptr;
  for (size_t i = 0; i < added.size(); ++i) {
    if (added[i].content != bos) continue;
    const nlohmann::ordered_json piece = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
    const nlohmann::ordered_json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    nlohmann::ordered_json special;
    special[bos] = {{"id", bos}, {"ids", {256 + i}}, {"tokens", {bos}}};
    post = {{"type", "TemplateProcessing"},
            {"single", {piece, text}},
            {"pair", {piece, text}},
            {"special_tokens", special}};
  }
  const nlohmann::ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return nlohmann::ordered_json{
      {"version", "1.0"},
      {"added_tokens", added_entries(added, 256)},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", post},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::ordered_json::array()}}}}
      .dump();
}

// SentencePiece-like: <unk> 0, <s> 1, </s> 2, ▁ 3, h 4, i 5, ▁h 6, ▁hi 7, hi 8, ▁x 9, x 10, bytes from 16 on.
// `metaspace`: prepend_scheme of a Metaspace pre-tokenizer; empty: the older normalizer.
inline std::string piece_tokenizer_json(const std::string& metaspace) {
  using nlohmann::ordered_json;
  const std::string mark = "\u2581";
  ordered_json vocab = {{"<unk>", 0},    {"<s>", 1},       {"</s>", 2}, {mark, 3},       {"h", 4}, {"i", 5},
                        {mark + "h", 6}, {mark + "hi", 7}, {"hi", 8},   {mark + "x", 9}, {"x", 10}};
  for (int b = 0; b < 256; ++b) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    vocab[std::string("<0x") + kDigits[b / 16] + kDigits[b % 16] + ">"] = 16 + b;
  }
  // A list of pairs would become an object.
  ordered_json merges = ordered_json::array();
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {mark, "h"}, {mark + "h", "i"}, {"h", "i"}, {mark, "x"}}) {
    merges.push_back(ordered_json::array({left, right}));
  }
  const ordered_json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}};
  const ordered_json back = {{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}};
  const ordered_json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  ordered_json normalizer = nullptr, pre_tokenizer = nullptr;
  if (metaspace.empty()) {
    normalizer = {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", mark}}, replace}}};
  } else {
    pre_tokenizer = {
        {"type", "Metaspace"}, {"replacement", mark}, {"prepend_scheme", metaspace}, {"split", false}};
  }
  ordered_json decoders = {back, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  decoders.push_back(strip);
  ordered_json model = {{"type", "BPE"}, {"unk_token", "<unk>"}, {"fuse_unk", true}, {"byte_fallback", true}};
  model["vocab"] = vocab;
  model["merges"] = merges;
  return ordered_json{{"version", "1.0"},
                      {"added_tokens", added_entries({{"<unk>"}, {"<s>"}, {"</s>"}}, 0)},
                      {"normalizer", normalizer},
                      {"pre_tokenizer", pre_tokenizer},
                      {"post_processor", nullptr},
                      {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
                      {"model", model}}
      .dump();
}

}  // namespace pagoda::text
