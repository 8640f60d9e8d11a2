#include "quantize/gguf/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "model/loader/gguf_pre_tokenizers.h"
#include "model/loader/gguf_token_type.h"

namespace pagoda::quantize {
namespace {

using Json = nlohmann::json;
using enum model::GgufTokenType;

// Below the score of every token that merges can make.
constexpr float kNoScore = -1e6f;

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string_view text(const Json& object, const char* key) {
  const Json* const value = find(object, key);
  return value != nullptr && value->is_string() ? std::string_view(value->get_ref<const std::string&>())
                                                : std::string_view();
}

bool flag(const Json& object, const char* key) {
  const Json* const value = find(object, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// The parts of a "Sequence", or the one that there is.
std::vector<const Json*> steps(const Json* part, const char* list) {
  std::vector<const Json*> all;
  if (part == nullptr) return all;
  if (text(*part, "type") != "Sequence") return {part};
  const Json* const parts = find(*part, list);
  if (parts == nullptr || !parts->is_array()) return all;
  for (const Json& one : *parts) all.push_back(&one);
  return all;
}

bool is_byte_token(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
}

class Writer {
 public:
  Writer(const model::Checkpoint& checkpoint, const Json& root, GgufMetadata& metadata)
      : checkpoint_(checkpoint), root_(root), out_(metadata) {}

  Result<void> run() {
    const Json* const model = find(root_, "model");
    if (model == nullptr || (find(*model, "type") != nullptr && text(*model, "type") != "BPE")) {
      return unsupported(fmt::format("the model '{}' of its tokenizer.json has no counterpart in a GGUF file",
                                     model == nullptr ? "" : text(*model, "type")));
    }
    model_ = model;
    PAGODA_TRY(collect_tokens());
    PAGODA_TRY(collect_added());
    PAGODA_TRY(collect_merges());
    if (flag(*model_, "byte_fallback")) {
      PAGODA_TRY(write_sentencepiece());
    } else {
      PAGODA_TRY(write_byte_level());
    }
    out_.set_strings("tokenizer.ggml.tokens", tokens_);
    out_.set_i32s("tokenizer.ggml.token_type", types_);
    return write_special();
  }

 private:
  Error unsupported(const std::string& message) const {
    return make_error(ErrorKind::kUnsupportedModel, checkpoint_.path + ": " + message);
  }
  Error corrupt(const std::string& message) const {
    return make_error(ErrorKind::kCorruptFile, checkpoint_.path + "/tokenizer.json: " + message);
  }

  Result<void> collect_tokens();
  Result<void> collect_added();
  Result<void> collect_merges();
  Result<void> place(const std::string& token, const Json& id, model::GgufTokenType type);
  Result<void> write_byte_level();
  Result<void> write_sentencepiece();
  std::vector<float> scores() const;
  void write_post_processor();
  Result<void> write_special();
  void write_id(const char* kind, const std::string& token);
  void write_id(const char* kind, int64_t id) {
    out_.set_u32(fmt::format("tokenizer.ggml.{}_token_id", kind), static_cast<uint32_t>(id));
  }

  const model::Checkpoint& checkpoint_;
  const Json& root_;
  GgufMetadata& out_;
  const Json* model_ = nullptr;
  std::vector<std::string> tokens_;
  std::vector<int32_t> types_;
  std::unordered_map<std::string, int64_t> ids_;
  std::vector<std::pair<std::string, std::string>> merges_;
  bool wrote_bos_ = false;
};

Result<void> Writer::place(const std::string& token, const Json& id, model::GgufTokenType type) {
  const int64_t number = id.is_number_integer() ? id.get<int64_t>() : -1;
  if (number < 0 || number >= checkpoint_.config.vocab_size) {
    return corrupt(fmt::format("token '{}' has the id {}, the embedding {} rows", token, number,
                               checkpoint_.config.vocab_size));
  }
  const auto at = static_cast<size_t>(number);
  if (types_[at] != kUnused && tokens_[at] != token) {
    return corrupt(fmt::format("tokens '{}' and '{}' have the same id {}", tokens_[at], token, number));
  }
  tokens_[at] = token;
  types_[at] = type;
  ids_[token] = number;
  return {};
}

Result<void> Writer::collect_tokens() {
  const auto rows = static_cast<size_t>(checkpoint_.config.vocab_size);
  types_.assign(rows, kUnused);
  for (size_t id = 0; id < rows; ++id) tokens_.push_back(fmt::format("[PAD{}]", id));
  const Json* const vocabulary = find(*model_, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_object()) return corrupt("the vocabulary is no object");
  const bool bytes = flag(*model_, "byte_fallback");
  const std::string_view unknown = text(*model_, "unk_token");
  for (const auto& [token, id] : vocabulary->items()) {
    const model::GgufTokenType type = bytes && is_byte_token(token)          ? kByte
                                      : !unknown.empty() && token == unknown ? kUnknown
                                                                             : kNormal;
    PAGODA_TRY(place(token, id, type));
  }
  return {};
}

Result<void> Writer::collect_added() {
  const Json* const added = find(root_, "added_tokens");
  if (added == nullptr || !added->is_array()) return {};
  const std::string_view unknown = text(*model_, "unk_token");
  for (const Json& token : *added) {
    const std::string content(text(token, "content"));
    const Json* const id = find(token, "id");
    if (content.empty() || id == nullptr) return corrupt("an added token has no content or no id");
    const model::GgufTokenType type = content == unknown       ? kUnknown
                                      : flag(token, "special") ? kControl
                                                               : kUserDefined;
    PAGODA_TRY(place(content, *id, type));
  }
  return {};
}

Result<void> Writer::collect_merges() {
  const Json* const merges = find(*model_, "merges");
  if (merges == nullptr || !merges->is_array()) return corrupt("the merges are no list");
  merges_.reserve(merges->size());
  for (const Json& merge : *merges) {
    if (merge.is_string()) {
      const auto& line = merge.get_ref<const std::string&>();
      const size_t space = line.find(' ', 1);
      if (space == std::string::npos) return corrupt(fmt::format("merge '{}' has one part", line));
      merges_.emplace_back(line.substr(0, space), line.substr(space + 1));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges_.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else {
      return corrupt("a merge is no pair of tokens");
    }
  }
  return {};
}

// How a byte-level tokenizer cuts text into words, as the format's table has it; nullopt for steps that it
// knows nothing of.
std::optional<model::GgufPreTokenizer> word_rules(const Json& root) {
  model::GgufPreTokenizer rules;
  size_t count = 0;
  bool has_bytes = false;
  const auto split = [&](std::string_view pattern) {
    if (count < rules.splits.size()) rules.splits[count] = pattern;
    ++count;
  };
  for (const Json* step : steps(find(root, "pre_tokenizer"), "pretokenizers")) {
    const std::string_view type = text(*step, "type");
    if (type == "ByteLevel") {
      if (flag(*step, "add_prefix_space")) return std::nullopt;
      const Json* const regex = find(*step, "use_regex");
      rules.byte_level_regex = regex == nullptr || flag(*step, "use_regex");
      has_bytes = true;
    } else if (type == "Digits") {
      if (!flag(*step, "individual_digits")) return std::nullopt;
      split(model::gguf_patterns::kDigit);
    } else if (type == "Split") {
      const Json* const pattern = find(*step, "pattern");
      const bool inverted = flag(*step, "invert");
      const bool keeps_all = text(*step, "behavior") == (inverted ? "Removed" : "Isolated");
      if (pattern == nullptr || !keeps_all) return std::nullopt;
      split(text(*pattern, "Regex"));
    } else {
      return std::nullopt;
    }
  }
  if (!has_bytes || count > rules.splits.size()) return std::nullopt;
  return rules;
}

bool normalises_to_nfc(const Json& root) {
  const auto all = steps(find(root, "normalizer"), "normalizers");
  return all.size() == 1 && text(*all[0], "type") == "NFC";
}

Result<void> Writer::write_byte_level() {
  const auto rules = word_rules(root_);
  const bool nfc = normalises_to_nfc(root_), ignores = flag(*model_, "ignore_merges");
  const bool plain = find(root_, "normalizer") == nullptr || nfc;
  const model::NamedGgufPreTokenizer* found = nullptr;
  for (const auto& known : model::kGgufPreTokenizers) {
    const bool same = rules && plain && known.value.splits == rules->splits &&
                      known.value.byte_level_regex == rules->byte_level_regex &&
                      known.value.ignore_merges == ignores && known.value.nfc == nfc;
    if (same && found == nullptr) found = &known;
  }
  if (found == nullptr) {
    return unsupported(
        "the way in which its tokenizer.json splits words has no name among tokenizer.ggml.pre of GGUF "
        "files");
  }
  out_.set_string("tokenizer.ggml.model", "gpt2");
  out_.set_string("tokenizer.ggml.pre", found->name);
  std::vector<std::string> lines;
  lines.reserve(merges_.size());
  for (const auto& [left, right] : merges_) lines.push_back(left + " " + right);
  out_.set_strings("tokenizer.ggml.merges", lines);
  return {};
}

// SentencePiece merges what has the best score. The ranks of a tokenizer.json that came from it are those
// scores: all ways to make a token lie together.
std::vector<float> Writer::scores() const {
  std::vector<float> scores(tokens_.size(), kNoScore);
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    const auto made = ids_.find(merges_[rank].first + merges_[rank].second);
    if (made == ids_.end()) continue;
    float& score = scores[static_cast<size_t>(made->second)];
    if (score == kNoScore) score = -static_cast<float>(rank);
  }
  return scores;
}

Result<void> Writer::write_sentencepiece() {
  bool adds_space = false, known = true;
  for (const Json* step : steps(find(root_, "normalizer"), "normalizers")) {
    const std::string_view type = text(*step, "type");
    adds_space = adds_space || type == "Prepend";
    known = known && (type == "Prepend" || type == "Replace");
  }
  for (const Json* step : steps(find(root_, "pre_tokenizer"), "pretokenizers")) {
    const std::string_view type = text(*step, "type"), scheme = text(*step, "prepend_scheme");
    known = known && (type == "Metaspace" || type == "Split");
    if (type != "Metaspace") continue;
    adds_space = adds_space || (scheme.empty() ? flag(*step, "add_prefix_space") : scheme != "never");
  }
  if (!known)
    return unsupported("its tokenizer.json changes or splits text in a way that GGUF files can't say");
  out_.set_string("tokenizer.ggml.model", "llama");
  out_.set_string("tokenizer.ggml.pre", "default");
  out_.set_f32s("tokenizer.ggml.scores", scores());
  out_.set_bool("tokenizer.ggml.add_space_prefix", adds_space);
  return {};
}

void Writer::write_id(const char* kind, const std::string& token) {
  if (const auto found = ids_.find(token); !token.empty() && found != ids_.end())
    write_id(kind, found->second);
}

// The tokens that come before and behind every text.
void Writer::write_post_processor() {
  bool add_bos = false, add_eos = false;
  for (const Json* step : steps(find(root_, "post_processor"), "processors")) {
    const Json* const single = find(*step, "single");
    if (text(*step, "type") != "TemplateProcessing" || single == nullptr || !single->is_array()) continue;
    bool before = true;
    for (const Json& piece : *single) {
      const Json* const special = find(piece, "SpecialToken");
      if (special == nullptr) {
        before = false;
      } else if (before) {
        add_bos = wrote_bos_ = true;
        write_id("bos", std::string(text(*special, "id")));
      } else {
        add_eos = true;
      }
    }
  }
  out_.set_bool("tokenizer.ggml.add_bos_token", add_bos);
  out_.set_bool("tokenizer.ggml.add_eos_token", add_eos);
}

Result<void> Writer::write_special() {
  const model::ModelConfig& config = checkpoint_.config;
  write_post_processor();
  if (!wrote_bos_ && config.bos.value >= 0) write_id("bos", config.bos.value);
  if (!wrote_bos_) write_id("bos", checkpoint_.bos_token);
  // The format has three names for tokens that end a text; a model may have as many.
  std::vector<int64_t> ends;
  const auto own = ids_.find(checkpoint_.eos_token);
  if (!checkpoint_.eos_token.empty() && own != ids_.end()) ends.push_back(own->second);
  for (const TokenId id : config.eos) {
    if (std::find(ends.begin(), ends.end(), id.value) == ends.end()) ends.push_back(id.value);
  }
  constexpr std::array<const char*, 3> kKinds = {"eos", "eot", "eom"};
  for (size_t i = 0; i < std::min(ends.size(), kKinds.size()); ++i) write_id(kKinds[i], ends[i]);
  write_id("padding", checkpoint_.pad_token);
  write_id("unknown",
           checkpoint_.unk_token.empty() ? std::string(text(*model_, "unk_token")) : checkpoint_.unk_token);
  if (!checkpoint_.chat_template.empty()) {
    out_.set_string("tokenizer.chat_template", checkpoint_.chat_template);
  }
  return {};
}

}  // namespace

Result<void> write_vocabulary(const model::Checkpoint& checkpoint, GgufMetadata& metadata) {
  if (checkpoint.tokenizer_json.empty()) {
    return make_error(ErrorKind::kUnsupportedModel,
                      checkpoint.path + " has no tokenizer.json, from which a GGUF file gets its vocabulary");
  }
  const Json root = Json::parse(checkpoint.tokenizer_json, nullptr, false);
  if (root.is_discarded()) {
    return make_error(ErrorKind::kCorruptFile, checkpoint.path + "/tokenizer.json is no JSON");
  }
  return Writer(checkpoint, root, metadata).run();
}

}  // namespace pagoda::quantize
