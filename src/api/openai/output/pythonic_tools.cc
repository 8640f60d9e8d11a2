// Calls written as a Python list: [f(a=1), g()]. A call is shown once it is whole.
#include <utility>

#include "api/openai/output/python_literal.h"
#include "api/openai/output/tool_parser.h"

namespace pagoda::openai {
namespace {

constexpr size_t kMaxCallBytes = size_t{256} << 10;

class PythonicParser final : public ToolParser {
 public:
  PythonicParser(const ToolSyntax& syntax, std::vector<ToolSpec> tools)
      : ToolParser(syntax, std::move(tools)) {}

 private:
  enum class Phase : uint8_t { kOpen, kCall, kNext, kEnd };

  void reset() override {
    phase_ = Phase::kOpen;
    tried_ = 0;
  }

  Progress step_call(PartList* parts) override {
    if (phase_ == Phase::kCall) return read_call(parts);
    if (phase_ == Phase::kEnd) {
      if (!syntax_.end.empty() && skip_literal(syntax_.end) == Match::kMore) return Progress::kWait;
      leave();
      return Progress::kOn;
    }
    skip_space();
    if (rest().empty()) return Progress::kWait;
    const char c = rest().front();
    const bool opens = phase_ == Phase::kOpen;
    if (opens ? c != '[' : c != ',' && c != ']') return Progress::kBroken;
    advance(1);
    phase_ = c == ']' ? Phase::kEnd : Phase::kCall;
    tried_ = 0;
    return Progress::kOn;
  }

  Progress read_call(PartList* parts) {
    // Only a bracket can end a call, so that long ones aren't read again with every token; a call that can't
    // become one is noticed then, or at the end.
    if (!ended_ && rest().size() <= kMaxCallBytes && rest().find(')', tried_) == std::string_view::npos) {
      return early_check();
    }
    tried_ = rest().size();
    PythonCall call;
    const PythonResult result = read_python_call(rest(), &call);
    const bool too_long =
        std::max(call.size, result == PythonResult::kCall ? 0 : rest().size()) > kMaxCallBytes;
    if (result == PythonResult::kNoCall || too_long) return Progress::kBroken;
    if (result == PythonResult::kIncomplete) return Progress::kWait;
    if (!accepts_name(call.name)) return Progress::kBroken;
    advance(call.size);
    parts->begin_call(call.name);
    parts->arguments(dump_json(call.arguments));
    parts->end_call();
    commit();
    phase_ = Phase::kNext;
    return Progress::kOn;
  }

  // Text in brackets that no call begins must not wait for the end.
  Progress early_check() const {
    constexpr size_t kHead = 300;
    if (rest().size() > kHead) return Progress::kWait;
    PythonCall call;
    return read_python_call(rest(), &call) == PythonResult::kNoCall ? Progress::kBroken : Progress::kWait;
  }

  Phase phase_ = Phase::kOpen;
  size_t tried_ = 0;
};

}  // namespace

std::unique_ptr<ToolParser> make_pythonic_parser(const ToolSyntax& syntax, std::vector<ToolSpec> tools) {
  return std::make_unique<PythonicParser>(syntax, std::move(tools));
}

}  // namespace pagoda::openai
