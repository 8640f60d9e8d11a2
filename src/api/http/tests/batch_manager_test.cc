#include "api/http/batch_manager.h"

#include <map>
#include <thread>

#include "api/http/api.h"
#include "api/http/tests/store_fixture.h"
#include "api/openai/json_text.h"

namespace pagoda::http {
namespace {

using openai::BatchStatus;

std::string line(const std::string& id, const std::string& url = "/v1/echo") {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":")" + url + R"(","body":{"id":")" + id +
         "\"}}\n";
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line("c" + std::to_string(i));
  return text;
}

// A server that echoes; requests beyond `free_` wait until release() or until they are cancelled.
class BatchManagerTest : public StoreFixture {
 protected:
  BatchManagerTest() : server_({}, transport_error_body) {
    server_.route("POST", "/v1/echo", [this](net::HttpRequest request, auto response) {
      std::unique_lock lock(mutex_);
      ++calls_[request.body];
      foreground_ += request.background ? 0 : 1;
      if (request.body.find("bad") != std::string::npos) return response->respond(400, {}, R"({"error":1})");
      if (free_ == 0) {
        held_[response.get()] = {request.body, response};
        lock.unlock();
        response->on_close([this, raw = response.get()] {
          const std::lock_guard inner(mutex_);
          held_.erase(raw);
        });
        return;
      }
      if (free_ > 0) --free_;
      response->respond(200, {}, padded(request.body));
    });
    server_.route("POST", "/v1/other",
                  [](net::HttpRequest, auto response) { response->respond(200, {}, "{}"); });
    restart();
  }
  ~BatchManagerTest() override { manager_.reset(); }

  // A manager of a server that starts anew; it runs after start().
  void restart() {
    manager_.reset();
    open();
    manager_ = std::make_unique<BatchManager>(*store_, server_, BatchManager::Delay(1));
  }
  Result<openai::BatchObject> create(const std::string& input, const std::string& endpoint = "/v1/echo") {
    openai::CreateBatchRequest request;
    request.input_file_id = add_file(input).id;
    request.endpoint = endpoint;
    request.completion_window = "24h";
    request.metadata = {{"k", "v"}};
    return manager_->create(request);
  }
  template <class Condition>
  static void wait_until(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }
  openai::BatchObject wait_for_end(const std::string& id) {
    wait_until([&] { return openai::is_final(store_->batch(id)->status); });
    return *store_->batch(id);
  }
  void wait_for_held(size_t count) {
    wait_until([&] {
      const std::lock_guard lock(mutex_);
      return held_.size() >= count;
    });
  }
  void release() {
    std::map<const net::ResponseWriter*, Held> held;
    {
      const std::lock_guard lock(mutex_);
      free_ = -1;
      held.swap(held_);
    }
    for (const auto& [raw, one] : held) one.response->respond(200, {}, one.body);
  }
  std::string padded(const std::string& body) const {
    return R"({"echo":)" + body + R"(,"fill":")" + std::string(answer_bytes_, 'x') + "\"}";
  }
  // custom_id to status; every id once.
  std::map<std::string, int> answers(const std::string& file_id) {
    std::map<std::string, int> found;
    std::ifstream file(store_->content_path(file_id));
    for (std::string text; std::getline(file, text);) {
      const auto json = openai::parse_json(text);
      EXPECT_TRUE(json) << text;
      if (!json) continue;
      EXPECT_TRUE(
          found.emplace((*json)["custom_id"], (*json)["response"]["status_code"].template get<int>()).second)
          << text;
    }
    return found;
  }
  static std::vector<std::string> codes(const openai::BatchObject& batch) {
    std::vector<std::string> found;
    for (const auto& error : batch.errors) found.push_back(error.code + ":" + std::to_string(error.line));
    return found;
  }

