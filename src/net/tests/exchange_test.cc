#include "net/exchange.h"

#include <gtest/gtest.h>

namespace pagoda::net {
namespace {

struct CountingSignal final : OutputSignal {
  void output_ready() override { ++count; }
  void take_now() override { ++taken; }
  int count = 0, taken = 0;
};

class ExchangeTest : public ::testing::Test {
 protected:
  ExchangeTest() {
    HttpServerOptions options;
    options.max_pending_bytes = 1000;
    context_ = std::make_shared<ServerContext>(
        options, [](int status, std::string_view, std::string_view) { return "E" + std::to_string(status); },
        [this](std::string_view, std::string_view, int status, double) { observed_.push_back(status); });
  }
  std::shared_ptr<Exchange> make(bool http11 = true, bool head_only = false) {
    ExchangeInfo info;
    info.pattern = "/x";
    info.http11 = http11;
    info.head_only = head_only;
    info.keep_alive = true;
    return std::make_shared<Exchange>(std::move(info), context_, signal_);
  }
  static std::string body_of(const Exchange::Output& output) {
    return output.bytes.substr(output.bytes.find("\r\n\r\n") + 4);
  }

  std::shared_ptr<ServerContext> context_;
  std::shared_ptr<CountingSignal> signal_ = std::make_shared<CountingSignal>();
  std::vector<int> observed_;
};

TEST_F(ExchangeTest, WritesBetweenTwoSendsAreOne) {
  auto exchange = make();
  exchange->begin_stream(200, {});
  exchange->write("a");
  exchange->write("");
  exchange->write("bc");
  EXPECT_EQ(signal_->count, 1);
  auto output = exchange->take_output();
  EXPECT_EQ(body_of(output), "1\r\na\r\n2\r\nbc\r\n");
  EXPECT_FALSE(output.finished);
  EXPECT_EQ(exchange->pending_bytes(), output.bytes.size());
  exchange->sent(output.bytes.size());
  EXPECT_EQ(exchange->pending_bytes(), 0U);
  exchange->end_stream();
  EXPECT_EQ(signal_->count, 2);
  output = exchange->take_output();
  EXPECT_EQ(output.bytes, "0\r\n\r\n");
  EXPECT_TRUE(output.finished);
  EXPECT_FALSE(output.close_after);
  exchange->release();
}

TEST_F(ExchangeTest, Http10StreamsEndWithTheConnection) {
  auto exchange = make(false);
  exchange->begin_stream(200, {});
  exchange->write("a");
  exchange->end_stream();
  const auto output = exchange->take_output();
  EXPECT_EQ(body_of(output), "a");
  EXPECT_TRUE(output.close_after);
  exchange->release();
}

TEST_F(ExchangeTest, HeadGetsNoBody) {
  auto exchange = make(true, true);
  exchange->respond(200, {}, "12345");
  const auto output = exchange->take_output();
  EXPECT_NE(output.bytes.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(body_of(output), "");
  exchange->release();
  auto stream = make(true, true);
  stream->begin_stream(200, {});
  stream->write("a");
  stream->end_stream();
  EXPECT_EQ(body_of(stream->take_output()), "");
  stream->release();
}

TEST_F(ExchangeTest, DrainingAndHandlersCanCloseTheConnection) {
  auto asked = make();
  asked->respond(200, {{"Connection", "close"}}, "");
  EXPECT_TRUE(asked->take_output().close_after);
  asked->release();
  context_->draining = true;
  auto drained = make();
  drained->respond(200, {}, "");
  EXPECT_TRUE(drained->take_output().close_after);
  drained->release();
}

TEST_F(ExchangeTest, ASlowReaderIsCutAtTheLimit) {
  auto exchange = make();
  int gone = 0;
  exchange->on_close([&] { ++gone; });
  exchange->begin_stream(200, {});
  exchange->sent(exchange->take_output().bytes.size());
  exchange->write(std::string(5000, 'x'));  // large, but nothing was left over before it
  EXPECT_FALSE(exchange->aborted());
  exchange->write("y");
  EXPECT_TRUE(exchange->aborted());
  const size_t pending = exchange->pending_bytes();
  exchange->write("z");
  exchange->end_stream();
  EXPECT_EQ(exchange->pending_bytes(), pending);
  EXPECT_EQ(gone, 0);
  exchange->client_gone();
  EXPECT_EQ(gone, 1);
}

TEST_F(ExchangeTest, OnCloseRunsOnceAndOnlyIfIncomplete) {
  int gone = 0;
  auto cut = make();
  cut->on_close([&] { ++gone; });
  cut->client_gone();
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(cut->closed());
  cut->on_close([&] { ++gone; });
  EXPECT_EQ(gone, 2) << "registered after the client had gone";
  cut->respond(200, {}, "no-op");
  cut->write("no-op");
  EXPECT_EQ(cut->pending_bytes(), 0U);

  auto complete = make();
  complete->on_close([&] { ++gone; });
  complete->respond(200, {}, "");
  complete->client_gone();
  EXPECT_EQ(gone, 2);
}

TEST_F(ExchangeTest, CallbackOwningTheWriterIsNoLeak) {
  auto exchange = make();
  std::weak_ptr<ResponseWriter> watched;
  {
    auto writer = std::make_shared<ExchangeWriter>(exchange);
    watched = writer;
    writer->on_close([writer] {});
    writer->respond(200, {}, "");
  }
  EXPECT_TRUE(watched.expired());
  exchange->release();
}

TEST_F(ExchangeTest, DroppedWriterAnswers500OrCuts) {
  auto unanswered = make();
  std::make_shared<ExchangeWriter>(unanswered).reset();
  const auto output = unanswered->take_output();
  EXPECT_TRUE(output.bytes.starts_with("HTTP/1.1 500 ")) << output.bytes;
  EXPECT_EQ(body_of(output), "E500");
  unanswered->respond(200, {}, "too late, and no bug");
  EXPECT_TRUE(unanswered->take_output().bytes.empty());
  unanswered->release();

  auto streaming = make();
  auto writer = std::make_shared<ExchangeWriter>(streaming);
  writer->begin_stream(200, {});
  writer.reset();
  EXPECT_TRUE(streaming->aborted());
  streaming->client_gone();
}

TEST_F(ExchangeTest, MisuseIsCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto exchange = make();
  EXPECT_DEATH(exchange->write("x"), "write\\(\\) outside");
  EXPECT_DEATH(exchange->end_stream(), "end_stream\\(\\) without");
  exchange->respond(200, {}, "");
  EXPECT_DEATH(exchange->respond(200, {}, ""), "respond\\(\\) after");
  EXPECT_DEATH(exchange->begin_stream(200, {}), "begin_stream\\(\\) after");
  exchange->release();
}

TEST_F(ExchangeTest, ObservesAndCounts) {
  auto exchange = make();
  EXPECT_EQ(context_->active_requests, 1);
  exchange->respond(201, {}, "");
  exchange->observe(exchange->status());
  exchange->release();
  EXPECT_EQ(context_->active_requests, 0);
  EXPECT_EQ(observed_, std::vector<int>{201});
}

}  // namespace
}  // namespace pagoda::net
