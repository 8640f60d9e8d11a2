#include "service/choice_stream.h"

#include <gtest/gtest.h>

#include "scripted/scripted_tokenizer.h"

namespace pagoda::service {
namespace {

using engine::FinishReason;

class ChoiceStreamTest : public testing::Test {
 protected:
  ChoiceStream make() { return ChoiceStream(tokenizer_, rules_, tokenizer_.stream({}, skip_special_)); }

  engine::EngineEvent event(TokenId id, FinishReason finish = FinishReason::kNone) {
    engine::EngineEvent result;
    result.has_token = true;
    result.token.token = id;
    result.finish = finish;
    return result;
  }
  engine::EngineEvent event(const std::string& piece, FinishReason finish = FinishReason::kNone) {
    return event(table_->intern(piece), finish);
  }

  // Pushes letters of `text` one by one and returns all that came out.
  static std::string joined(const std::vector<ChoiceEvent>& events) {
    std::string text;
    for (const ChoiceEvent& e : events) text += e.text;
    return text;
  }
  std::vector<ChoiceEvent> run(ChoiceStream& stream, const std::vector<engine::EngineEvent>& events) {
    std::vector<ChoiceEvent> result;
    for (const auto& e : events) {
      EXPECT_TRUE(stream.push(e));
      if (auto gained = stream.take(0)) result.push_back(std::move(*gained));
    }
    return result;
  }

  std::shared_ptr<scripted::ScriptTable> table_ = std::make_shared<scripted::ScriptTable>();
  scripted::ScriptedTokenizer tokenizer_{table_};
  ChoiceRules rules_{.stop = {}, .eos = {scripted::kEos}};
  bool skip_special_ = true;
};

TEST_F(ChoiceStreamTest, EndTokenIsNotOutput) {
  ChoiceStream stream = make();
  const auto events = run(stream, {event("a"), event(scripted::kEos, FinishReason::kStop)});
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].text, "");
  EXPECT_TRUE(events[1].token_ids.empty());
  EXPECT_EQ(stream.completion_tokens(), 1);
  EXPECT_FALSE(stream.ended_by_stop_string());
}

TEST_F(ChoiceStreamTest, StopTokenIsNamed) {
  ChoiceStream stream = make();
  const auto events = run(stream, {event("a"), event(scripted::kTurnEnd, FinishReason::kStop)});
  EXPECT_EQ(std::get<TokenId>(events[1].stop_reason), scripted::kTurnEnd);
}

TEST_F(ChoiceStreamTest, StopTokenIsOutputWhenAskedFor) {
  rules_.include_stop = true;
  skip_special_ = false;
  ChoiceStream stream = make();
  const auto events = run(stream, {event("a"), event(scripted::kTurnEnd, FinishReason::kStop)});
  EXPECT_EQ(joined(events), "a<|im_end|>");
  EXPECT_EQ(stream.completion_tokens(), 2);
}

TEST_F(ChoiceStreamTest, TokensWaitForCertainText) {
  rules_.stop = {"abc"};
  rules_.logprobs = true;
  ChoiceStream stream = make();
  const auto events = run(stream, {event("a"), event("b"), event("x")});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "abx");
  EXPECT_EQ(events[0].token_ids.size(), 3u);
  EXPECT_EQ(events[0].logprobs.size(), 3u);
}

TEST_F(ChoiceStreamTest, HeldTextIsFlushedAtTheEnd) {
  rules_.stop = {"abc"};
  ChoiceStream stream = make();
  EXPECT_EQ(joined(run(stream, {event("a"), event("b", FinishReason::kLength)})), "ab");
}

TEST_F(ChoiceStreamTest, FlushCanCompleteAStopString) {
  rules_.stop = {"\xEF\xBF\xBD"};
  ChoiceStream stream = make();
  const auto events = run(stream, {event("a"), event("\xf0", FinishReason::kLength)});
  EXPECT_EQ(joined(events), "a");
  EXPECT_EQ(events.back().finish, FinishReason::kStop);
}

TEST_F(ChoiceStreamTest, NothingHappensAfterTheEnd) {
  rules_.stop = {"b"};
  ChoiceStream stream = make();
  const auto events = run(stream, {event("a"), event("b"), event("c"), event("d", FinishReason::kAborted)});
  EXPECT_EQ(joined(events), "a");
  EXPECT_EQ(events.back().finish, FinishReason::kStop);
  EXPECT_EQ(stream.completion_tokens(), 2);
  EXPECT_TRUE(stream.ended_by_stop_string());
}

TEST_F(ChoiceStreamTest, MinTokensPutsOffStopStrings) {
  rules_.stop = {"a"};
  rules_.min_tokens = 2;
  ChoiceStream stream = make();
  EXPECT_EQ(joined(run(stream, {event("a"), event("a"), event("b"), event("a"), event("c")})), "aab");
}

TEST_F(ChoiceStreamTest, EventWithoutTokenOnlyEnds) {
  ChoiceStream stream = make();
  engine::EngineEvent only_end;
  only_end.finish = FinishReason::kLength;
  const auto events = run(stream, {only_end});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].finish, FinishReason::kLength);
  EXPECT_EQ(events[0].completion_tokens, 0);
}

}  // namespace
}  // namespace pagoda::service
