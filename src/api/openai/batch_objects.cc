#include "api/openai/batch_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/openai/common_fields.h"
#include "api/openai/field_reader.h"
#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

constexpr std::array kStatusNames = {"validating", "in_progress", "finalizing", "completed",
                                     "failed",     "cancelling",  "cancelled"};

constexpr std::array<std::string_view, 6> kPurposes = {"assistants", "batch",     "evals",
                                                       "fine-tune",  "user_data", "vision"};

// OpenAI's limits.
constexpr size_t kMaxMetadataPairs = 16, kMaxMetadataKey = 64, kMaxMetadataValue = 512;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
Json time_or_null(int64_t seconds) {
  return seconds == 0 ? Json(nullptr) : Json(seconds);
}

Json errors_json(const std::vector<BatchError>& errors) {
  if (errors.empty()) return nullptr;
  Json data = Json::array();
  for (const BatchError& error : errors) {
    data.push_back({{"code", error.code},
                    {"message", error.message},
                    {"param", text_or_null(error.param)},
                    {"line", time_or_null(error.line)}});
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

Json metadata_json(const std::vector<std::pair<std::string, std::string>>& metadata) {
  if (metadata.empty()) return nullptr;
  Json object = Json::object();
  for (const auto& [key, value] : metadata) object[key] = value;
  return object;
}

int64_t time_of(FieldReader& reader, const char* name) {
  return reader.integer(name, 0, INT64_MAX).value_or(0);
}

void read_metadata(FieldReader& reader, std::vector<std::pair<std::string, std::string>>& metadata) {
  const Json* object = reader.value("metadata");
  if (object == nullptr) return;
  if (!object->is_object()) return reader.fail("metadata", "metadata must be an object with texts.");
  if (object->size() > kMaxMetadataPairs) {
    return reader.fail(
        "metadata", fmt::format("metadata has {} keys; the limit is {}.", object->size(), kMaxMetadataPairs));
  }
  for (const auto& item : object->items()) {
    if (item.key().size() > kMaxMetadataKey || !item.value().is_string() ||
        item.value().get_ref<const std::string&>().size() > kMaxMetadataValue) {
      return reader.fail("metadata",
                         fmt::format("metadata must have keys of up to {} and texts of up to {} bytes.",
                                     kMaxMetadataKey, kMaxMetadataValue));
    }
    metadata.emplace_back(item.key(), item.value().get<std::string>());
  }
}

void read_stored_errors(FieldReader& reader, BatchObject& batch) {
  const Json* errors = reader.value("errors");
  if (errors == nullptr || !errors->is_object() || !errors->contains("data")) return;
  for (const Json& item : (*errors)["data"]) {
    if (!item.is_object()) continue;
    FieldReader fields(item);
    batch.errors.push_back({fields.string("code").value_or(""), fields.string("message").value_or(""),
                            fields.string("param").value_or(""), time_of(fields, "line")});
  }
}

}  // namespace

std::string file_json(const FileObject& file) {
  return dump_json({{"id", file.id},
                    {"object", "file"},
                    {"bytes", file.bytes},
                    {"created_at", file.created_at},
                    {"expires_at", file.expires_at ? Json(*file.expires_at) : Json(nullptr)},
                    {"filename", file.filename},
                    {"purpose", file.purpose},
                    {"status", "processed"},
                    {"status_details", nullptr}});
}

std::optional<FileObject> parse_file_object(std::string_view text) {
  const auto object = parse_json(text);
  if (!object || !object->is_object()) return std::nullopt;
  FieldReader reader(*object);
  FileObject file;
  file.id = reader.string("id").value_or("");
  file.filename = reader.string("filename").value_or("");
  file.purpose = reader.string("purpose").value_or("");
  file.bytes = time_of(reader, "bytes");
  file.created_at = time_of(reader, "created_at");
  file.expires_at = reader.integer("expires_at", 0, INT64_MAX);
  if (reader.error() || file.id.empty()) return std::nullopt;
  return file;
}

std::string deleted_file_json(const std::string& id) {
  return dump_json({{"id", id}, {"object", "file"}, {"deleted", true}});
}

const char* batch_status_name(BatchStatus status) {
  return kStatusNames.at(static_cast<size_t>(status));
}

bool is_final(BatchStatus status) {
  return status == BatchStatus::kCompleted || status == BatchStatus::kFailed ||
         status == BatchStatus::kCancelled;
}

std::string batch_json(const BatchObject& batch) {
  return dump_json(
      {{"id", batch.id},
       {"object", "batch"},
       {"endpoint", batch.endpoint},
       {"errors", errors_json(batch.errors)},
       {"input_file_id", batch.input_file_id},
       {"completion_window", batch.completion_window},
       {"status", batch_status_name(batch.status)},
       {"output_file_id", text_or_null(batch.output_file_id)},
       {"error_file_id", text_or_null(batch.error_file_id)},
       {"created_at", batch.created_at},
       {"in_progress_at", time_or_null(batch.in_progress_at)},
       {"expires_at", nullptr},
       {"finalizing_at", time_or_null(batch.finalizing_at)},
       {"completed_at", time_or_null(batch.completed_at)},
       {"failed_at", time_or_null(batch.failed_at)},
       {"expired_at", nullptr},
       {"cancelling_at", time_or_null(batch.cancelling_at)},
       {"cancelled_at", time_or_null(batch.cancelled_at)},
       {"request_counts", {{"total", batch.total}, {"completed", batch.completed}, {"failed", batch.failed}}},
       {"metadata", metadata_json(batch.metadata)}});
}

std::optional<BatchObject> parse_batch_object(std::string_view text) {
  const auto object = parse_json(text);
  if (!object || !object->is_object()) return std::nullopt;
  FieldReader reader(*object);
  BatchObject batch;
  const auto text_of = [&](const char* name) { return reader.string(name).value_or(""); };
  batch.id = text_of("id");
  batch.endpoint = text_of("endpoint");
  batch.input_file_id = text_of("input_file_id");
  batch.completion_window = text_of("completion_window");
  batch.output_file_id = text_of("output_file_id");
  batch.error_file_id = text_of("error_file_id");
  const auto status = std::ranges::find(kStatusNames, text_of("status"));
  if (status == kStatusNames.end()) return std::nullopt;
  batch.status = static_cast<BatchStatus>(status - kStatusNames.begin());
  batch.created_at = time_of(reader, "created_at");
  batch.in_progress_at = time_of(reader, "in_progress_at");
  batch.finalizing_at = time_of(reader, "finalizing_at");
  batch.completed_at = time_of(reader, "completed_at");
  batch.failed_at = time_of(reader, "failed_at");
  batch.cancelling_at = time_of(reader, "cancelling_at");
  batch.cancelled_at = time_of(reader, "cancelled_at");
  if (const Json* counts = reader.value("request_counts"); counts != nullptr && counts->is_object()) {
    FieldReader numbers(*counts);
    batch.total = time_of(numbers, "total");
    batch.completed = time_of(numbers, "completed");
    batch.failed = time_of(numbers, "failed");
  }
  read_metadata(reader, batch.metadata);
  read_stored_errors(reader, batch);
  if (reader.error() || batch.id.empty()) return std::nullopt;
  return batch;
}

std::string list_json(const ListPage& page) {
  std::string text = R"({"object":"list","data":[)";
  for (size_t i = 0; i < page.items.size(); ++i) text.append(i == 0 ? "" : ",").append(page.items[i]);
  text.append(R"(],"first_id":)").append(dump_json(text_or_null(page.first_id)));
  text.append(R"(,"last_id":)").append(dump_json(text_or_null(page.last_id)));
  return text.append(R"(,"has_more":)").append(page.has_more ? "true}" : "false}");
}

Result<CreateBatchRequest> parse_create_batch_request(std::string_view body, bool strict) {
  const Json object = PAGODA_TRY(parse_json(body));
  if (!object.is_object()) return make_error(ErrorKind::kInvalidArgument, "The body must be a JSON object.");
  FieldReader reader(object);
  CreateBatchRequest request;
  const auto required = [&](const char* name) {
    auto text = reader.string(name);
    if (!text) reader.fail(name, fmt::format("{} is missing.", name));
    return text.value_or("");
  };
  request.input_file_id = required("input_file_id");
  request.endpoint = required("endpoint");
  request.completion_window = required("completion_window");
  if (request.completion_window != "24h") {
    reader.fail("completion_window", "completion_window must be \"24h\".");
  }
  read_metadata(reader, request.metadata);
  PAGODA_TRY(finish_fields(reader, strict, &request.unknown_fields));
  return request;
}

Result<CreateFileRequest> parse_create_file_request(
    const std::vector<std::pair<std::string, std::string>>& fields, bool strict) {
  Json object = Json::object();
  for (const auto& [name, value] : fields) {
    if (object.contains(name)) {
      return make_error(ErrorKind::kInvalidArgument, fmt::format("{} is there twice.", name), name);
    }
    object[name] = value;
  }
  FieldReader reader(object);
  CreateFileRequest request;
  request.filename = reader.string("file").value_or("");
  if (request.filename.empty()) reader.fail("file", "file is missing.");
  request.purpose = reader.string("purpose").value_or("");
  if (request.purpose.empty()) reader.fail("purpose", "purpose is missing; it is mostly \"batch\".");
  if (std::ranges::find(kPurposes, request.purpose) == kPurposes.end()) {
    reader.fail("purpose", "purpose must be assistants, batch, evals, fine-tune, user_data or vision.");
  }
  PAGODA_TRY(finish_fields(reader, strict, &request.unknown_fields));
  return request;
}

}  // namespace pagoda::openai
