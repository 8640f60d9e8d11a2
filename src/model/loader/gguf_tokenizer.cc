#include "model/loader/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/loader/gguf_pre_tokenizers.h"
#include "model/loader/gguf_token_type.h"

namespace pagoda::model {
namespace {

using nlohmann::ordered_json;

// U+2581, SentencePiece's spelling of a space.
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Ids by text. A start looks up three texts for each of 150,000 merges, and most of a lookup in a table of
// nodes is waiting for memory: here a slot holds 32 bits of the hash next to the id, and the text is compared
// once.
class Vocab {
 public:
  explicit Vocab(std::span<const std::string> tokens)
      : tokens_(tokens), slots_(std::bit_ceil(2 * tokens.size())) {}

  // Of the tokens that were inserted.
  std::optional<int64_t> find(std::string_view text) const {
    const Slot& slot = slots_[place(text)];
    return slot.id < 0 ? std::nullopt : std::optional<int64_t>(slot.id);
  }
  // The id under which the text of token `id` is there already; nullopt when it is new.
  std::optional<int64_t> insert(int64_t id) {
    const std::string_view text = tokens_[static_cast<size_t>(id)];
    Slot& slot = slots_[place(text)];
    if (slot.id >= 0) return slot.id;
    slot = {tag(text), static_cast<int32_t>(id)};
    return std::nullopt;
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = -1;  // the GGUF reader bounds arrays by the file's size, index_tokens by this type
  };
  static uint32_t tag(std::string_view text) {
    return static_cast<uint32_t>(std::hash<std::string_view>()(text) >> 32);
  }
  // The slot of `text`, or the free one where it belongs; half of all slots stay free.
  size_t place(std::string_view text) const {
    const size_t hash = std::hash<std::string_view>()(text), mask = slots_.size() - 1;
    size_t at = hash & mask;
    const auto wanted = static_cast<uint32_t>(hash >> 32);
    while (slots_[at].id >= 0 &&
           (slots_[at].tag != wanted || tokens_[static_cast<size_t>(slots_[at].id)] != text)) {
      at = (at + 1) & mask;
    }
    return at;
  }

  std::span<const std::string> tokens_;
  std::vector<Slot> slots_;
};

template <class... Args>
Error corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorKind::kCorruptFile, fmt::format(format, std::forward<Args>(args)...));
}

// Bytes of the UTF-8 sequence that `lead` begins; 0 when none begins with it.
size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t length = sequence_length(lead);
    if (length == 0 || at + length > text.size()) return false;
    for (size_t i = 1; i < length; ++i) {
      if ((static_cast<unsigned char>(text[at + i]) & 0xC0u) != 0x80u) return false;
    }
    const unsigned char second = length > 1 ? static_cast<unsigned char>(text[at + 1]) : 0;
    // Overlong forms, surrogates and numbers above U+10FFFF.
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0)) return false;
    if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) return false;
    at += length;
  }
  return true;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

int32_t type_of(const GgufVocabulary& vocabulary, size_t id) {
  return vocabulary.token_types.empty() ? static_cast<int32_t>(kNormal) : vocabulary.token_types[id];
}

Result<void> check_id(std::string_view name, const std::optional<int64_t>& id, size_t num_tokens) {
  if (id && (*id < 0 || static_cast<size_t>(*id) >= num_tokens)) {
    return corrupt("tokenizer.ggml.{}_token_id is {}, the vocabulary has {} tokens", name, *id, num_tokens);
  }
  return {};
}

// Ids by text. Empty tokens, which some converters write for holes, are left out.
Result<Vocab> index_tokens(const GgufVocabulary& vocabulary) {
  const auto& tokens = vocabulary.tokens;
  if (tokens.empty()) return corrupt("tokenizer.ggml.tokens is empty");
  if (!vocabulary.token_types.empty() && vocabulary.token_types.size() != tokens.size()) {
    return corrupt("tokenizer.ggml.token_type has {} entries, tokenizer.ggml.tokens {}",
                   vocabulary.token_types.size(), tokens.size());
  }
  PAGODA_TRY(check_id("bos", vocabulary.bos_id, tokens.size()));
  PAGODA_TRY(check_id("eos", vocabulary.eos_id, tokens.size()));
  PAGODA_TRY(check_id("unknown", vocabulary.unk_id, tokens.size()));
  if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return corrupt("tokenizer.ggml.tokens has {} entries", tokens.size());
  }
  Vocab vocab(tokens);
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!is_utf8(tokens[id])) return corrupt("token {} of tokenizer.ggml.tokens is not UTF-8", id);
    const int32_t type = type_of(vocabulary, id);
    if (type < 0 || type > kByte) return corrupt("tokenizer.ggml.token_type[{}] is no token type", id);
    if (tokens[id].empty()) continue;
    if (const auto before = vocab.insert(static_cast<int64_t>(id))) {
      return corrupt("tokens {} and {} of tokenizer.ggml.tokens are the same", *before, id);
    }
  }
  return vocab;
}

