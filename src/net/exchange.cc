#include "net/exchange.h"

#include <ctime>

#include "base/check.h"
#include "net/ascii.h"
#include "net/task_queue.h"

namespace pagoda::net {
namespace {

// An event of a stream has some hundred bytes; what a large answer took is given back.
constexpr size_t kMaxRecycledBytes = size_t{64} << 10;

}  // namespace

Exchange::Exchange(ExchangeInfo info, std::shared_ptr<ServerContext> context,
                   std::shared_ptr<OutputSignal> signal, std::shared_ptr<TaskQueue> tasks)
    : info_(std::move(info)),
      tasks_(std::move(tasks)),
      context_(std::move(context)),
      signal_(std::move(signal)) {
  context_->active_requests.fetch_add(1);
}

bool Exchange::has_body(int status) const {
  return !info_.head_only && status >= 200 && status != 204 && status != 304;
}

void Exchange::put(std::string_view bytes) {
  outbox_.append(bytes);
  pending_.fetch_add(bytes.size(), std::memory_order_relaxed);
}

void Exchange::signal_output() {
  if (signalled_) return;
  signalled_ = true;
  signal_->output_ready();
}

void Exchange::abort() {
  aborted_ = true;
  // Also when a signal is under way: the session ignores that one while it waits for a slow socket.
  signal_->output_ready();
}

void Exchange::put_head(int status, const Headers& headers, BodyFraming framing, size_t length) {
  bool keep_alive = info_.keep_alive && !context_->draining.load() && framing != BodyFraming::kUntilClose;
  Headers fields = headers;
  for (const auto& [name, value] : headers) {
    if (iequals(name, "connection") && iequals(value, "close")) keep_alive = false;
  }
  fields.insert(fields.end(), info_.cors_fields.begin(), info_.cors_fields.end());
  if (status < 200 || status == 204 || status == 304) framing = BodyFraming::kNone;
  status_ = status;
  framing_ = framing;
  close_after_ = !keep_alive;
  put(format_response_head({.status = status,
                            .request_id = info_.request_id,
                            .framing = framing,
                            .content_length = length,
                            .http11 = info_.http11,
                            .keep_alive = keep_alive},
                           fields, std::time(nullptr)));
}

void Exchange::put_answer(int status, const Headers& headers, std::string_view body) {
  put_head(status, headers, BodyFraming::kLength, body.size());
  if (has_body(status)) put(body);
  state_ = State::kComplete;
  signal_output();
}

void Exchange::put_error(int status, std::string_view message, Headers headers) {
  headers.emplace_back("Content-Type", "application/json");
  put_answer(status, headers, context_->error_body(status, message, info_.pattern));
}

void Exchange::respond(int status, const Headers& headers, std::string_view body) {
  std::function<void()> dropped;  // destroyed without the lock: it may own whatever its maker captured
  const std::lock_guard lock(mutex_);
  if (deaf()) return;
  PAGODA_CHECK(state_ == State::kWaiting, "respond() after respond() or begin_stream(), {}", info_.pattern);
  dropped.swap(on_close_);
  put_answer(status, headers, body);
}

void Exchange::respond_error(int status, std::string_view message, Headers headers) {
  const std::lock_guard lock(mutex_);
  if (deaf()) return;
  PAGODA_CHECK(state_ == State::kWaiting);
  put_error(status, message, std::move(headers));
}

void Exchange::begin_stream(int status, const Headers& headers) {
  const std::lock_guard lock(mutex_);
  if (deaf()) return;
  PAGODA_CHECK(state_ == State::kWaiting, "begin_stream() after respond() or begin_stream(), {}",
               info_.pattern);
  put_head(status, headers, info_.http11 ? BodyFraming::kChunked : BodyFraming::kUntilClose, 0);
  state_ = State::kStreaming;
  signal_output();
}

void Exchange::write(std::string_view data) {
  const std::lock_guard lock(mutex_);
  if (deaf()) return;
  PAGODA_CHECK(state_ == State::kStreaming, "write() outside of begin_stream() and end_stream(), {}",
               info_.pattern);
  if (data.empty() || !has_body(status_)) return;
  // Judged by what earlier writes left behind, so that one large event is no reason to cut a client that
  // reads.
  if (pending_bytes() > context_->options.max_pending_bytes) return abort();
  if (framing_ == BodyFraming::kChunked) {
    const size_t before = outbox_.size();
    append_chunk(outbox_, data);
    pending_.fetch_add(outbox_.size() - before, std::memory_order_relaxed);
  } else {
    put(data);
  }
  signal_output();
}

void Exchange::end_stream() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (deaf()) return;
  PAGODA_CHECK(state_ == State::kStreaming, "end_stream() without begin_stream(), {}", info_.pattern);
  dropped.swap(on_close_);
  if (framing_ == BodyFraming::kChunked && has_body(status_)) put(kLastChunk);
  state_ = State::kComplete;
  signal_output();
}

