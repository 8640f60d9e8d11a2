#include "api/openai/output/json_call_reader.h"

#include <utility>

#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_name_key(const std::string& key) {
  return key == "name" || key == "tool_name";
}

}  // namespace

bool JsonCallReader::is_arguments() const {
  return name_keyed_ || key_ == "arguments" || key_ == "parameters";
}

std::string JsonCallReader::take_arguments() {
  if (!name_) return {};
  taken_any_ = taken_any_ || !arguments_.empty();
  return std::exchange(arguments_, {});
}

JsonCallReader::State JsonCallReader::feed(char c) {
  if (phase_ == Phase::kInKey) return in_key(c);
  if (phase_ == Phase::kInValue) return in_value(c);
  if (is_space(c)) return State::kMore;
  switch (phase_) {
    case Phase::kOpen:
      if (c != '{') return State::kBroken;
      phase_ = Phase::kFirstKey;
      return State::kMore;
    case Phase::kFirstKey:
    case Phase::kKey:
      if (c == '}' && phase_ == Phase::kFirstKey) return State::kBroken;  // a call has a name
      if (c != '"') return State::kBroken;
      scanner_ = JsonScanner();
      text_.clear();
      phase_ = Phase::kInKey;
      return in_key(c);
    case Phase::kColon:
      if (c != ':') return State::kBroken;
      phase_ = Phase::kValue;
      return State::kMore;
    case Phase::kValue:
      return start_value(c);
    case Phase::kAfterValue:
      if (c == '}') return finish();
      if (c != ',') return State::kBroken;
      phase_ = Phase::kKey;
      return State::kMore;
    default:
      return State::kBroken;
  }
}

JsonCallReader::State JsonCallReader::in_key(char c) {
  const auto step = scanner_.feed(c);
  if (step == JsonScanner::Step::kBroken) return State::kBroken;
  text_ += c;
  if (step != JsonScanner::Step::kDone) return State::kMore;
  auto key = parse_json(text_);
  if (!key || !key->is_string()) return State::kBroken;
  key_ = key->get<std::string>();
  if (name_keyed_ ? name_.has_value() : is_name_key(key_) && name_) return State::kBroken;
  if (is_arguments() && std::exchange(has_arguments_, true)) return State::kBroken;
  if (name_keyed_) name_ = key_;
  phase_ = Phase::kColon;
  return State::kMore;
}

JsonCallReader::State JsonCallReader::start_value(char c) {
  if (!name_keyed_ && is_name_key(key_) && c != '"') return State::kBroken;
  if (is_arguments() && c != '{' && c != '"' && c != 'n') return State::kBroken;
  streams_ = is_arguments() && c == '{';
  scanner_ = JsonScanner();
  text_.clear();
  phase_ = Phase::kInValue;
  return in_value(c);
}

JsonCallReader::State JsonCallReader::in_value(char c) {
  const auto step = scanner_.feed(c);
  if (step == JsonScanner::Step::kBroken) return State::kBroken;
  if (step != JsonScanner::Step::kDoneBefore) (streams_ ? arguments_ : text_) += c;
  if (step == JsonScanner::Step::kMore) return State::kMore;
  if (!end_value()) return State::kBroken;
  phase_ = Phase::kAfterValue;
  return step == JsonScanner::Step::kDoneBefore ? feed(c) : State::kMore;
}

bool JsonCallReader::end_value() {
  if (!name_keyed_ && is_name_key(key_)) {
    auto name = parse_json(text_);
    if (!name || !name->is_string() || name->get_ref<const std::string&>().empty()) return false;
    name_ = name->get<std::string>();
  } else if (is_arguments() && !streams_ && text_ != "null") {
    const auto text = parse_json(text_);
    if (!text || !text->is_string()) return false;
    arguments_ = text->get<std::string>();
    if (arguments_.empty()) return true;
    const auto object = parse_json(arguments_);
    return object && object->is_object();
  }
  return true;
}

JsonCallReader::State JsonCallReader::finish() {
  if (!name_) return State::kBroken;
  if (!taken_any_ && arguments_.empty()) arguments_ = "{}";
  phase_ = Phase::kDone;
  return State::kDone;
}

}  // namespace pagoda::openai