struct Merge {
  std::string_view left, right;
};

Result<std::vector<Merge>> parse_merges(const GgufVocabulary& vocabulary, const Vocab& vocab) {
  if (vocabulary.merges.empty()) return corrupt("a byte-level BPE vocabulary needs tokenizer.ggml.merges");
  std::vector<Merge> merges;
  merges.reserve(vocabulary.merges.size());
  std::string merged;
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string_view line = vocabulary.merges[i];
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == line.size()) {
      return corrupt("tokenizer.ggml.merges[{}] is not two tokens with a space between them", i);
    }
    const Merge merge{line.substr(0, space), line.substr(space + 1)};
    merged.assign(merge.left).append(merge.right);
    for (const std::string_view part : {merge.left, merge.right, std::string_view(merged)}) {
      if (!vocab.find(part)) return corrupt("tokenizer.ggml.merges[{}] needs a token that does not exist", i);
    }
    merges.push_back(merge);
  }
  return merges;
}

// SentencePiece merges the neighbours whose union has the best score. The same as BPE: every way of splitting
// a token into two tokens is a merge, and the token's score is its rank.
std::vector<Merge> merges_from_scores(const GgufVocabulary& vocabulary, const Vocab& vocab) {
  struct Ranked {
    Merge merge;
    float score;
    int64_t left, right;
  };
  std::vector<Ranked> ranked;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const int32_t type = type_of(vocabulary, id);
    if (type == kControl || type == kUnknown || type == kByte) continue;
    const std::string_view token = vocabulary.tokens[id];
    const size_t first = ranked.size();
    for (size_t cut = 0; cut < token.size();) {
      cut += sequence_length(static_cast<unsigned char>(token[cut]));
      const auto left = vocab.find(token.substr(0, cut));
      if (cut >= token.size() || !left) continue;
      const auto right = vocab.find(token.substr(cut));
      if (!right) continue;
      ranked.push_back({{token.substr(0, cut), token.substr(cut)}, vocabulary.scores[id], *left, *right});
    }
    // Splits of the same token: by the ids of their parts, as transformers' converter orders them.
    std::sort(ranked.begin() + static_cast<std::ptrdiff_t>(first), ranked.end(),
              [](const Ranked& a, const Ranked& b) {
                return std::pair(a.left, a.right) < std::pair(b.left, b.right);
              });
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return a.score > b.score; });
  std::vector<Merge> merges;
  merges.reserve(ranked.size());
  for (const Ranked& one : ranked) merges.push_back(one.merge);
  return merges;
}

ordered_json added_tokens(const GgufVocabulary& vocabulary) {
  ordered_json added = ordered_json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const int32_t type = type_of(vocabulary, id);
    const bool is_special = type == kControl || type == kUnknown;
    if ((!is_special && type != kUserDefined) || vocabulary.tokens[id].empty()) continue;
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", is_special}});
  }
  return added;
}

