#include "cli/eval_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pagoda::cli {
namespace {

using testing::ElementsAre;

const ChoiceQuestion kQuestion{
    .line = 1, .question = "What is 1 + 1?", .choices = {"2", "not known", "für"}, .answer = 0};

TEST(EvalChoicesTest, Prompts) {
  const ChoicePrompt letters = letters_prompt(kQuestion);
  EXPECT_EQ(letters.context, "What is 1 + 1?\nA. 2\nB. not known\nC. für\nAnswer:");
  EXPECT_THAT(letters.continuations, ElementsAre(" A", " B", " C"));
  const ChoicePrompt texts = texts_prompt(kQuestion);
  EXPECT_EQ(texts.context, "Question: What is 1 + 1?\nAnswer:");
  EXPECT_THAT(texts.continuations, ElementsAre(" 2", " not known", " für"));
}

TEST(EvalChoicesTest, TheLikeliestAndTheLikeliestPerCharacterCount) {
  ChoiceScore score;
  EXPECT_EQ(score.accuracy(), 0);
  score.add(kQuestion, std::vector<double>{-1, -2, -4});  // per character -1, -0.22, -1.33
  EXPECT_EQ(score.right, 1);
  EXPECT_EQ(score.right_normalised, 0);
  score.add(kQuestion, std::vector<double>{-2, -20, -1.5});  // -2, -2.2, -0.5: ü is one character
  EXPECT_EQ(score.right, 1);
  score.add(kQuestion, std::vector<double>{-0.1, -9, -4.4});
  EXPECT_EQ(score.asked, 3);
  EXPECT_EQ(score.right, 2);
  EXPECT_EQ(score.right_normalised, 1);
  EXPECT_DOUBLE_EQ(score.accuracy(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(score.accuracy_normalised(), 1.0 / 3);
}

}  // namespace
}  // namespace pagoda::cli
