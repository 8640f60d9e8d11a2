#include "cli/eval_choices.h"

#include <fmt/format.h>

#include <algorithm>

namespace pagoda::cli {
namespace {

// Code points of UTF-8: Python's len().
int64_t num_characters(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

ChoicePrompt letters_prompt(const ChoiceQuestion& question) {
  ChoicePrompt prompt;
  prompt.context = question.question + "\n";
  for (size_t i = 0; i < question.choices.size(); ++i) {
    const char letter = static_cast<char>('A' + static_cast<int>(i));
    prompt.context += fmt::format("{}. {}\n", letter, question.choices[i]);
    prompt.continuations.push_back(fmt::format(" {}", letter));
  }
  prompt.context += "Answer:";
  return prompt;
}

ChoicePrompt texts_prompt(const ChoiceQuestion& question) {
  ChoicePrompt prompt;
  prompt.context = fmt::format("Question: {}\nAnswer:", question.question);
  for (const std::string& choice : question.choices) prompt.continuations.push_back(" " + choice);
  return prompt;
}

void ChoiceScore::add(const ChoiceQuestion& question, std::span<const double> logprobs) {
  const auto best = static_cast<size_t>(std::ranges::max_element(logprobs) - logprobs.begin());
  std::vector<double> per_character(logprobs.begin(), logprobs.end());
  for (size_t i = 0; i < per_character.size(); ++i) {
    per_character[i] /= static_cast<double>(num_characters(question.choices[i]));
  }
  const auto best_normalised =
      static_cast<size_t>(std::ranges::max_element(per_character) - per_character.begin());
  ++asked;
  right += best == question.answer;
  right_normalised += best_normalised == question.answer;
}

double ChoiceScore::accuracy() const {
  return share(right, asked);
}

double ChoiceScore::accuracy_normalised() const {
  return share(right_normalised, asked);
}

}  // namespace pagoda::cli
