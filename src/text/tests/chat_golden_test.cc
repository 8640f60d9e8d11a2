// Published chat templates on stored conversations, byte for byte, and the ids that follow from them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "pagoda_text.h"
#include "text/chat_template.h"
#include "text/tests/text_fixtures.h"

namespace pagoda::text {
namespace {

using nlohmann::ordered_json;

struct GoldenCase {
  std::string name;
  std::string template_name;
  std::string context;
  std::string output;
  std::string error;  // "" when there is an output
};

std::string context_of(const ordered_json& conversation, const ordered_json& row) {
  ordered_json context;
  context["messages"] = conversation["messages"];
  context["tools"] = conversation.contains("tools") ? conversation["tools"] : ordered_json(nullptr);
  context["documents"] = nullptr;
  for (const auto& [key, value] : conversation.items()) {
    if (key != "messages" && key != "tools") context[key] = value;
  }
  context["bos_token"] = row["bos_token"];
  context["eos_token"] = row["eos_token"];
  return context.dump();
}

class ChatGolden : public testing::Test {
 protected:
  void SetUp() override {
    const auto shared = testing_support::shared_dir();
    if (!shared) GTEST_SKIP() << "the folder `shared` is not here";
    folder_ = *shared / "golden" / "chat";
    const ordered_json conversations = read_json(folder_ / "conversations.json");
    const ordered_json file = read_json(folder_ / "cases.json");
    for (const auto& row : file["cases"]) {
      GoldenCase one;
      one.template_name = row["template"];
      one.name = one.template_name + " / " + row["conversation"].get<std::string>();
      one.context = context_of(conversations[row["conversation"].get<std::string>()], row);
      one.output = row.value("output", "");
      one.error = row.value("error", "");
      cases_.push_back(one);
    }
    ASSERT_GT(cases_.size(), 300u);
    pt_set_clock_for_tests(1741338304);  // 2025-03-07T09:05:04
  }

  const ChatTemplate& compiled(const std::string& name) {
    auto found = templates_.find(name);
    if (found != templates_.end()) return found->second;
    auto compiled = ChatTemplate::compile(read_file(folder_ / "templates" / (name + ".jinja")));
    if (!compiled) throw std::runtime_error(name + ": " + compiled.error().message);
    return templates_.emplace(name, *std::move(compiled)).first->second;
  }

  std::filesystem::path folder_;
  std::vector<GoldenCase> cases_;
  std::map<std::string, ChatTemplate> templates_;
};

TEST_F(ChatGolden, output_is_the_same_byte_for_byte) {
  const std::string raised = "TemplateError: ";
  for (const GoldenCase& one : cases_) {
    auto output = compiled(one.template_name).render(one.context);
    if (one.error.empty()) {
      ASSERT_TRUE(output.has_value()) << one.name << ": " << output.error().message;
      EXPECT_EQ(*output, one.output) << one.name;
    } else {
      ASSERT_FALSE(output.has_value()) << one.name << " should fail with " << one.error;
      EXPECT_EQ(output.error().kind, ErrorKind::kInvalidArgument);
      if (one.error.starts_with(raised)) {
        EXPECT_EQ(output.error().message, one.error.substr(raised.size())) << one.name;
      }
    }
  }
}

// Which templates show the parts of content_parts without their JSON or Python syntax, according to the
// stored outputs.
TEST_F(ChatGolden, wants_content_parts_agrees_with_the_stored_outputs) {
  int wanting = 0;
  for (const GoldenCase& one : cases_) {
    if (!one.name.ends_with(" / content_parts")) continue;
    const bool shown = one.error.empty() && one.output.find("'type'") == std::string::npos &&
                       one.output.find("\"type\"") == std::string::npos &&
                       one.output.find("Explain this") != std::string::npos;
    EXPECT_EQ(compiled(one.template_name).wants_content_parts(), shown) << one.name << "\n" << one.output;
    wanting += shown;
  }
  EXPECT_GT(wanting, 3);
}

// Without special-token text in the conversation, render_chat is render and encode, whatever the tokenizer;
// BOS is added where the tokenizer asks for it and the template has none.
TEST_F(ChatGolden, ids_are_those_of_the_rendered_text) {
  int compared = 0;
  for (const char* name :
       {"bpe_gpt2", "bpe_l3", "bpe_qwen", "spm_meta", "spm_norm", "smollm2", "qwen25coder"}) {
    const auto tokenizer = golden_tokenizer(name);
    if (tokenizer == nullptr) continue;
    const std::vector<int> prefix = encode(*tokenizer, "", {});
    for (const GoldenCase& one : cases_) {
      if (!one.error.empty()) continue;
      auto prompt = render_chat(compiled(one.template_name), *tokenizer, one.context);
      ASSERT_TRUE(prompt.has_value()) << one.name << ": " << prompt.error().message;
      EXPECT_EQ(prompt->text, one.output) << one.name;
      if (one.name.ends_with("unicode_and_markup")) continue;
      std::vector<int> expected = encode(*tokenizer, one.output, {.add_special_tokens = false});
      if (!std::equal(prefix.begin(), prefix.end(), expected.begin())) {
        expected.insert(expected.begin(), prefix.begin(), prefix.end());
      }
      EXPECT_EQ(values(prompt->ids), expected) << name << ", " << one.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace pagoda::text