ordered_json post_processor(const GgufVocabulary& vocabulary, bool add_bos_by_default) {
  const bool add_bos = vocabulary.add_bos.value_or(add_bos_by_default) && vocabulary.bos_id.has_value();
  const bool add_eos = vocabulary.add_eos.value_or(false) && vocabulary.eos_id.has_value();
  if (!add_bos && !add_eos) return nullptr;
  ordered_json special = ordered_json::object();
  const auto piece = [&](int64_t id, int sequence) -> ordered_json {
    const std::string& text = vocabulary.tokens[static_cast<size_t>(id)];
    special[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
    return {{"SpecialToken", {{"id", text}, {"type_id", sequence}}}};
  };
  const auto sequence = [&](const char* name, int number) {
    ordered_json pieces = ordered_json::array();
    if (add_bos) pieces.push_back(piece(*vocabulary.bos_id, number));
    pieces.push_back({{"Sequence", {{"id", name}, {"type_id", number}}}});
    if (add_eos) pieces.push_back(piece(*vocabulary.eos_id, number));
    return pieces;
  };
  const ordered_json single = sequence("A", 0);
  ordered_json pair = single;
  for (const auto& part : sequence("B", 1)) pair.push_back(part);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

ordered_json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

ordered_json pre_tokenizer(const GgufPreTokenizer& pre) {
  ordered_json steps = ordered_json::array();
  for (const std::string_view split : pre.splits) {
    if (split.empty()) continue;
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", split}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  steps.push_back(byte_level(pre.byte_level_regex));
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

ordered_json replace(std::string_view pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

// What tokenizer.json says beside the two long lists.
struct Description {
  ordered_json normalizer, pre_tokenizer, decoder, post_processor;
  ordered_json unk_token;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

std::string write(const GgufVocabulary& vocabulary, const std::vector<Merge>& merges,
                  const Description& description) {
  ordered_json head = {{"version", "1.0"},
                       {"truncation", nullptr},
                       {"padding", nullptr},
                       {"added_tokens", added_tokens(vocabulary)},
                       {"normalizer", description.normalizer},
                       {"pre_tokenizer", description.pre_tokenizer},
                       {"post_processor", description.post_processor},
                       {"decoder", description.decoder}};
  ordered_json model = {{"type", "BPE"},
                        {"dropout", nullptr},
                        {"unk_token", description.unk_token},
                        {"fuse_unk", description.byte_fallback},
                        {"byte_fallback", description.byte_fallback},
                        {"ignore_merges", description.ignore_merges}};
  std::string out = head.dump();
  out.pop_back();
  out += ",\"model\":" + model.dump();
  out.pop_back();
  // A vocabulary has up to 262,144 tokens and twice as many merges: these are written without a tree in
  // between.
  out += ",\"vocab\":{";
  bool is_first = true;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id].empty()) continue;
    if (!is_first) out += ',';
    is_first = false;
    append_json_string(out, vocabulary.tokens[id]);
    out += ':';
    out += std::to_string(id);
  }
  out += "},\"merges\":[";
  for (size_t i = 0; i < merges.size(); ++i) {
    out += i > 0 ? ",[" : "[";
    append_json_string(out, merges[i].left);
    out += ',';
    append_json_string(out, merges[i].right);
    out += ']';
  }
  out += "]}}";
  return out;
}

Result<GgufPreTokenizer> find_pre_tokenizer(std::string_view name) {
  if (name.empty()) name = "default";
  for (const auto& known : kGgufPreTokenizers) {
    if (known.name == name) return known.value;
  }
  std::string message(fmt::format("tokenizer.ggml.pre is '{}', which is not supported; supported are", name));
  const char* separator = " ";
  for (const std::string_view known : supported_gguf_pre_tokenizers()) {
    message.append(separator).append(known);
    separator = ", ";
  }
  return make_error(ErrorKind::kUnsupportedModel, std::move(message));
}

Result<std::string> byte_level_bpe_json(const GgufVocabulary& vocabulary, const Vocab& vocab) {
  const GgufPreTokenizer pre = PAGODA_TRY(find_pre_tokenizer(vocabulary.pre));
  const std::vector<Merge> merges = PAGODA_TRY(parse_merges(vocabulary, vocab));
  Description description;
  if (pre.nfc) description.normalizer = {{"type", "NFC"}};
  description.pre_tokenizer = pre_tokenizer(pre);
  description.decoder = byte_level(true);
  description.post_processor = post_processor(vocabulary, pre.add_bos);
  description.ignore_merges = pre.ignore_merges;
  return write(vocabulary, merges, description);
}

ordered_json sentencepiece_decoder(bool strip_space) {
  ordered_json steps = {replace(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (strip_space) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

Result<std::string> sentencepiece_json(const GgufVocabulary& vocabulary, const Vocab& vocab) {
  if (vocabulary.scores.size() != vocabulary.tokens.size()) {
    return corrupt(
        "a SentencePiece vocabulary needs one score a token: tokenizer.ggml.scores has {} entries, "
        "tokenizer.ggml.tokens {}",
        vocabulary.scores.size(), vocabulary.tokens.size());
  }
  for (size_t id = 0; id < vocabulary.scores.size(); ++id) {
    if (!std::isfinite(vocabulary.scores[id]))
      return corrupt("tokenizer.ggml.scores[{}] is not a number", id);
  }
  const bool add_space = vocabulary.add_space_prefix.value_or(true);
  Description description;
  ordered_json steps = ordered_json::array();
  if (add_space) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  steps.push_back(replace(" ", kSpaceMark));
  description.normalizer = {{"type", "Sequence"}, {"normalizers", steps}};
  description.decoder = sentencepiece_decoder(add_space);
  description.post_processor = post_processor(vocabulary, true);
  if (vocabulary.unk_id) description.unk_token = vocabulary.tokens[static_cast<size_t>(*vocabulary.unk_id)];
  description.byte_fallback = true;
  return write(vocabulary, merges_from_scores(vocabulary, vocab), description);
}

}  // namespace

std::vector<std::string_view> supported_gguf_pre_tokenizers() {
  std::vector<std::string_view> names;
  for (const auto& known : kGgufPreTokenizers) names.push_back(known.name);
  return names;
}

Result<std::string> gguf_tokenizer_json(const GgufVocabulary& vocabulary) {
  if (vocabulary.model != "gpt2" && vocabulary.model != "llama") {
    return make_error(
        ErrorKind::kUnsupportedModel,
        fmt::format("tokenizer.ggml.model is '{}'; supported are gpt2 (byte-level BPE) and llama "
                    "(SentencePiece)",
                    vocabulary.model));
  }
  const Vocab vocab = PAGODA_TRY(index_tokens(vocabulary));
  return vocabulary.model == "gpt2" ? byte_level_bpe_json(vocabulary, vocab)
                                    : sentencepiece_json(vocabulary, vocab);
}

}  // namespace pagoda::model
