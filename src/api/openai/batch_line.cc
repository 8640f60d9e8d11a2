#include "api/openai/batch_line.h"

#include <fmt/format.h>

#include "api/openai/field_reader.h"
#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

constexpr size_t kMaxCustomIdBytes = 512;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json body_json(const std::string& body) {
  auto parsed = parse_json(body);
  return parsed ? std::move(*parsed) : Json(body);
}

void check_custom_id(FieldReader& reader, const std::string& custom_id) {
  if (custom_id.empty())
    reader.fail("custom_id", "custom_id is missing; it is a text of its own for each line.");
  if (custom_id.size() > kMaxCustomIdBytes) {
    reader.fail("custom_id",
                fmt::format("custom_id has {} bytes; the limit is {}.", custom_id.size(), kMaxCustomIdBytes));
  }
}

void read_body(FieldReader& reader, BatchLine& line) {
  const Json* body = reader.value("body");
  if (body == nullptr || !body->is_object())
    return reader.fail("body", "body must be an object: the request.");
  const auto stream = body->find("stream");
  if (stream != body->end() && *stream != false && !stream->is_null()) {
    return reader.fail("body.stream",
                       "body.stream must be false or absent: the answers of a batch are whole.");
  }
  line.body = dump_json(*body);
}

}  // namespace

BatchLine parse_batch_line(std::string_view text) {
  BatchLine line;
  const auto object = parse_json(text);
  if (!object || !object->is_object()) {
    line.error =
        object ? make_error(ErrorKind::kInvalidArgument, "A line must be a JSON object.") : object.error();
    return line;
  }
  FieldReader reader(*object);
  line.custom_id = reader.string("custom_id").value_or("");
  check_custom_id(reader, line.custom_id);
  if (line.custom_id.size() > kMaxCustomIdBytes) line.custom_id.clear();
  const std::string method = reader.string("method").value_or("");
  if (method != "POST") reader.fail("method", "method must be \"POST\".");
  line.url = reader.string("url").value_or("");
  if (line.url.empty()) reader.fail("url", "url is missing; it is the path of a route, as /v1/completions.");
  read_body(reader, line);
  line.error = reader.error();
  return line;
}

std::string batch_answer_line(const BatchAnswer& answer) {
  return dump_json({{"id", answer.id},
                    {"custom_id", answer.custom_id},
                    {"response",
                     {{"status_code", answer.status},
                      {"request_id", answer.request_id},
                      {"body", body_json(answer.body)}}},
                    {"error", nullptr}});
}

std::string batch_failure_line(const BatchFailure& failure) {
  return dump_json({{"id", failure.id},
                    {"custom_id", text_or_null(failure.custom_id)},
                    {"response", nullptr},
                    {"error",
                     {{"code", failure.code},
                      {"message", failure.message},
                      {"param", text_or_null(failure.param)},
                      {"line", failure.line}}}});
}

std::optional<AnsweredLine> parse_answered_line(std::string_view text) {
  const auto object = parse_json(text);
  if (!object || !object->is_object()) return std::nullopt;
  FieldReader reader(*object);
  AnsweredLine line;
  line.custom_id = reader.string("custom_id").value_or("");
  const Json* response = reader.value("response");
  const Json* error = reader.value("error");
  if (reader.error()) return std::nullopt;
  if (response != nullptr && response->is_object() && !line.custom_id.empty()) {
    const int64_t status = FieldReader(*response).integer("status_code", 100, 599).value_or(0);
    line.ok = status >= 200 && status < 300;
    return line;
  }
  if (error == nullptr || !error->is_object()) return std::nullopt;
  line.line = FieldReader(*error).integer("line", 1, INT64_MAX).value_or(0);
  if (line.line == 0) return std::nullopt;
  return line;
}

}  // namespace pagoda::openai
