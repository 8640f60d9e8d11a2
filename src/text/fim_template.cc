#include "text/fim_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace pagoda::text {
namespace {

constexpr EncodeOptions kPlain{.add_special_tokens = false, .parse_special_tokens = false};
constexpr EncodeOptions kParsed{.add_special_tokens = false, .parse_special_tokens = true};
constexpr std::string_view kPrefix = "{prefix}", kSuffix = "{suffix}";
constexpr size_t kMaxTemplateBytes = 4096;

// What a family of models was trained with. An empty name: the family has no such token.
struct Family {
  std::string_view prefix, suffix, middle;
  bool suffix_first = false;
  std::string_view pad, repo, separator;
};

// Model cards and tokenizer files of the families named. The order matters where a vocabulary has several:
// Codestral's, which Mistral's general models have too, comes last.
constexpr std::array<Family, 8> kFamilies = {{
    // Qwen2.5-Coder; CodeGemma with <|file_separator|>.
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", false, "<|fim_pad|>", "<|repo_name|>",
     "<|file_sep|>"},
    // StarCoder2, StarCoder, StableCode, Granite.
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", false, "<fim_pad>", "<repo_name>", "<file_sep>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", false, "<fim-pad>", "", ""},  // SantaCoder
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", false, "", "", ""},     // DeepSeek-Coder
    {"▁<PRE>", "▁<SUF>", "▁<MID>", false, "", "", ""},                             // CodeLlama
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", false, "", "", ""},  // GLM
    {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", true, "", "", ""},      // Seed-Coder
    {"[PREFIX]", "[SUFFIX]", "", true, "", "", ""},                                // Codestral
}};

// Ends of texts and files, beside the end tokens that the model declares. Only where they are control tokens.
constexpr std::array<std::string_view, 14> kEndsOfFiles = {"<|endoftext|>",
                                                           "<|end_of_text|>",
                                                           "<|file_separator|>",
                                                           "<|file_sep|>",
                                                           "<file_sep>",
                                                           "▁<EOT>",
                                                           "<EOT>",
                                                           "<|EOT|>",
                                                           "<|eot_id|>",
                                                           "<|im_end|>",
                                                           "<|im_start|>",
                                                           "</s>",
                                                           "<eos>",
                                                           "<｜end▁of▁sentence｜>"};

// The ids that the tokenizer puts in front of every text: BOS, if anything.
std::vector<TokenId> leading_ids(const Tokenizer& tokenizer) {
  const auto plain = tokenizer.encode("x", kPlain);
  const auto whole = tokenizer.encode("x", {.add_special_tokens = true, .parse_special_tokens = false});
  if (!plain || !whole || plain->empty()) return {};
  const auto start = std::search(whole->begin(), whole->end(), plain->begin(), plain->end());
  return {whole->begin(), start == whole->end() ? whole->begin() : start};
}

std::string bytes_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.token_bytes(id);
  return bytes;
}

// Without the space that SentencePiece vocabularies put in front of a text. A character that never joins with
// what follows goes first and is taken off again.
Result<std::vector<TokenId>> encode_joined(const Tokenizer& tokenizer, std::string_view text) {
  constexpr std::string_view kGuard = "\xE2\x98\xBA";  // U+263A
  auto plain = PAGODA_TRY(tokenizer.encode(text, kPlain));
  const size_t head = std::min<size_t>(plain.size(), 1);
  const std::string first =
      bytes_of(tokenizer, {plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(head)});
  const bool added_space = first.starts_with(' ') && !text.starts_with(' ');
  // A text that begins with a space itself may have lost none or got a second one: only its length tells.
  if (!added_space && !text.starts_with(' ')) return plain;
  if (bytes_of(tokenizer, plain) == text) return plain;
  const auto guard = PAGODA_TRY(tokenizer.encode(kGuard, kPlain));
  auto guarded = PAGODA_TRY(tokenizer.encode(std::string(kGuard).append(text), kPlain));
  if (guarded.size() < guard.size() || !std::equal(guard.begin(), guard.end(), guarded.begin())) return plain;
  guarded.erase(guarded.begin(), guarded.begin() + static_cast<std::ptrdiff_t>(guard.size()));
  return guarded;
}

Error wrong_template(std::string message) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message), "--fim-template");
}

// "<fim_prefix>", "[SUFFIX]": files exist whose vocabulary doesn't mark such tokens as control tokens.
bool looks_like_control(std::string_view bytes) {
  return bytes.size() > 3 &&
         ((bytes.front() == '<' && bytes.back() == '>') || (bytes.front() == '[' && bytes.back() == ']'));
}

size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

size_t count(std::string_view text, std::string_view word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + word.size()))
    ++found;
  return found;
}

}  // namespace

void FimTemplate::add_stop(TokenId id) {
  if (std::find(stop_ids_.begin(), stop_ids_.end(), id) == stop_ids_.end()) stop_ids_.push_back(id);
}

void FimTemplate::add_control(const Tokenizer& tokenizer, TokenId id) {
  if (parts_.empty() || parts_.back().kind != Part::Kind::kControl)
    parts_.push_back({Part::Kind::kControl, {}});
  parts_.back().ids.push_back(id);
  source_ += tokenizer.token_bytes(id);
  add_stop(id);
}

void FimTemplate::add_bos(const Tokenizer& tokenizer) {
  const std::vector<TokenId> bos = leading_ids(tokenizer);
  if (bos.empty()) return;
  const bool own_control = !parts_.empty() && parts_.front().kind == Part::Kind::kControl;
  if (!own_control) parts_.insert(parts_.begin(), Part{});
  num_bos_ = bos.size();
  std::vector<TokenId>& first = parts_.front().ids;
  if (first.size() >= bos.size() && std::equal(bos.begin(), bos.end(), first.begin())) return;
  first.insert(first.begin(), bos.begin(), bos.end());
}

