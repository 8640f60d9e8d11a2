// Calls whose arguments are JSON: {"name": ..., "arguments": ...}, f[ARGS]{...} and the like.
#include <utility>

#include "api/openai/output/json_call_reader.h"
#include "api/openai/output/tool_parser.h"

namespace pagoda::openai {
namespace {

constexpr size_t kMaxNameBytes = 256;

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first));
}

class JsonToolParser final : public ToolParser {
 public:
  JsonToolParser(const ToolSyntax& syntax, std::vector<ToolSpec> tools)
      : ToolParser(syntax, std::move(tools)) {
    reset();
  }

 private:
  enum class Phase : uint8_t {
    kOpen,
    kNameBegin,
    kName,
    kFence,
    kList,
    kCall,
    kArguments,
    kNext,
    kFenceEnd,
    kEnd,
    kSectionEnd,
  };

  void reset() override {
    phase_ = Phase::kOpen;
    in_list_ = named_ = false;
    id_.clear();
  }

  Progress step_call(PartList* parts) override {
    switch (phase_) {
      case Phase::kOpen:
        return open();
      case Phase::kNameBegin:
        return read_kind();
      case Phase::kName:
        return read_name();
      case Phase::kFence:
        return optional(syntax_.fence, Phase::kList);
      case Phase::kList:
        return named_ ? begin_arguments(parts) : begin_list();
      case Phase::kCall:
        return read_call(parts);
      case Phase::kArguments:
        return read_arguments(parts);
      case Phase::kNext:
        return next_call();
      case Phase::kFenceEnd:
        return optional(syntax_.fence_end, Phase::kEnd);
      case Phase::kEnd:
        return optional(syntax_.end, Phase::kSectionEnd);
      case Phase::kSectionEnd:
        break;
    }
    const Match match = syntax_.section_end.empty() ? Match::kNo : skip_literal(syntax_.section_end);
    if (match == Match::kMore) return Progress::kWait;
    leave();
    return Progress::kOn;
  }

  Progress optional(std::string_view literal, Phase next) {
    if (!literal.empty() && skip_literal(literal) == Match::kMore) return Progress::kWait;
    phase_ = next;
    return Progress::kOn;
  }

  // Mistral's marker stands in front of both forms.
  Progress open() {
    if (!syntax_.section_begin.empty() && skip_literal(syntax_.begins.front()) == Match::kMore) {
      return Progress::kWait;
    }
    named_ = syntax_.style == CallStyle::kNamedJson;
    if (syntax_.short_ids) {
      skip_space();
      if (rest().empty()) return Progress::kWait;
      named_ = rest().front() != '[' && rest().front() != '{';
    }
    phase_ = named_ ? Phase::kNameBegin : Phase::kFence;
    return Progress::kOn;
  }

  Progress read_kind() {
    phase_ = Phase::kName;
    if (syntax_.name_begin.empty()) return Progress::kOn;
    Progress why = Progress::kBroken;
    if (skip_to(syntax_.name_begin, kMaxNameBytes, &why)) return Progress::kOn;
    phase_ = Phase::kNameBegin;
    return why;
  }

  Progress read_name() {
    const std::string_view end = syntax_.name_end.empty() ? "[ARGS]" : std::string_view(syntax_.name_end);
    Progress why = Progress::kBroken;
    const auto text = skip_to(end, kMaxNameBytes, &why);
    if (!text) return why;
    name_ = trimmed(*text);
    const size_t id = name_.find("[CALL_ID]");
    if (syntax_.short_ids && id != std::string::npos) name_.resize(id);
    if (syntax_.name == "kimi_k2") read_kimi_name();
    phase_ = Phase::kFence;
    return accepts_name(name_) ? Progress::kOn : Progress::kBroken;
  }

  // functions.NAME:INDEX is the call's id, too; the template wants it back.
  void read_kimi_name() {
    constexpr std::string_view kPrefix = "functions.";
    id_ = name_;
    if (name_.starts_with(kPrefix)) name_.erase(0, kPrefix.size());
    name_.resize(std::min(name_.size(), name_.rfind(':')));
  }