  struct Held {
    std::string body;
    std::shared_ptr<net::ResponseWriter> response;
  };
  net::HttpServer server_;
  std::mutex mutex_;
  std::map<std::string, int> calls_;  // by body
  int foreground_ = 0;
  int free_ = -1;  // answers until requests are held; -1: all
  size_t answer_bytes_ = 0;
  std::map<const net::ResponseWriter*, Held> held_;
  std::unique_ptr<BatchManager> manager_;
};

TEST_F(BatchManagerTest, ABatchRunsToItsEnd) {
  manager_->start(4);
  const auto batch = create(lines(9) + line("bad") + "\n" + line("last"));
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->status, BatchStatus::kValidating);
  EXPECT_TRUE(batch->id.starts_with("batch_"));
  const auto ended = wait_for_end(batch->id);
  EXPECT_EQ(ended.status, BatchStatus::kCompleted);
  EXPECT_EQ(ended.total, 11);
  EXPECT_EQ(ended.completed, 10);
  EXPECT_EQ(ended.failed, 1);
  EXPECT_GT(ended.in_progress_at, 0);
  EXPECT_GE(ended.finalizing_at, ended.in_progress_at);
  EXPECT_GE(ended.completed_at, ended.finalizing_at);
  EXPECT_EQ(ended.cancelled_at + ended.failed_at + ended.cancelling_at, 0);
  EXPECT_EQ(answers(ended.output_file_id).size(), 10u);
  EXPECT_EQ(answers(ended.output_file_id)["last"], 200);
  EXPECT_EQ(answers(ended.error_file_id), (std::map<std::string, int>{{"bad", 400}}));
  EXPECT_EQ(store_->file(ended.output_file_id)->purpose, "batch_output");
  EXPECT_EQ(foreground_, 0);
  EXPECT_EQ(names("batches"), std::set<std::string>{batch->id + ".json"});
}

TEST_F(BatchManagerTest, ABatchWithoutFailuresHasNoFileOfErrors) {
  manager_->start(1);
  const auto ended = wait_for_end(create(lines(2))->id);
  EXPECT_FALSE(ended.output_file_id.empty());
  EXPECT_TRUE(ended.error_file_id.empty());
}

TEST_F(BatchManagerTest, WrongLinesFailTheBatchBeforeAnythingRuns) {
  manager_->start(4);
  const auto ended = wait_for_end(create(line("a") + "not json\n" + line("b", "/v1/other") + line("a") +
                                         R"({"custom_id":"c","method":"GET","url":"/v1/echo","body":{}})")
                                      ->id);
  EXPECT_EQ(ended.status, BatchStatus::kFailed);
  EXPECT_GT(ended.failed_at, 0);
  EXPECT_EQ(codes(ended), (std::vector<std::string>{"invalid_line:2", "mismatched_endpoint:3",
                                                    "duplicate_custom_id:4", "invalid_line:5"}));
  EXPECT_TRUE(ended.output_file_id.empty() && ended.error_file_id.empty());
  EXPECT_TRUE(calls_.empty());
}

TEST_F(BatchManagerTest, TheListOfErrorsIsBoundedAndAnEmptyFileIsOne) {
  manager_->start(4);
  std::string wrong;
  for (int i = 0; i < 150; ++i) wrong += "x\n";
  const auto many = wait_for_end(create(wrong)->id);
  ASSERT_EQ(many.errors.size(), 101u);
  EXPECT_EQ(many.errors.back().code, "more_errors");
  EXPECT_NE(many.errors.back().message.find("50"), std::string::npos);
  EXPECT_EQ(codes(wait_for_end(create("\n \n")->id)), std::vector<std::string>{"empty_file:0"});
}

