#include "api/http/error_table.h"

#include <gtest/gtest.h>

#include "api/http/api.h"
#include "api/http/tests/recording_writer.h"

namespace pagoda::http {
namespace {

// API.md, "Errors".
TEST(ErrorTable, FollowsTheContract) {
  struct Case {
    ErrorKind kind;
    int status;
    const char* type;
    const char* code;
  };
  const Case cases[] = {
      {ErrorKind::kInvalidArgument, 400, "invalid_request_error", ""},
      {ErrorKind::kContextLengthExceeded, 400, "invalid_request_error", "context_length_exceeded"},
      {ErrorKind::kNotFound, 404, "invalid_request_error", "not_found"},
      {ErrorKind::kOverloaded, 503, "server_overloaded", "server_overloaded"},
      {ErrorKind::kLoading, 503, "loading", "loading"},
      {ErrorKind::kShuttingDown, 503, "shutting_down", "shutting_down"},
      {ErrorKind::kDeadlineExceeded, 504, "timeout", "timeout"},
      {ErrorKind::kUnimplemented, 501, "not_implemented", "not_implemented"},
      {ErrorKind::kInternal, 500, "server_error", "server_error"},
      {ErrorKind::kIo, 500, "server_error", "server_error"},
  };
  for (const Case& c : cases) {
    const HttpError answer = http_error(make_error(c.kind, "m", "p"));
    EXPECT_EQ(answer.status, c.status);
    EXPECT_EQ(answer.body.type, c.type);
    EXPECT_EQ(answer.body.code, c.code);
    EXPECT_EQ(answer.body.param, "p");
    EXPECT_EQ(answer.retry_after_s > 0, c.status == 503);
  }
  EXPECT_EQ(http_error(make_error(ErrorKind::kNotFound, "m", "model", "model_not_found")).body.code,
            "model_not_found");
}

TEST(ErrorTable, AFullDiskHasAStatusOfItsOwn) {
  const HttpError full = http_error(make_error(ErrorKind::kIo, "No space", "", "insufficient_storage"));
  EXPECT_EQ(full.status, 507);
  EXPECT_EQ(full.body.code, "insufficient_storage");
  EXPECT_EQ(http_error(make_error(ErrorKind::kIo, "Broken")).status, 500);
}

TEST(ErrorTable, RetryAfterIsAHeader) {
  RecordingWriter writer;
  respond_error(writer, make_error(ErrorKind::kOverloaded, "full"));
  EXPECT_EQ(writer.status, 503);
  EXPECT_EQ(writer.header("Retry-After"), "1");
  EXPECT_EQ(writer.header("Content-Type"), "application/json");
}

TEST(ErrorTable, TransportErrorsHaveTheSameShape) {
  EXPECT_EQ(transport_error_body(405, "GET is not allowed", "/v1/completions"),
            R"({"error":{"message":"GET is not allowed","type":"invalid_request_error","param":null,)"
            R"("code":"method_not_allowed"}})");
  EXPECT_NE(transport_error_body(500, "x", "unmatched").find("server_error"), std::string::npos);
  EXPECT_NE(transport_error_body(404, "x", "unmatched").find("not_found"), std::string::npos);
}

TEST(ErrorTable, TransportErrorsOfMessagesHaveTheShapeOfThatApi) {
  for (const char* route : {"/v1/messages", "/v1/messages/count_tokens"}) {
    const std::string body = transport_error_body(413, "The body is too large", route);
    EXPECT_TRUE(body.starts_with(R"({"type":"error","error":{"type":"request_too_large",)")) << body;
  }
  EXPECT_TRUE(transport_error_body(413, "x", "/v1/messagesX").starts_with(R"({"error":)"));
}

}  // namespace
}  // namespace pagoda::http
