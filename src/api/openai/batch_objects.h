// The objects of /v1/files and /v1/batches, and how they are kept on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pagoda::openai {

struct FileObject {
  std::string id, filename, purpose;
  int64_t bytes = 0, created_at = 0;
  std::optional<int64_t> expires_at;
};
std::string file_json(const FileObject& file);
std::optional<FileObject> parse_file_object(std::string_view text);
std::string deleted_file_json(const std::string& id);

enum class BatchStatus : uint8_t {
  kValidating,
  kInProgress,
  kFinalizing,
  kCompleted,
  kFailed,
  kCancelling,
  kCancelled,
};
const char* batch_status_name(BatchStatus status);
bool is_final(BatchStatus status);

struct BatchError {
  std::string code, message, param;
  int64_t line = 0;  // 0: none
};

struct BatchObject {
  std::string id, endpoint, input_file_id, completion_window;
  BatchStatus status = BatchStatus::kValidating;
  std::string output_file_id, error_file_id;  // empty: none (yet)
  // Unix seconds at which each status was reached; 0: not reached.
  int64_t created_at = 0, in_progress_at = 0, finalizing_at = 0, completed_at = 0, failed_at = 0,
          cancelling_at = 0, cancelled_at = 0;
  int64_t total = 0, completed = 0, failed = 0;  // lines
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<BatchError> errors;
};
std::string batch_json(const BatchObject& batch);
std::optional<BatchObject> parse_batch_object(std::string_view text);

// {"object": "list", "data": ...} of objects that are JSON already.
struct ListPage {
  std::vector<std::string> items;
  std::string first_id, last_id;
  bool has_more = false;
};
std::string list_json(const ListPage& page);

// POST /v1/files. `fields` are those of the form, with the name of the file in place of its content.
// kInvalidArgument with `param`.
struct CreateFileRequest {
  std::string filename, purpose;
  std::vector<std::string> unknown_fields;
};
Result<CreateFileRequest> parse_create_file_request(
    const std::vector<std::pair<std::string, std::string>>& fields, bool strict);

struct CreateBatchRequest {
  std::string input_file_id, endpoint, completion_window;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::string> unknown_fields;
};
// The body of POST /v1/batches. kInvalidArgument with `param`.
Result<CreateBatchRequest> parse_create_batch_request(std::string_view body, bool strict);

}  // namespace pagoda::openai
