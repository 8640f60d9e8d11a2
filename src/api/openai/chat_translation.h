// Requests of other APIs, turned into the body of a chat request: read_chat_request() then checks it as it
// checks chat, so that all APIs have the same fields, limits and messages.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/openai/field_reader.h"
#include "api/openai/request.h"

namespace pagoda::openai {

// kInvalidArgument with the message "{param} {what}.".
Error wrong_value(const std::string& param, std::string_view what);

// The fields of `fields` that have the same name and meaning in chat: how to sample, what the template sees,
// what the server shall do with the request.
Json shared_chat_fields(FieldReader& fields);

// A non-empty string. An absent one is the reader's error.
std::string required_string(FieldReader& fields, const std::string& prefix, const char* name);

// The string in `type` of an item of a list; `param` names the item.
Result<std::string> type_of(const Json& item, const std::string& param);

// finish_fields() of a translated request. `ignored` are fields inside of others that have no effect here.
Result<std::vector<std::string>> finish_translation(FieldReader& fields, const ParseOptions& options,
                                                    std::vector<std::string> ignored);

// What a field of the chat body is called in the client's request, for errors. Of the names that fit, the
// longest counts.
class FieldNames {
 public:
  void add(std::string chat, std::string own) { names_[std::move(chat)] = std::move(own); }
  // read_chat_request() of a translated body, with its errors and those to come in the client's words.
  // `unknown` are fields that the translation knows nothing of; those that chat doesn't know come on top.
  Result<ChatRequest> read(const Json& chat, const ParseOptions& options,
                           std::vector<std::string> unknown) const;
  std::string own_name(const std::string& chat) const;
  // The error with the field's own name in `param` and in the message.
  Error own_error(Error error) const;

 private:
  const std::pair<const std::string, std::string>* find(const std::string& chat) const;

  std::map<std::string, std::string> names_;
};

// The messages of a chat request in the making.
class MessageList {
 public:
  // `origin` is the client's field that the message comes from. `merge`: a message of the same role goes on.
  void add_text(const char* role, std::vector<std::string> texts, const std::string& origin, bool merge);
  // Belongs to the assistant's message that follows; without one it is dropped.
  void add_reasoning(const std::string& text);
  // Goes to the assistant's message that came last, if nothing came between.
  void add_tool_call(const std::string& id, const std::string& name, Json arguments,
                     const std::string& origin);
  // False when there was no call with that id.
  bool add_tool_result(const std::string& id, std::vector<std::string> texts, const std::string& origin);

  bool empty() const { return messages_.empty(); }
  // The last message is text of the assistant, to be continued.
  bool ends_with_answer() const;

  Json take(FieldNames* names);

 private:
  bool last_is(std::string_view role) const;
  Json& start(const char* role, const std::string& origin);
  Json& assistant(const std::string& origin);

  Json messages_ = Json::array();
  std::vector<std::string> origins_;
  std::string reasoning_;
  std::map<std::string, std::string> calls_;  // id to name
};

}  // namespace pagoda::openai
