#include "cli/eval_jsonl.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

namespace pagoda::cli {
namespace {

using nlohmann::json;

constexpr size_t kMaxChoices = 26;  // letters

Error bad(std::string what) {
  return make_error(ErrorKind::kInvalidArgument, std::move(what));
}

Result<json> parse_object(const std::string& line) {
  json value = json::parse(line, nullptr, false);
  if (value.is_discarded()) return bad("not JSON");
  if (!value.is_object()) return bad("not a JSON object");
  return value;
}

Result<std::string> text_field(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return bad(fmt::format("no field '{}'", name));
  if (!found->is_string()) return bad(fmt::format("'{}' is not a string", name));
  auto text = found->get<std::string>();
  if (text.empty()) return bad(fmt::format("'{}' is empty", name));
  return text;
}

// An index from 0, or a letter.
Result<size_t> answer_index(const json& object, size_t num_choices) {
  const auto found = object.find("answer");
  if (found == object.end()) return bad("no field 'answer'");
  std::optional<int64_t> index;
  if (found->is_number_integer()) index = found->get<int64_t>();
  if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    if (text.size() == 1 && text[0] >= 'A' && text[0] <= 'Z') index = text[0] - 'A';
    if (text.size() == 1 && text[0] >= 'a' && text[0] <= 'z') index = text[0] - 'a';
    if (text.size() == 1 && text[0] >= '0' && text[0] <= '9') index = text[0] - '0';
  }
  if (!index) return bad("'answer' is neither an index from 0 nor a letter");
  if (*index < 0 || *index >= static_cast<int64_t>(num_choices)) {
    return bad(fmt::format("'answer' is {}, but there are {} choices", found->dump(), num_choices));
  }
  return static_cast<size_t>(*index);
}

template <class T>
Result<std::vector<T>> read_items(const std::string& path, const char* flag, int64_t limit,
                                  Result<T> (*parse)(const std::string&), const OnBadLine& on_bad) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::vector<T> items;
  int64_t number = 0;
  if (file.is_open()) {
    while ((limit == 0 || std::ssize(items) < limit) && std::getline(file, line)) {
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      auto item = parse(line);
      if (!item) {
        on_bad(number, item.error().message);
        continue;
      }
      item->line = number;
      items.push_back(std::move(*item));
    }
  }
  if (!file.is_open() || file.bad()) {
    return make_error(ErrorKind::kIo, fmt::format("{} {}: {}", flag, path, std::strerror(errno)), flag);
  }
  if (items.empty()) {
    const char* what = number == 0 ? "the file is empty" : "no line of it can be used";
    return make_error(ErrorKind::kInvalidArgument, fmt::format("{} {}: {}", flag, path, what), flag);
  }
  return items;
}

}  // namespace

Result<ChoiceQuestion> parse_choice_question(const std::string& line) {
  const json object = PAGODA_TRY(parse_object(line));
  ChoiceQuestion question;
  question.question = PAGODA_TRY(text_field(object, "question"));
  const auto choices = object.find("choices");
  if (choices == object.end()) return bad("no field 'choices'");
  if (!choices->is_array()) return bad("'choices' is not an array");
  if (choices->size() < 2 || choices->size() > kMaxChoices) {
    return bad(fmt::format("{} choices, but 2 to {} can be", choices->size(), kMaxChoices));
  }
  for (const json& choice : *choices) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty()) {
      return bad("a choice is no string, or empty");
    }
    question.choices.push_back(choice.get<std::string>());
  }
  question.answer = PAGODA_TRY(answer_index(object, question.choices.size()));
  return question;
}

Result<CodeProblem> parse_code_problem(const std::string& line) {
  const json object = PAGODA_TRY(parse_object(line));
  CodeProblem problem;
  problem.task_id = PAGODA_TRY(text_field(object, "task_id"));
  problem.prompt = PAGODA_TRY(text_field(object, "prompt"));
  problem.entry_point = PAGODA_TRY(text_field(object, "entry_point"));
  problem.test = PAGODA_TRY(text_field(object, "test"));
  return problem;
}

Result<std::vector<ChoiceQuestion>> read_choice_questions(const std::string& path, int64_t limit,
                                                          const OnBadLine& on_bad) {
  return read_items<ChoiceQuestion>(path, "--multiple-choice", limit, parse_choice_question, on_bad);
}

Result<std::vector<CodeProblem>> read_code_problems(const std::string& path, int64_t limit,
                                                    const OnBadLine& on_bad) {
  return read_items<CodeProblem>(path, "--humaneval", limit, parse_code_problem, on_bad);
}

}  // namespace pagoda::cli
