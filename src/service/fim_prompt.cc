#include "service/fim_prompt.h"

#include <algorithm>
#include <utility>

namespace pagoda::service {

using text::FimTemplate;

namespace {

// Requests don't name the project or the edited file; these are llama-server's words in their place.
constexpr std::string_view kRepoName = "myproject\n";
constexpr std::string_view kFileName = "filename\n";

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

void append(std::vector<TokenId>* ids, const std::vector<TokenId>& more) {
  ids->insert(ids->end(), more.begin(), more.end());
}

}  // namespace

FimShares share_fim_budget(int64_t prefix_tokens, int64_t suffix_tokens, int64_t budget) {
  budget = std::max<int64_t>(budget, 0);
  const int64_t for_suffix = budget / 4, for_prefix = budget - for_suffix;
  FimShares shares{std::min(prefix_tokens, for_prefix), std::min(suffix_tokens, for_suffix)};
  shares.prefix = std::min(prefix_tokens, budget - shares.suffix);
  shares.suffix = std::min(suffix_tokens, budget - shares.prefix);
  return shares;
}

// A text that has at least `tokens` tokens, if there is so much, so that texts far beyond the context cost no
// more than the context.
std::string_view FimEncoder::bounded(std::string_view text, int64_t tokens, bool keep_end) const {
  const size_t limit = static_cast<size_t>(std::max<int64_t>(tokens, 0)) * longest_token_bytes_;
  if (text.size() <= limit) return text;
  size_t cut = keep_end ? text.size() - limit : limit;
  while (cut < text.size() && continues_character(text[cut])) ++cut;
  return keep_end ? text.substr(cut) : text.substr(0, cut);
}

bool FimEncoder::starts_character(TokenId id) const {
  const std::string bytes = tokenizer_.token_bytes(id);
  return bytes.empty() || !continues_character(bytes.front());
}

Result<FimEncoder::Side> FimEncoder::encode_side(std::string_view text, int64_t budget,
                                                 bool is_prefix) const {
  const std::string_view near = bounded(text, budget, is_prefix);
  const size_t left_out = text.size() - near.size();
  Side side;
  side.ids = PAGODA_TRY(template_.encode_text(tokenizer_, near, !is_prefix || left_out > 0));
  side.left_out = static_cast<int64_t>((left_out + longest_token_bytes_ - 1) / longest_token_bytes_);
  return side;
}

Result<std::vector<TokenId>> FimEncoder::encode_file(const FimFile& file) const {
  std::vector<TokenId> ids;
  if (template_.separator()) ids.push_back(*template_.separator());
  std::string text = file.name.empty() ? std::string() : file.name + "\n";
  text += file.text;
  if (!text.empty() && text.back() != '\n') text += '\n';
  append(&ids, PAGODA_TRY(template_.encode_text(tokenizer_, text, true)));
  return ids;
}

Result<std::vector<TokenId>> FimEncoder::encode_files(const std::vector<FimFile>& files, int64_t budget,
                                                      int* dropped) const {
  std::vector<TokenId> head, tail;
  if (template_.separator()) {
    if (template_.repo()) {
      head.push_back(*template_.repo());
      append(&head, PAGODA_TRY(template_.encode_text(tokenizer_, kRepoName, true)));
    }
    tail.push_back(*template_.separator());
    append(&tail, PAGODA_TRY(template_.encode_text(tokenizer_, kFileName, true)));
  }
  int64_t left = budget - static_cast<int64_t>(head.size() + tail.size());
  std::vector<std::vector<TokenId>> kept;  // the last file first
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    const size_t bytes = file->name.size() + file->text.size();
    if (left <= 0 || bytes / longest_token_bytes_ > static_cast<size_t>(left)) break;
    auto ids = PAGODA_TRY(encode_file(*file));
    if (std::cmp_greater(ids.size(), left)) break;
    left -= static_cast<int64_t>(ids.size());
    kept.push_back(std::move(ids));
  }
  *dropped = static_cast<int>(files.size() - kept.size());
  if (kept.empty()) return std::vector<TokenId>();
  for (auto ids = kept.rbegin(); ids != kept.rend(); ++ids) append(&head, *ids);
  append(&head, tail);
  return head;
}

// Gives up what one side has too much of, whole characters at a time.
void FimEncoder::cut_prefix(Side* side, int64_t tokens) const {
  if (std::cmp_less_equal(side->ids.size(), tokens)) return;
  auto first = side->ids.end() - tokens;
  while (first != side->ids.end() && !starts_character(*first)) ++first;
  side->left_out += first - side->ids.begin();
  side->ids.erase(side->ids.begin(), first);
}

void FimEncoder::cut_suffix(Side* side, int64_t tokens) const {
  if (std::cmp_less_equal(side->ids.size(), tokens)) return;
  auto end = side->ids.begin() + tokens;
  while (end != side->ids.begin() && !starts_character(*end)) --end;
  side->left_out += side->ids.end() - end;
  side->ids.erase(end, side->ids.end());
}

Result<EncodedFim> FimEncoder::encode(const FimPrompt& prompt, int64_t max_tokens) const {
  int64_t budget = max_tokens;
  for (const FimTemplate::Part& part : template_.parts()) budget -= static_cast<int64_t>(part.ids.size());
  Side prefix = PAGODA_TRY(encode_side(prompt.prefix, budget, true));
  Side suffix = PAGODA_TRY(encode_side(prompt.suffix, budget, false));
  const auto size = [](const Side& side) { return static_cast<int64_t>(side.ids.size()); };
  const FimShares shares = share_fim_budget(size(prefix), size(suffix), budget);
  cut_prefix(&prefix, shares.prefix);
  cut_suffix(&suffix, shares.suffix);
  EncodedFim result;
  std::vector<TokenId> files;
  if (!prompt.files.empty()) {
    const int64_t left = budget - size(prefix) - size(suffix);
    files = PAGODA_TRY(encode_files(prompt.files, left, &result.cut.files));
  }
  result.cut.prefix_tokens = prefix.left_out;
  result.cut.suffix_tokens = suffix.left_out;
  result.ids = assemble(prefix.ids, suffix.ids, files);
  return result;
}

// With separators the files go in front of everything but BOS, else they are text before the prefix.
std::vector<TokenId> FimEncoder::assemble(const std::vector<TokenId>& prefix,
                                          const std::vector<TokenId>& suffix,
                                          const std::vector<TokenId>& files) const {
  using Kind = FimTemplate::Part::Kind;
  std::vector<TokenId> ids;
  for (const FimTemplate::Part& part : template_.parts()) {
    if (part.kind == Kind::kPrefix && !template_.separator()) append(&ids, files);
    append(&ids, part.kind == Kind::kControl ? part.ids : part.kind == Kind::kPrefix ? prefix : suffix);
  }
  if (template_.separator()) {
    ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(template_.num_bos()), files.begin(), files.end());
  }
  return ids;
}

}  // namespace pagoda::service