void Exchange::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kComplete || taken_over_) return;
    if (!closed_) {
      on_close_ = std::move(callback);
      return;
    }
  }
  callback();
}

bool Exchange::post(std::shared_ptr<Task> task) {
  return tasks_ != nullptr && !closed() && tasks_->post(shared_from_this(), std::move(task));
}

void Exchange::run(Task& task) {
  {
    // Writes find a signal under way: the one below.
    const std::lock_guard lock(mutex_);
    signalled_ = true;
  }
  const auto take_now = [this] {
    std::shared_ptr<OutputSignal> signal;
    {
      const std::lock_guard lock(mutex_);
      signal = signal_;
    }
    if (signal != nullptr) signal->take_now();
  };
  try {
    task.run();
  } catch (...) {
    take_now();
    throw;
  }
  take_now();
}

void Exchange::abandon() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (deaf() || state_ == State::kComplete) return;
  dropped.swap(on_close_);
  if (state_ == State::kWaiting) {
    put_error(500, "The server failed to answer this request.", {});
  } else {
    abort();
  }
  taken_over_ = true;
}

Exchange::Output Exchange::take_output(std::string recycled) {
  Output output;
  if (recycled.capacity() <= kMaxRecycledBytes) output.bytes = std::move(recycled);
  output.bytes.clear();
  const std::lock_guard lock(mutex_);
  signalled_ = false;
  output.bytes.swap(outbox_);
  output.finished = state_ == State::kComplete;
  output.close_after = close_after_;
  output.aborted = aborted_;
  return output;
}

void Exchange::send_continue() {
  const std::lock_guard lock(mutex_);
  put("HTTP/1.1 100 Continue\r\n\r\n");
  signal_output();
}

void Exchange::disable_keep_alive() {
  const std::lock_guard lock(mutex_);
  info_.keep_alive = false;
}

bool Exchange::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

bool Exchange::complete() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kComplete;
}

int Exchange::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void Exchange::client_gone() {
  std::function<void()> callback;
  std::shared_ptr<ServerContext> context;
  std::shared_ptr<OutputSignal> signal;
  {
    const std::lock_guard lock(mutex_);
    closed_.store(true, std::memory_order_release);
    if (state_ != State::kComplete) callback.swap(on_close_);
    context.swap(context_);
    signal.swap(signal_);
  }
  if (callback) callback();
}

void Exchange::release() {
  std::shared_ptr<ServerContext> context;
  std::shared_ptr<OutputSignal> signal;
  const std::lock_guard lock(mutex_);
  context.swap(context_);
  signal.swap(signal_);
}

void Exchange::observe(int status) {
  std::shared_ptr<ServerContext> context;
  {
    const std::lock_guard lock(mutex_);
    context = context_;
  }
  if (context == nullptr) return;
  if (context->observer) {
    context->observer(info_.pattern, info_.method, status, to_seconds(SteadyClock().now() - start_));
  }
  context->active_requests.fetch_sub(1);
}

}  // namespace pagoda::net