TEST_F(BatchManagerTest, CreateRefusesWhatCannotRun) {
  for (const char* endpoint : {"/v1/none", "/v1/files", "/v1/batches", "/health", ""}) {
    const auto batch = create(lines(1), endpoint);
    ASSERT_FALSE(batch) << endpoint;
    EXPECT_EQ(batch.error().param, "endpoint");
  }
  openai::CreateBatchRequest request;
  request.endpoint = "/v1/echo";
  request.input_file_id = add_file("x", "user_data").id;
  EXPECT_EQ(manager_->create(request).error().param, "input_file_id");
  request.input_file_id = "file-none";
  EXPECT_EQ(manager_->create(request).error().param, "input_file_id");
  EXPECT_TRUE(store_->batches().empty());
}

TEST_F(BatchManagerTest, CancelKeepsWhatIsAnswered) {
  free_ = 3;
  manager_->start(2);
  const auto batch = create(lines(10));
  wait_for_held(2);
  wait_until([&] { return manager_->view(*store_->batch(batch->id)).completed == 3; });
  const auto seen = manager_->view(*store_->batch(batch->id));
  EXPECT_EQ(seen.status, BatchStatus::kInProgress);
  EXPECT_EQ(seen.total, 10);
  EXPECT_TRUE(seen.output_file_id.empty());
  const auto cancelling = manager_->cancel(batch->id);
  ASSERT_TRUE(cancelling);
  EXPECT_EQ(cancelling->status, BatchStatus::kCancelling);
  const auto ended = wait_for_end(batch->id);
  EXPECT_EQ(ended.status, BatchStatus::kCancelled);
  EXPECT_GE(ended.cancelled_at, ended.cancelling_at);
  EXPECT_EQ(ended.completed, 3);
  EXPECT_EQ(ended.failed, 0);
  EXPECT_EQ(ended.total, 10);
  EXPECT_EQ(answers(ended.output_file_id).size(), 3u);
  EXPECT_TRUE(ended.error_file_id.empty());
  EXPECT_EQ(calls_.size(), 5u);  // nothing was begun after the cancel
  EXPECT_EQ(manager_->cancel(batch->id)->status, BatchStatus::kCancelled);
}

TEST_F(BatchManagerTest, ABatchThatWaitsIsCancelledAtOnce) {
  free_ = 0;
  manager_->start(1);
  const auto first = create(lines(1)), second = create(lines(2));
  wait_for_held(1);
  const auto cancelled = manager_->cancel(second->id);
  ASSERT_TRUE(cancelled);
  EXPECT_EQ(cancelled->status, BatchStatus::kCancelled);
  EXPECT_TRUE(cancelled->output_file_id.empty());
  release();
  EXPECT_EQ(wait_for_end(first->id).status, BatchStatus::kCompleted);
  EXPECT_EQ(manager_->cancel(first->id).error().param, "id");
  EXPECT_EQ(manager_->cancel("batch_none").error().kind, ErrorKind::kNotFound);
}

TEST_F(BatchManagerTest, TheOldestRunsFirstAndAlone) {
  free_ = 0;
  const auto first = create(lines(1)), second = create(line("second"));
  manager_->start(8);
  wait_for_held(1);
  EXPECT_EQ(store_->batch(second->id)->status, BatchStatus::kValidating);
  EXPECT_FALSE(calls_.contains(R"({"id":"second"})"));
  release();
  EXPECT_EQ(wait_for_end(first->id).completed, 1);
  EXPECT_EQ(wait_for_end(second->id).completed, 1);
}

TEST_F(BatchManagerTest, AnotherServerGoesOnWhereOneStopped) {
  free_ = 4;
  manager_->start(3);
  const auto batch = create(lines(20));
  wait_for_held(3);
  wait_until([&] { return manager_->view(*store_->batch(batch->id)).completed == 4; });
  manager_->stop();
  EXPECT_EQ(store_->batch(batch->id)->status, BatchStatus::kInProgress);
  restart();
  free_ = -1;
  manager_->start(3);
  const auto ended = wait_for_end(batch->id);
  EXPECT_EQ(ended.status, BatchStatus::kCompleted);
  EXPECT_EQ(ended.completed, 20);
  EXPECT_EQ(answers(ended.output_file_id).size(), 20u);
  int again = 0;
  for (const auto& [body, count] : calls_) again += count - 1;
  EXPECT_EQ(again, 3);  // those that were under way
}

