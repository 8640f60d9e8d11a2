// /v1/files.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "api/http/disk_files.h"
#include "api/http/stored_routes.h"
#include "api/openai/json_text.h"
#include "net/multipart.h"

namespace pagoda::http {
namespace {

// OpenAI's limit for the input of a batch; --max-body-bytes is mostly lower.
constexpr size_t kMaxFileBytes = size_t{200} << 20;
constexpr size_t kMaxFieldBytes = 4096;

constexpr std::string_view kFilesPath = "/v1/files/", kContentEnd = "/content";
constexpr PageLimits kPageLimits{"file-", 10000, 10000};

// Of one that is sent: how much is read at once, how much waits for a slow client, and after how much a fast
// one lets others have the thread.
constexpr size_t kPieceBytes = size_t{256} << 10, kMaxPendingBytes = size_t{1} << 20;
constexpr int kPiecesOfATurn = 32;

Error invalid(std::string message, std::string param) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message), std::move(param));
}

Result<void> check_part(const net::FormPart& part) {
  if (openai::find_invalid_utf8(part.name) != std::string::npos) {
    return invalid("The form has a part whose name is not UTF-8.", "");
  }
  if (part.name == "file") {
    if (!part.filename || part.filename->empty()) {
      return invalid("file must be a file: its part of the form has no filename.", "file");
    }
    if (part.content.empty()) return invalid("file is empty.", "file");
    if (part.content.size() > kMaxFileBytes) {
      return invalid(fmt::format("file has {} bytes; the limit is {}.", part.content.size(), kMaxFileBytes),
                     "file");
    }
  }
  const std::string_view text = part.name == "file" ? std::string_view(*part.filename) : part.content;
  if (text.size() > kMaxFieldBytes) {
    return invalid(fmt::format("{} has {} bytes; the limit is {}.", part.name, text.size(), kMaxFieldBytes),
                   part.name);
  }
  if (openai::find_invalid_utf8(text) != std::string::npos) {
    return invalid(fmt::format("{} is not UTF-8.", part.name), part.name);
  }
  return {};
}

Result<void> create_file(const StoredCall& call) {
  const std::string boundary = PAGODA_TRY(net::multipart_boundary(call.request.header("content-type")));
  const auto parts = PAGODA_TRY(net::parse_multipart(call.request.body, boundary));
  std::vector<std::pair<std::string, std::string>> fields;
  std::string_view content;
  for (const net::FormPart& part : parts) {
    PAGODA_TRY(check_part(part));
    const bool is_file = part.name == "file";
    if (is_file) content = part.content;
    fields.emplace_back(part.name, is_file ? *part.filename : std::string(part.content));
  }
  auto wanted = PAGODA_TRY(openai::parse_create_file_request(fields, call.state.options().strict_params));
  const auto file = PAGODA_TRY(
      call.batches.store().add_file(content, std::move(wanted.filename), std::move(wanted.purpose)));
  respond_json(*call.response, openai::file_json(file),
               unknown_field_headers(call.request, wanted.unknown_fields));
  return {};
}

Result<void> list_files(const StoredCall& call) {
  const Query query(call.request.query);
  auto files = call.batches.store().files();
  if (const auto purpose = query.text("purpose")) {
    std::erase_if(files, [&](const openai::FileObject& file) { return file.purpose != *purpose; });
  }
  const auto page = PAGODA_TRY(page_of(std::move(files), query, kPageLimits, openai::file_json));
  respond_json(*call.response, openai::list_json(page));
  return {};
}

Result<void> show_file(const StoredCall& call) {
  const auto file = PAGODA_TRY(call.batches.store().file(call.id(kFilesPath)));
  respond_json(*call.response, openai::file_json(file));
  return {};
}

Result<void> remove_file(const StoredCall& call) {
  const std::string id = call.id(kFilesPath);
  PAGODA_TRY(call.batches.store().remove_file(id));
  respond_json(*call.response, openai::deleted_file_json(id));
  return {};
}

// Sends a file piece by piece, as fast as the client reads. It may be removed meanwhile.
class Download {
 public:
  Download(net::UniqueFd fd, std::string path, std::shared_ptr<net::ResponseWriter> response)
      : fd_(std::move(fd)), path_(std::move(path)), response_(std::move(response)) {}

  // True when it is over.
  bool go_on() {
    if (response_->closed()) return true;
    for (int i = 0; i < kPiecesOfATurn && response_->pending_bytes() < kMaxPendingBytes; ++i) {
      std::string piece(kPieceBytes, '\0');
      const ssize_t count = ::read(fd_.get(), piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        // The status line has gone: the client sees a stream that was cut.
        (void)disk_error("The file can't be read", path_);
        return true;
      }
      if (count == 0) {
        response_->end_stream();
        return true;
      }
      piece.resize(static_cast<size_t>(count));
      response_->write(std::move(piece));
    }
    return false;
  }

 private:
  const net::UniqueFd fd_;
  const std::string path_;
  const std::shared_ptr<net::ResponseWriter> response_;
};

Result<void> send_content(const StoredCall& call) {
  const auto file = PAGODA_TRY(call.batches.store().file(call.id(kFilesPath, kContentEnd)));
  const std::string path = call.batches.store().content_path(file.id);
  auto fd = PAGODA_TRY(open_for_reading(path));
  call.response->begin_stream(200, {{"Content-Type", "application/octet-stream"}});
  auto download = std::make_shared<Download>(std::move(fd), path, call.response);
  call.batches.files().post([download] { return download->go_on(); });
  return {};
}

}  // namespace

void register_file_routes(const std::shared_ptr<ApiState>& state,
                          const std::shared_ptr<BatchService>& batches, net::HttpServer& server) {
  const auto route = [&](const char* method, const char* path, StoredWork work) {
    server.route(method, path, on_file_thread(state, batches, work));
  };
  route("POST", "/v1/files", create_file);
  route("GET", "/v1/files", list_files);
  route("GET", "/v1/files/{id}", show_file);
  route("DELETE", "/v1/files/{id}", remove_file);
  route("GET", "/v1/files/{id}/content", send_content);
}

}  // namespace pagoda::http
