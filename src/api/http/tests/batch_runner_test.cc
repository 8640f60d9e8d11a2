#include "api/http/batch_runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "api/http/api.h"
#include "api/openai/json_text.h"

namespace pagoda::http {
namespace {

namespace fs = std::filesystem;

std::string request_line(const std::string& id, const std::string& url = "/v1/echo") {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":")" + url + R"(","body":{"id":")" + id +
         "\"}}\n";
}

class BatchRunnerTest : public ::testing::Test {
 protected:
  BatchRunnerTest() : server_({}, transport_error_body) {
    server_.route("POST", "/v1/echo", [this](net::HttpRequest request, auto response) {
      const std::lock_guard lock(mutex_);
      ++calls_;
      backgrounds_ += request.background ? 1 : 0;
      if (request.body.find("\"bad\"") != std::string::npos)
        return response->respond(400, {}, R"({"error":1})");
      if (request.body.find("\"drop\"") != std::string::npos) return;
      if (busy_left_ > 0 && busy_left_-- > 0) return response->respond(503, {}, "{}");
      if (holds_) return held_.push_back(response);
      response->respond(200, {}, request.body);
    });
    dir_ = fs::temp_directory_path() / ("pagoda_batch_" + std::to_string(getpid()));
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  ~BatchRunnerTest() override { fs::remove_all(dir_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  std::string read(const std::string& name) {
    std::ifstream file(dir_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // custom_id (or "#line" of a failure) to the status, or 0 for a failure.
  std::map<std::string, int> output(const std::string& name = "out") {
    std::map<std::string, int> found;
    std::ifstream file(dir_ / name);
    for (std::string line; std::getline(file, line);) {
      const auto json = openai::parse_json(line);
      EXPECT_TRUE(json.has_value()) << line;
      const bool failed = (*json)["response"].is_null();
      const std::string key = failed ? "#" + std::to_string((*json)["error"]["line"].get<int>())
                                     : (*json)["custom_id"].get<std::string>();
      EXPECT_TRUE(found.emplace(key, failed ? 0 : (*json)["response"]["status_code"].get<int>()).second)
          << key;
    }
    return found;
  }
  Result<bool> run(const std::string& input,
                   BatchRunnerOptions options = {
                       .window = 4, .background = false, .endpoint = {}, .on_failure = {}}) {
    BatchRunner runner(server_, std::move(options));
    return run(runner, input);
  }
  Result<bool> run(BatchRunner& runner, const std::string& input) {
    const std::string path = write("in", input);
    const int fd = ::open(path.c_str(), O_RDONLY);
    auto out = AnswerFile::open(dir_ / "out");
    if (!out) return out.error();
    LineReader reader(fd, 1000);
    const auto result = runner.run(reader, *out, *out);
    ::close(fd);
    progress_ = runner.progress();
    return result;
  }

  net::HttpServer server_;
  fs::path dir_;
  std::mutex mutex_;
  int calls_ = 0, backgrounds_ = 0, busy_left_ = 0;
  bool holds_ = false;
  std::vector<std::shared_ptr<net::ResponseWriter>> held_;
  BatchProgress progress_;
};

TEST_F(BatchRunnerTest, EveryLineGetsItsAnswerOrItsError) {
  std::set<int64_t> reported;
  const auto result =
      run(request_line("a") + "not json\n\n" + request_line("bad") + request_line("a") +
              request_line("c", "/v1/files") + request_line("d", "/v1/none") + request_line("drop") +
              std::string(2000, 'x') + "\n" + request_line("last").substr(0, request_line("last").size() - 1),
          {.window = 3, .background = true, .endpoint = {}, .on_failure = [&](int64_t line, const auto&) {
             reported.insert(line);
           }});
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(*result);
  EXPECT_EQ(output(), (std::map<std::string, int>{{"a", 200},
                                                  {"#2", 0},
                                                  {"bad", 400},
                                                  {"#5", 0},
                                                  {"#6", 0},
                                                  {"#7", 0},
                                                  {"drop", 500},
                                                  {"#9", 0},
                                                  {"last", 200}}));
  EXPECT_EQ(reported, (std::set<int64_t>{2, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(progress_.done, 9);
  EXPECT_EQ(progress_.failed, 7);
  EXPECT_EQ(backgrounds_, calls_);
}

TEST_F(BatchRunnerTest, GoesOnWhereItWas) {
  const std::string input =
      request_line("a") + "junk\n" + request_line("b") + request_line("b") + request_line("bad");
  ASSERT_TRUE(*run(input));
  const auto whole = output();
  const std::string text = read("out");
  // Whatever part of the output reached the disk, the next run completes it.
  for (size_t cut = 0; cut <= text.size(); cut += 7) {
    write("out", text.substr(0, cut));
    const auto result = run(input);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    ASSERT_EQ(output(), whole) << "cut at byte " << cut;
    ASSERT_EQ(progress_.done, 5);
    ASSERT_EQ(progress_.failed, 3);
  }
  calls_ = 0;
  ASSERT_TRUE(*run(input));
  EXPECT_EQ(calls_, 0);
}

TEST_F(BatchRunnerTest, LeavesFilesAloneThatAreNoAnswers) {
  for (const std::string other : {"my notes\nand more\n", "my notes", "{\"custom_id\":\"a\"}", "{}\n"}) {
    write("out", other);
    const auto result = run(request_line("a"));
    ASSERT_FALSE(result.has_value());
    EXPECT_NE(result.error().message.find("line 1"), std::string::npos);
    EXPECT_EQ(read("out"), other);
  }
}

TEST_F(BatchRunnerTest, AFileHasOneWriter) {
  const auto first = AnswerFile::open(dir_ / "out");
  ASSERT_TRUE(first.has_value());
  const auto second = AnswerFile::open(dir_ / "out");
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message.find("another process"), std::string::npos) << second.error().message;
}

// Reading /dev/zero would never end, and a pipe cannot seek.
TEST_F(BatchRunnerTest, DevicesAndPipesAreOnlyWritten) {
  for (const char* path : {"/dev/zero", "/dev/null"}) {
    auto device = AnswerFile::open(path);
    ASSERT_TRUE(device.has_value()) << path;
    EXPECT_TRUE(device->append("{}").has_value());
  }
  auto full = AnswerFile::open("/dev/full");
  ASSERT_TRUE(full.has_value());
  EXPECT_FALSE(full->append("{}").has_value());

  const std::string path = dir_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  auto pipe = AnswerFile::open(path);
  ASSERT_TRUE(pipe.has_value()) << pipe.error().message;
  EXPECT_TRUE(pipe->append("{}").has_value());
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 3);
  EXPECT_STREQ(text, "{}\n");
  ::close(reader);
}

TEST_F(BatchRunnerTest, ABusyServerIsAskedAgain) {
  busy_left_ = 3;
  ASSERT_TRUE(*run(request_line("a") + request_line("b")));
  EXPECT_EQ(output(), (std::map<std::string, int>{{"a", 200}, {"b", 200}}));
  EXPECT_EQ(calls_, 5);
}

TEST_F(BatchRunnerTest, TheWindowBoundsWhatIsUnderWayAndStopKeepsItForLater) {
  holds_ = true;
  std::string input;
  for (int i = 0; i < 20; ++i) input += request_line(std::to_string(i));
  BatchRunner runner(server_, {.window = 4, .background = false, .endpoint = {}, .on_failure = {}});
  auto running = std::async(std::launch::async, [&] { return run(runner, input); });
  const auto num_held = [&] {
    const std::lock_guard lock(mutex_);
    return held_.size();
  };
  while (num_held() < 4) std::this_thread::yield();
  std::shared_ptr<net::ResponseWriter> first;
  {
    const std::lock_guard lock(mutex_);
    first = held_.front();
    first->on_close([this] {
      const std::lock_guard inner(mutex_);
      held_.clear();
    });
  }
  runner.stop();
  EXPECT_TRUE(first->closed());
  first->respond(200, {}, "{}");  // too late
  first.reset();
  const auto result = running.get();
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(*result);
  EXPECT_EQ(calls_, 4);
  EXPECT_TRUE(output().empty());
  holds_ = false;
  ASSERT_TRUE(*run(input));
  EXPECT_EQ(output().size(), 20u);
}

TEST_F(BatchRunnerTest, OneEndpointForAll) {
  ASSERT_TRUE(*run(request_line("a") + request_line("b", "/v1/other"),
                   {.window = 1, .background = false, .endpoint = "/v1/echo", .on_failure = {}}));
  EXPECT_EQ(output(), (std::map<std::string, int>{{"a", 200}, {"#2", 0}}));
}

TEST(LineReaderTest, ReadsAPipeAsItComes) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  LineReader reader(ends[0], 10);
  std::string line;
  const auto next = [&] { return *reader.next(line, std::chrono::milliseconds(0)); };
  const auto put = [&](const std::string& text) {
    ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  EXPECT_EQ(next(), LineReader::Next::kNotYet);
  put("\xEF\xBB\xBF"
      "ab");
  EXPECT_EQ(next(), LineReader::Next::kNotYet);
  put("c\r\n \n" + std::string(11, 'x') + "\n" + std::string(10, 'y') + "\n" +
      std::string(200000, 'z').substr(0, 5000));
  EXPECT_EQ(next(), LineReader::Next::kLine);
  EXPECT_EQ(line, "abc\r");
  EXPECT_EQ(next(), LineReader::Next::kTooLong);
  EXPECT_EQ(reader.line_number(), 3);
  EXPECT_EQ(next(), LineReader::Next::kLine);
  EXPECT_EQ(line, std::string(10, 'y'));
  EXPECT_EQ(next(), LineReader::Next::kNotYet);
  put("zz\nend");
  EXPECT_EQ(next(), LineReader::Next::kTooLong);
  EXPECT_EQ(next(), LineReader::Next::kNotYet);
  ::close(ends[1]);
  EXPECT_EQ(next(), LineReader::Next::kLine);
  EXPECT_EQ(line, "end");
  EXPECT_EQ(reader.line_number(), 6);
  EXPECT_EQ(next(), LineReader::Next::kEnd);
  EXPECT_EQ(next(), LineReader::Next::kEnd);
  ::close(ends[0]);
}

}  // namespace
}  // namespace pagoda::http
