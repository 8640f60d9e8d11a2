#include <utility>

#include "api/openai/generate_request.h"
#include "api/openai/response_json.h"

namespace pagoda::openai {
namespace {

class GenerateBuilder final : public ResponseBuilder {
 public:
  void set_prompt(int, PromptInfo) override {}

  void add(ChoiceDelta delta) override {
    text_ += delta.text;
    if (delta.finish != Finish::kNone) finish_ = delta.finish;
  }
  std::string body(const UsageCounts& usage) override { return whole(text_, usage); }

  std::vector<StreamEvent> events(ChoiceDelta delta, const UsageCounts&) override {
    if (delta.finish != Finish::kNone) finish_ = delta.finish;
    if (delta.text.empty()) return {};
    return {{"", dump_json({{"text", delta.text}})}};
  }
  std::vector<StreamEvent> last_events(const UsageCounts& usage) override {
    return {{"", whole("", usage)}, {"", "[DONE]"}};
  }
  std::vector<StreamEvent> error_events(const ErrorBody& error) override { return {{"", error_json(error)}}; }

 private:
  std::string whole(const std::string& text, const UsageCounts& usage) const {
    return dump_json({{"text", text}, {"finish_reason", finish_json(finish_)}, {"usage", usage_json(usage)}});
  }

  std::string text_;
  Finish finish_ = Finish::kNone;
};

}  // namespace

std::unique_ptr<ResponseBuilder> make_generate_builder() {
  return std::make_unique<GenerateBuilder>();
}

}  // namespace pagoda::openai