  Progress begin_arguments(PartList* parts) {
    skip_space();
    if (rest().empty()) return Progress::kWait;
    if (rest().front() != '{') return Progress::kBroken;
    parts->begin_call(name_, std::exchange(id_, {}));
    commit();
    scanner_ = JsonScanner();
    phase_ = Phase::kArguments;
    return Progress::kOn;
  }

  Progress read_arguments(PartList* parts) {
    size_t used = 0;
    auto step = JsonScanner::Step::kMore;
    while (used < rest().size() && step == JsonScanner::Step::kMore) {
      step = scanner_.feed(rest()[used]);
      if (step != JsonScanner::Step::kBroken) ++used;
    }
    parts->arguments(rest().substr(0, used));
    advance(used);
    commit();
    if (step == JsonScanner::Step::kBroken) return Progress::kBroken;
    if (step == JsonScanner::Step::kMore) return Progress::kWait;
    parts->end_call();
    phase_ = Phase::kFenceEnd;
    return Progress::kOn;
  }

  Progress begin_list() {
    skip_space();
    if (rest().empty()) return Progress::kWait;
    in_list_ = rest().front() == '[';
    if (in_list_) advance(1);
    start_call();
    return Progress::kOn;
  }

  void start_call() {
    reader_ = JsonCallReader(syntax_.style == CallStyle::kNameKeyed);
    begun_ = false;
    phase_ = Phase::kCall;
  }

  Progress read_call(PartList* parts) {
    auto state = JsonCallReader::State::kMore;
    while (!rest().empty() && state == JsonCallReader::State::kMore) {
      state = reader_.feed(rest().front());
      if (state == JsonCallReader::State::kBroken) break;
      advance(1);
      if (begun_ || !reader_.begun()) continue;
      if (!accepts_name(*reader_.name())) return Progress::kBroken;
      parts->begin_call(*reader_.name());
      begun_ = true;
    }
    if (begun_) {
      parts->arguments(reader_.take_arguments());
      commit();
    }
    if (state == JsonCallReader::State::kBroken) return Progress::kBroken;
    if (state == JsonCallReader::State::kMore) return Progress::kWait;
    parts->end_call();
    phase_ = Phase::kNext;
    return Progress::kOn;
  }

  Progress next_call() {
    if (in_list_) return next_in_list();
    if (!syntax_.end.empty()) {
      const Match end = skip_literal(syntax_.end);
      if (end == Match::kMore) return Progress::kWait;
      if (end == Match::kYes) {
        leave();
        return Progress::kOn;
      }
    }
    size_t at = 0;
    while (at < rest().size() && (is_json_space(rest()[at]) || rest()[at] == ';')) ++at;
    if (at == rest().size() && !ended_) return Progress::kWait;
    if (at < rest().size() && rest()[at] == '{') {
      advance(at);
      start_call();
    } else {
      phase_ = Phase::kFenceEnd;
    }
    return Progress::kOn;
  }

  Progress next_in_list() {
    skip_space();
    if (rest().empty()) return Progress::kWait;
    const char c = rest().front();
    if (c != ',' && c != ']') return Progress::kBroken;
    advance(1);
    if (c == ',') {
      start_call();
    } else {
      phase_ = Phase::kFenceEnd;
    }
    return Progress::kOn;
  }

  Phase phase_ = Phase::kOpen;
  bool in_list_ = false, named_ = false, begun_ = false;
  std::string name_, id_;
  JsonScanner scanner_;
  JsonCallReader reader_;
};

}  // namespace

std::unique_ptr<ToolParser> make_json_parser(const ToolSyntax& syntax, std::vector<ToolSpec> tools) {
  return std::make_unique<JsonToolParser>(syntax, std::move(tools));
}

}  // namespace pagoda::openai
