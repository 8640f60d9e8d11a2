// How the golden templates want earlier calls. Spans api/openai and text.
#include "api/openai/chat_history.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "support/shared_data.h"
#include "text/chat_template.h"

namespace pagoda {
namespace {

struct Wanted {
  bool string_arguments, null_content;
};

// Templates that differ from {object, ""}, or show no calls at all.
const std::map<std::string, Wanted> kSpecial = {
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", {true, true}},
};

TEST(ChatHistoryGolden, ShapesOfTheTemplates) {
  const auto shared = testing_support::shared_dir();
  if (!shared) GTEST_SKIP() << "the folder `shared` is not here";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*shared / "golden" / "chat" / "templates")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string source((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto compiled = text::ChatTemplate::compile(source);
    ASSERT_TRUE(compiled.has_value()) << entry.path();
    const openai::HistoryShape shape =
        openai::probe_history([&](const std::string& context) { return compiled->render(context); });
    const auto special = kSpecial.find(entry.path().stem().string());
    const Wanted wanted = special == kSpecial.end() ? Wanted{false, false} : special->second;
    EXPECT_EQ(shape.string_arguments, wanted.string_arguments) << entry.path().stem();
    EXPECT_EQ(shape.null_content, wanted.null_content) << entry.path().stem();
    ++count;
  }
  EXPECT_GT(count, 25);
}

}  // namespace
}  // namespace pagoda
