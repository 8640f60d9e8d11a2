#include "api/openai/batch_objects.h"

#include <gtest/gtest.h>

#include "api/openai/json_text.h"

namespace pagoda::openai {
namespace {

TEST(BatchObjectsTest, WhatIsWrittenIsReadBack) {
  BatchObject batch;
  batch.id = "batch_1";
  batch.endpoint = "/v1/completions";
  batch.input_file_id = "file-1";
  batch.completion_window = "24h";
  batch.status = BatchStatus::kCancelling;
  batch.error_file_id = "file-2";
  batch.created_at = 100;
  batch.cancelling_at = 200;
  batch.total = 5;
  batch.completed = 2;
  batch.failed = 1;
  batch.metadata = {{"a", "b"}};
  batch.errors = {{"code", "message", "", 3}};
  const std::string text = batch_json(batch);
  const auto again = parse_batch_object(text);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(batch_json(*again), text);
  const Json json = *parse_json(text);
  EXPECT_EQ(json["status"], "cancelling");
  EXPECT_TRUE(json["output_file_id"].is_null() && json["completed_at"].is_null());
  EXPECT_EQ(json["request_counts"], Json({{"total", 5}, {"completed", 2}, {"failed", 1}}));

  const FileObject file{"file-1", "in.jsonl", "batch", 10, 20, 30};
  EXPECT_EQ(file_json(*parse_file_object(file_json(file))), file_json(file));
  for (const char* bad : {"", "{}", "[]", R"({"id":"batch_1","status":"odd"})", R"({"id":7})"}) {
    EXPECT_FALSE(parse_batch_object(bad).has_value()) << bad;
    EXPECT_FALSE(parse_file_object(bad).has_value() && std::string(bad).find("odd") == std::string::npos)
        << bad;
  }
}

TEST(BatchObjectsTest, CreateNamesTheFieldThatIsWrong) {
  const auto param_of = [](const std::string& text) {
    const auto request = parse_create_batch_request(text, true);
    return request ? "none" : request.error().param;
  };
  const std::string rest = R"("endpoint":"/v1/completions","completion_window":"24h"})";
  EXPECT_EQ(param_of(R"({"input_file_id":"f",)" + rest), "none");
  EXPECT_EQ(param_of("{" + rest), "input_file_id");
  EXPECT_EQ(param_of(R"({"input_file_id":1,)" + rest), "input_file_id");
  EXPECT_EQ(param_of(R"({"input_file_id":"f","endpoint":"e","completion_window":"1h"})"),
            "completion_window");
  EXPECT_EQ(param_of(R"({"input_file_id":"f","metadata":[],)" + rest), "metadata");
  EXPECT_EQ(param_of(R"({"input_file_id":"f","metadata":{"a":1},)" + rest), "metadata");
  EXPECT_EQ(param_of(R"({"input_file_id":"f","metadata":{"a":"b"},)" + rest), "none");
  EXPECT_EQ(param_of(R"({"input_file_id":"f","odd":1,)" + rest), "odd");
}

TEST(BatchObjectsTest, Lists) {
  EXPECT_EQ(list_json({}), R"({"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false})");
  EXPECT_EQ(list_json({{"{\"id\":\"a\"}", "{}"}, "a", "b", true}),
            R"({"object":"list","data":[{"id":"a"},{}],"first_id":"a","last_id":"b","has_more":true})");
}

}  // namespace
}  // namespace pagoda::openai
