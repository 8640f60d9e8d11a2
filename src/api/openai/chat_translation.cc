#include "api/openai/chat_translation.h"

#include <fmt/format.h>

#include <array>

#include "api/openai/chat_context.h"
#include "api/openai/common_fields.h"

namespace pagoda::openai {
namespace {

constexpr std::array kSharedFields = {"model",
                                      "stream",
                                      "temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "seed",
                                      "repetition_penalty",
                                      "frequency_penalty",
                                      "presence_penalty",
                                      "min_tokens",
                                      "stop",
                                      "stop_token_ids",
                                      "include_stop_str_in_output",
                                      "ignore_eos",
                                      "logit_bias",
                                      "allowed_token_ids",
                                      "bad_words",
                                      "skip_special_tokens",
                                      "include_reasoning",
                                      "truncate_prompt_tokens",
                                      "priority",
                                      "cache_salt",
                                      "request_id",
                                      "timeout",
                                      "structured_outputs",
                                      "guided_json",
                                      "guided_regex",
                                      "guided_choice",
                                      "guided_grammar",
                                      "json_schema",
                                      "grammar",
                                      "chat_template",
                                      "chat_template_kwargs",
                                      "documents",
                                      "add_generation_prompt",
                                      "continue_final_message"};

Json text_parts(std::vector<std::string> texts) {
  Json parts = Json::array();
  for (std::string& text : texts) parts.push_back({{"type", "text"}, {"text", std::move(text)}});
  return parts;
}

bool fits(const std::string& param, const std::string& name) {
  if (!param.starts_with(name)) return false;
  return param.size() == name.size() || param[name.size()] == '.' || param[name.size()] == '[';
}

}  // namespace

Error wrong_value(const std::string& param, std::string_view what) {
  return make_error(ErrorKind::kInvalidArgument, fmt::format("{} {}.", param, what), param);
}

Json shared_chat_fields(FieldReader& fields) {
  Json chat = Json::object();
  for (const char* name : kSharedFields) {
    if (const Json* value = fields.value(name)) chat[name] = *value;
  }
  return chat;
}

std::string required_string(FieldReader& fields, const std::string& prefix, const char* name) {
  std::string text = fields.string(name).value_or("");
  if (text.empty()) fields.fail(wrong_value(prefix + name, "must be a non-empty string"));
  return text;
}

Result<std::string> type_of(const Json& item, const std::string& param) {
  if (!item.is_object()) return wrong_value(param, fmt::format("must be an object, got {}", describe(item)));
  const auto type = item.find("type");
  if (type == item.end() || !type->is_string()) return wrong_value(param + ".type", "must be a string");
  return type->get<std::string>();
}

Result<std::vector<std::string>> finish_translation(FieldReader& fields, const ParseOptions& options,
                                                    std::vector<std::string> ignored) {
  std::vector<std::string> names;
  PAGODA_TRY(finish_fields(fields, options.strict, &names));
  if (options.strict && !ignored.empty()) return wrong_value(ignored.front(), "has no effect here");
  names.insert(names.end(), ignored.begin(), ignored.end());
  return names;
}

const std::pair<const std::string, std::string>* FieldNames::find(const std::string& chat) const {
  const std::pair<const std::string, std::string>* best = nullptr;
  for (const auto& name : names_) {
    if (fits(chat, name.first) && (best == nullptr || name.first.size() > best->first.size())) best = &name;
  }
  return best;
}

std::string FieldNames::own_name(const std::string& chat) const {
  const auto* name = find(chat);
  return name == nullptr ? chat : name->second + chat.substr(name->first.size());
}

Result<ChatRequest> FieldNames::read(const Json& chat, const ParseOptions& options,
                                     std::vector<std::string> unknown) const {
  auto request = read_chat_request(chat, options);
  if (!request) return own_error(std::move(request).error());
  if (auto& grammar = request->common.grammar) grammar->param = own_name(grammar->param);
  for (const std::string& name : request->common.unknown_fields) unknown.push_back(own_name(name));
  if (unknown.size() > kMaxReportedFields) unknown.resize(kMaxReportedFields);
  request->common.unknown_fields = std::move(unknown);
  return request;
}

Error FieldNames::own_error(Error error) const {
  const auto* name = find(error.param);
  if (name == nullptr) return error;
  error.param = own_name(error.param);
  const size_t at = error.message.find(name->first);
  if (at == std::string::npos) return error;
  // A message can name a field inside of the one that is wrong.
  const size_t end = error.message.find_first_of(" ,;:'\"", at);
  std::string path = error.message.substr(at, end - at);
  if (path.ends_with('.')) path.pop_back();  // of the sentence
  error.message.replace(at, path.size(), own_name(path));
  return error;
}

bool MessageList::last_is(std::string_view role) const {
  return !messages_.empty() && messages_.back()["role"] == role;
}

Json& MessageList::start(const char* role, const std::string& origin) {
  messages_.push_back({{"role", role}});
  origins_.push_back(origin);
  Json& message = messages_.back();
  if (role != std::string_view("assistant")) {
    reasoning_.clear();
  } else if (!reasoning_.empty()) {
    message["reasoning_content"] = std::exchange(reasoning_, {});
  }
  return message;
}

void MessageList::add_text(const char* role, std::vector<std::string> texts, const std::string& origin,
                           bool merge) {
  Json parts = text_parts(std::move(texts));
  const bool same = merge && last_is(role) && !messages_.back().contains("tool_calls") && reasoning_.empty();
  Json& message = same ? messages_.back() : start(role, origin);
  if (same && message.contains("content")) {
    for (Json& part : parts) message["content"].push_back(std::move(part));
  } else {
    message["content"] = std::move(parts);
  }
}

void MessageList::add_reasoning(const std::string& text) {
  if (!reasoning_.empty() && !text.empty()) reasoning_ += '\n';
  reasoning_ += text;
}

Json& MessageList::assistant(const std::string& origin) {
  return last_is("assistant") && reasoning_.empty() ? messages_.back() : start("assistant", origin);
}

void MessageList::add_tool_call(const std::string& id, const std::string& name, Json arguments,
                                const std::string& origin) {
  Json& message = assistant(origin);
  message["tool_calls"].push_back({{"id", id},
                                   {"type", "function"},
                                   {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
  calls_[id] = name;
}

bool MessageList::add_tool_result(const std::string& id, std::vector<std::string> texts,
                                  const std::string& origin) {
  const auto call = calls_.find(id);
  if (call == calls_.end()) return false;
  if (texts.empty()) texts.emplace_back();
  Json& message = start("tool", origin);
  message["tool_call_id"] = id;
  message["name"] = call->second;
  message["content"] = text_parts(std::move(texts));
  return true;
}

bool MessageList::ends_with_answer() const {
  return last_is("assistant") && !messages_.back().contains("tool_calls");
}

Json MessageList::take(FieldNames* names) {
  for (size_t i = 0; i < origins_.size(); ++i) names->add(fmt::format("messages[{}]", i), origins_[i]);
  return std::move(messages_);
}

}  // namespace pagoda::openai
