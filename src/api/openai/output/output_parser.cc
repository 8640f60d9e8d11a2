#include "api/openai/output/output_parser.h"

namespace pagoda::openai {
namespace {

class PlainParser final : public OutputParser {
 public:
  std::vector<OutputPart> push(std::string_view text) override {
    if (text.empty()) return {};
    return {ContentText{std::string(text)}};
  }
  std::vector<OutputPart> finish() override { return {}; }
  bool made_tool_calls() const override { return false; }
};

}  // namespace

std::unique_ptr<OutputParser> make_output_parser(const OutputParsing&) {
  return std::make_unique<PlainParser>();
}

}  // namespace pagoda::openai