void FimTemplate::add_ends_of_files(const Tokenizer& tokenizer) {
  for (const std::string_view name : kEndsOfFiles) {
    const auto id = tokenizer.token_to_id(name);
    if (id && tokenizer.is_special(*id)) add_stop(*id);
  }
}

std::optional<FimTemplate> FimTemplate::detect(const Tokenizer& tokenizer, const FimTokenIds& declared) {
  const auto find = [&](std::string_view name) {
    return name.empty() ? std::nullopt : tokenizer.token_to_id(name);
  };
  const bool is_declared = declared.prefix && declared.suffix;
  const auto fits = [&](const Family& family) {
    if (is_declared) return find(family.prefix) == declared.prefix;
    return find(family.prefix) && find(family.suffix) && (family.middle.empty() || find(family.middle));
  };
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), fits);
  if (found == kFamilies.end() && !is_declared) return std::nullopt;
  // Tokens of a name that no family has are used in the usual order.
  const Family family = found == kFamilies.end() ? Family{} : *found;
  const auto choose = [&](const std::optional<TokenId>& id, std::string_view name) {
    return is_declared && id ? id : find(name);
  };
  FimTemplate result;
  const auto add = [&](TokenId control, Part::Kind kind) {
    result.add_control(tokenizer, control);
    result.parts_.push_back({kind, {}});
    result.source_ += kind == Part::Kind::kPrefix ? kPrefix : kSuffix;
  };
  const TokenId prefix = *choose(declared.prefix, family.prefix);
  const TokenId suffix = *choose(declared.suffix, family.suffix);
  if (family.suffix_first) add(suffix, Part::Kind::kSuffix);
  add(prefix, Part::Kind::kPrefix);
  if (!family.suffix_first) add(suffix, Part::Kind::kSuffix);
  if (const auto middle = choose(declared.middle, family.middle)) result.add_control(tokenizer, *middle);
  result.repo_ = choose(declared.repo, family.repo);
  result.separator_ = choose(declared.separator, family.separator);
  if (!result.separator_) result.separator_ = find("<|file_separator|>");
  for (const auto& id : {choose(declared.pad, family.pad), result.repo_, result.separator_}) {
    if (id) result.add_stop(*id);
  }
  result.add_ends_of_files(tokenizer);
  result.add_bos(tokenizer);
  return result;
}

Result<FimTemplate> FimTemplate::parse(const Tokenizer& tokenizer, std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return wrong_template(
        fmt::format("--fim-template has {} bytes; at most {} are allowed", source.size(), kMaxTemplateBytes));
  }
  for (const std::string_view name : {kPrefix, kSuffix}) {
    if (count(source, name) == 1) continue;
    return wrong_template(fmt::format("--fim-template must hold {} exactly once, got {} in '{}'", name,
                                      count(source, name), source));
  }
  FimTemplate result;
  result.source_ = source;
  const size_t prefix = source.find(kPrefix), suffix = source.find(kSuffix);
  const size_t first = std::min(prefix, suffix), second = std::max(prefix, suffix);
  const auto kind_at = [&](size_t at) { return at == prefix ? Part::Kind::kPrefix : Part::Kind::kSuffix; };
  const auto add_own = [&](std::string_view text) -> Result<void> {
    if (text.empty()) return {};
    auto ids = tokenizer.encode(text, kParsed);
    if (!ids) return wrong_template("--fim-template: " + ids.error().message);
    for (const TokenId id : *ids) {
      if (tokenizer.is_special(id) || looks_like_control(tokenizer.token_bytes(id))) result.add_stop(id);
    }
    result.parts_.push_back({Part::Kind::kControl, std::move(*ids)});
    return {};
  };
  // Both names have the same length.
  PAGODA_TRY(add_own(source.substr(0, first)));
  result.parts_.push_back({kind_at(first), {}});
  PAGODA_TRY(add_own(source.substr(first + kPrefix.size(), second - first - kPrefix.size())));
  result.parts_.push_back({kind_at(second), {}});
  PAGODA_TRY(add_own(source.substr(second + kSuffix.size())));
  result.add_ends_of_files(tokenizer);
  result.add_bos(tokenizer);
  return result;
}

Result<std::vector<TokenId>> FimTemplate::encode_text(const Tokenizer& tokenizer, std::string_view text,
                                                      bool joined) const {
  auto ids = PAGODA_TRY(joined ? encode_joined(tokenizer, text) : tokenizer.encode(text, kPlain));
  // Added tokens that the vocabulary doesn't mark as control tokens are found in plain text, too. Two pieces
  // of such a name are none.
  std::vector<size_t> cuts;
  for (const TokenId control : stop_ids_) {
    if (std::find(ids.begin(), ids.end(), control) == ids.end()) continue;
    const std::string name = tokenizer.token_bytes(control);
    if (name.empty()) continue;
    for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + name.size())) {
      cuts.push_back(at + character_bytes(name.front()));
    }
  }
  if (cuts.empty()) return ids;
  std::sort(cuts.begin(), cuts.end());
  cuts.push_back(text.size());
  ids.clear();
  size_t start = 0;
  for (const size_t cut : cuts) {
    const std::string_view piece = text.substr(start, cut - start);
    const auto part =
        PAGODA_TRY(start > 0 || joined ? encode_joined(tokenizer, piece) : tokenizer.encode(piece, kPlain));
    ids.insert(ids.end(), part.begin(), part.end());
    start = cut;
  }
  return ids;
}

}  // namespace pagoda::text