TEST_F(BatchManagerTest, AStopWithoutAStartAndTwiceIsNothing) {
  manager_->stop();
  manager_->stop();
}

TEST_F(BatchManagerTest, EveryStageCanBeDoneAgain) {
  const std::string answer = R"({"id":"batch_req_1","custom_id":"c0","response":{"status_code":200,)"
                             R"("request_id":"r","body":{}},"error":null})";
  const auto finalizing = create(lines(1)), named = create(lines(1)), cancelling = create(lines(3));
  for (const auto* batch : {&finalizing, &cancelling}) {
    write(store_->output_path((*batch)->id), answer + "\n" + answer.substr(0, 30));
  }
  set_status(finalizing->id, BatchStatus::kFinalizing);
  set_status(cancelling->id, BatchStatus::kCancelling);
  // Its file has the name already, but no description.
  const std::string file_id = store_->new_file_id();
  change(named->id, [&](openai::BatchObject& batch) {
    batch.status = BatchStatus::kFinalizing;
    batch.output_file_id = file_id;
    batch.completed = 1;
  });
  write(store_->content_path(file_id), answer + "\n");
  restart();
  EXPECT_TRUE(manager_->view(*store_->batch(named->id)).output_file_id.empty());
  manager_->start(1);
  EXPECT_EQ(wait_for_end(cancelling->id).status, BatchStatus::kCancelled);
  for (const auto& id : {finalizing->id, named->id, cancelling->id}) {
    const auto ended = wait_for_end(id);
    EXPECT_EQ(ended.completed, 1);
    EXPECT_EQ(read(store_->content_path(ended.output_file_id)), answer + "\n");
    EXPECT_EQ(store_->file(ended.output_file_id)->bytes, static_cast<int64_t>(answer.size()) + 1);
  }
  EXPECT_TRUE(calls_.empty());
}

TEST_F(BatchManagerTest, DamagedAnswersAndALostInputFailTheBatchAlone) {
  const auto damaged = create(lines(2)), lost = create(lines(2)), cut = create(lines(2));
  const auto good = create(lines(2));
  set_status(damaged->id, BatchStatus::kInProgress);
  write(store_->output_path(damaged->id), "no answer\nat all\n");
  ::unlink(store_->content_path(lost->input_file_id).c_str());
  write(store_->content_path(cut->input_file_id), line("c0"));
  set_status(cut->id, BatchStatus::kInProgress);
  manager_->start(1);
  EXPECT_EQ(codes(wait_for_end(cut->id)), std::vector<std::string>{"file_not_found:0"});
  EXPECT_EQ(codes(wait_for_end(damaged->id)), std::vector<std::string>{"server_error:0"});
  EXPECT_EQ(codes(wait_for_end(lost->id)), std::vector<std::string>{"file_not_found:0"});
  EXPECT_EQ(wait_for_end(good->id).status, BatchStatus::kCompleted);
}

TEST_F(BatchManagerTest, ABatchWaitsForRoomOnTheDiskAndLosesNothing) {
  answer_bytes_ = 3000;
  const auto big = create(lines(12));
  {
    const FileSizeLimit limit(10000);
    manager_->start(2);
    wait_until([&] {  // it was begun a second time
      const std::lock_guard lock(mutex_);
      int most = 0;
      for (const auto& [body, count] : calls_) most = std::max(most, count);
      return most >= 2;
    });
    EXPECT_EQ(store_->batch(big->id)->status, BatchStatus::kInProgress);
  }
  const auto ended = wait_for_end(big->id);
  EXPECT_EQ(ended.status, BatchStatus::kCompleted);
  EXPECT_EQ(ended.completed, 12);
  EXPECT_EQ(answers(ended.output_file_id).size(), 12u);
}

}  // namespace
}  // namespace pagoda::http
