// One request and its answer: where the thread that makes the answer meets the session that sends it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/executor.h"
#include "net/http_types.h"
#include "net/response_head.h"
#include "net/server_context.h"

namespace pagoda::net {

class TaskQueue;

// Told that an exchange has something to send or has failed. Thread-safe, never blocks, and never calls back
// into the exchange before it returns: an exchange calls it with its lock held.
class OutputSignal {
 public:
  virtual ~OutputSignal() = default;
  virtual void output_ready() = 0;
  // The same, but called without the lock and by an I/O thread, which may take the output within the call.
  virtual void take_now() = 0;
};

struct ExchangeInfo {
  std::string pattern;  // of the route, "unmatched" without one
  std::string method;   // as the observer gets it: a registered name or "OTHER", so that labels stay few
  std::string request_id;
  Headers cors_fields;
  bool http11 = true;
  bool head_only = false;  // HEAD: the same head as GET would get, and no body
  bool keep_alive = false;
};

// Turns the calls of the answering side into bytes under its own lock; the session takes the bytes when its
// socket is free. Many writes between two sends are one send. Answering side: any thread. Session side: the
// session's strand.
class Exchange final : public Executor, public std::enable_shared_from_this<Exchange> {
 public:
  // Without `tasks` it takes no tasks.
  Exchange(ExchangeInfo info, std::shared_ptr<ServerContext> context, std::shared_ptr<OutputSignal> signal,
           std::shared_ptr<TaskQueue> tasks = nullptr);

  // Answering side; see ResponseWriter.
  void respond(int status, const Headers& headers, std::string_view body);
  void begin_stream(int status, const Headers& headers);
  void write(std::string_view data);
  void end_stream();
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  size_t pending_bytes() const { return pending_.load(std::memory_order_relaxed); }
  void on_close(std::function<void()> callback);
  bool post(std::shared_ptr<Task> task) override;

  // An error of the transport, rendered by ErrorBody.
  void respond_error(int status, std::string_view message, Headers headers = {});
  // Nobody will finish this answer: 500 if none was begun, else the connection is cut. A no-op once it is
  // complete. Calls of the answering side are no-ops afterwards.
  void abandon();

  // Session side.
  struct Output {
    std::string bytes;
    bool finished = false;     // nothing follows
    bool close_after = false;  // with finished: the connection can't be used again
    bool aborted = false;      // as aborted()
  };
  // `recycled`: a string that is no longer needed; its memory is.
  Output take_output(std::string recycled = {});
  // Runs a task that was posted; what it writes is one send, made before this returns where the socket takes
  // it. On an I/O thread.
  void run(Task& task);
  void sent(size_t bytes) { pending_.fetch_sub(bytes, std::memory_order_relaxed); }
  void send_continue();
  void disable_keep_alive();
  // The connection has to be cut: the client reads too slowly, or a stream was abandoned.
  bool aborted() const;
  bool complete() const;
  int status() const;
  const ExchangeInfo& info() const { return info_; }
  // The connection is gone: later calls of the answering side are no-ops, and on_close's callback runs if the
  // answer is incomplete.
  void client_gone();
  // The answer is sent; drops the links to session and server.
  void release();
  // Reports to the observer, once.
  void observe(int status);

 private:
  enum class State { kWaiting, kStreaming, kComplete };

  bool deaf() const { return closed_ || aborted_ || taken_over_; }
  bool has_body(int status) const;
  void put_head(int status, const Headers& headers, BodyFraming framing, size_t length);
  void put_answer(int status, const Headers& headers, std::string_view body);
  void put_error(int status, std::string_view message, Headers headers);
  void put(std::string_view bytes);
  void signal_output();
  void abort();

  ExchangeInfo info_;
  const TimePoint start_ = SteadyClock().now();
  const std::shared_ptr<TaskQueue> tasks_;
  std::atomic<bool> closed_{false};
  std::atomic<size_t> pending_{0};

  mutable std::mutex mutex_;
  std::shared_ptr<ServerContext> context_;  // null once closed or released
  std::shared_ptr<OutputSignal> signal_;    // null once closed or released
  State state_ = State::kWaiting;
  BodyFraming framing_ = BodyFraming::kNone;
  int status_ = 0;
  bool close_after_ = false;
  bool aborted_ = false;
  bool taken_over_ = false;
  bool signalled_ = false;
  std::string outbox_;
  std::function<void()> on_close_;
};

// The handle that a handler gets. Dropping the last one without a complete answer abandons the exchange, so
// that a handler's mistake costs one request and no connection hangs.
class ExchangeWriter final : public ResponseWriter {
 public:
  explicit ExchangeWriter(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeWriter() override { exchange_->abandon(); }
  ExchangeWriter(const ExchangeWriter&) = delete;
  ExchangeWriter& operator=(const ExchangeWriter&) = delete;

  void respond(int status, Headers headers, std::string body) override {
    exchange_->respond(status, headers, body);
  }
  void begin_stream(int status, Headers headers) override { exchange_->begin_stream(status, headers); }
  void write(std::string data) override { exchange_->write(data); }
  void end_stream() override { exchange_->end_stream(); }
  bool closed() const override { return exchange_->closed(); }
  size_t pending_bytes() const override { return exchange_->pending_bytes(); }
  void on_close(std::function<void()> callback) override { exchange_->on_close(std::move(callback)); }
  std::shared_ptr<Executor> executor() override { return exchange_; }

 private:
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace pagoda::net
