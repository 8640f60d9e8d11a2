#include "api/openai/output/part_list.h"

#include <utility>

#include "base/rng.h"

namespace pagoda::openai {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kIdLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
constexpr size_t kIdLength = 24, kShortIdLength = 9;

}  // namespace

PartList::PartList(bool drops_space_at_calls, bool one_call, bool short_ids)
    : drops_space_(drops_space_at_calls), one_call_(one_call), short_ids_(short_ids) {}

void PartList::content(std::string_view text) {
  if (!drops_space_) return add_content(text);
  const size_t last = text.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    space_ += text;
    return;
  }
  std::string whole =
      std::exchange(space_, std::string(text.substr(last + 1))).append(text.substr(0, last + 1));
  if (std::exchange(after_call_, false)) whole.erase(0, whole.find_first_not_of(kSpace));
  add_content(whole);
}

void PartList::reasoning(std::string_view text) {
  if (text.empty()) return;
  if (!parts_.empty()) {
    if (auto* last = std::get_if<ReasoningText>(&parts_.back())) {
      last->text += text;
      return;
    }
  }
  parts_.emplace_back(ReasoningText{std::string(text)});
}

void PartList::begin_call(const std::string& name, std::string id) {
  space_.clear();
  after_call_ = true;
  dropping_ = one_call_ && calls_ > 0;
  if (dropping_) return;
  const int index = calls_++;
  parts_.emplace_back(ToolCallBegin{index, id.empty() ? new_id() : std::move(id), name});
}

void PartList::arguments(std::string_view text) {
  if (text.empty() || dropping_) return;
  if (!parts_.empty()) {
    auto* last = std::get_if<ToolArguments>(&parts_.back());
    if (last != nullptr && last->index == calls_ - 1) {
      last->text += text;
      return;
    }
  }
  parts_.emplace_back(ToolArguments{calls_ - 1, std::string(text)});
}

void PartList::finish() {
  if (!after_call_) add_content(space_);
  space_.clear();
}

std::vector<OutputPart> PartList::take() {
  return std::exchange(parts_, {});
}

void PartList::add_content(std::string_view text) {
  if (text.empty()) return;
  if (!parts_.empty()) {
    if (auto* last = std::get_if<ContentText>(&parts_.back())) {
      last->text += text;
      return;
    }
  }
  parts_.emplace_back(ContentText{std::string(text)});
}

std::string PartList::new_id() const {
  std::string id = short_ids_ ? "" : "call_";
  const size_t size = id.size() + (short_ids_ ? kShortIdLength : kIdLength);
  while (id.size() < size) {
    uint64_t random = random_seed();
    for (int i = 0; i < 8 && id.size() < size; ++i, random >>= 8) {
      id += kIdLetters[(random & 0xFF) % kIdLetters.size()];
    }
  }
  return id;
}

}  // namespace pagoda::openai
