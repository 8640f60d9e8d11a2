#include "net/session.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <exception>

#include "base/log.h"
#include "net/ascii.h"
#include "net/listen_socket.h"
#include "net/request_id.h"

namespace pagoda::net {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

// Bytes kept of requests that a client sends before its last one is answered. Beyond, reading pauses.
constexpr size_t kMaxPipelined = size_t{64} << 10;
// How long input is read and dropped after the last answer. Closing with unread input makes the kernel send a
// reset, which can destroy an answer that the client has not read yet.
constexpr milliseconds kLingerTime{2000};
// How often a connection whose reading is paused is asked whether its client is still there.
constexpr milliseconds kHangupPoll{200};
// Dead peers (no FIN, no RST) are found after idle + count * interval = 60 s.
constexpr int kKeepAliveIdleSeconds = 30;
constexpr int kKeepAliveIntervalSeconds = 10;
constexpr int kKeepAliveCount = 3;
// Of a path quoted in an error message.
constexpr size_t kMaxQuotedPath = 128;

constexpr std::string_view kUnmatched = "unmatched";

std::string method_label(std::string_view method) {
  for (const std::string_view known : {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    if (method == known) return std::string(method);
  }
  return "OTHER";
}

// The route of a head that was refused before it was parsed.
std::string route_of(const Router& router, std::string_view head) {
  const std::string_view line = head.substr(0, head.find('\r'));
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return std::string(kUnmatched);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const Router::Match match = router.find(line.substr(0, first), split_target(target).path);
  return std::string(match.pattern.empty() ? kUnmatched : match.pattern);
}

std::string_view find_field(const Headers& headers, std::string_view name) {
  for (const auto& [field, value] : headers) {
    if (iequals(field, name)) return value;
  }
  return {};
}

}  // namespace

Session::Session(Socket socket, std::shared_ptr<ServerContext> context)
    : socket_(std::move(socket)),
      strand_(socket_.get_executor()),
      context_(std::move(context)),
      tasks_(context_->next_task_queue()),
      deadline_(strand_),
      hangup_poll_(strand_),
      scanner_(context_->options.max_header_bytes) {}

void Session::start() {
  asio::post(strand_, [self = shared_from_this()] {
    if (self->phase_ == Phase::kClosed) return;
    self->prepare_socket();
    self->advance();
  });
}

void Session::start_rejected() {
  asio::post(strand_, [self = shared_from_this()] {
    if (self->phase_ == Phase::kClosed) return;
    self->prepare_socket();
    self->fail({503, fmt::format("The server has {} connections, its limit.",
                                 self->context_->options.max_connections)});
    self->begin_read();
  });
}

void Session::drain() {
  asio::post(strand_, [self = shared_from_this()] {
    if (self->phase_ == Phase::kHead && self->input_.empty()) self->close();
  });
}

void Session::abort() {
  asio::post(strand_, [self = shared_from_this()] { self->close(); });
}

void Session::output_ready() {
  asio::post(strand_, [self = shared_from_this()] { self->on_output(); });
}

void Session::take_now() {
  asio::dispatch(strand_, [self = shared_from_this()] { self->on_output(); });
}

void Session::prepare_socket() {
  remote_ = peer_name(socket_.native_handle());
  const int fd = socket_.native_handle();
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof(value));
  };
  // On a Unix socket these fail, which does no harm.
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveCount);
}

// Reading.

void Session::begin_read() {
  if (reading_ || peer_eof_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kAnswering && input_.size() >= kMaxPipelined) return watch_for_hangup();
  reading_ = true;
  socket_.async_read_some(
      asio::buffer(read_buffer_),
      [self = shared_from_this()](const error_code& ec, size_t count) { self->on_read(ec, count); });
}

void Session::on_read(const error_code& ec, size_t count) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (ec == asio::error::eof) return on_eof();
  if (ec) return close();
  if (phase_ == Phase::kLingering) return begin_read();
  input_.append(read_buffer_.data(), count);
  advance();
}

void Session::on_eof() {
  peer_eof_ = true;
  switch (phase_) {
    case Phase::kHead:
    case Phase::kBody:
      return advance();
    case Phase::kAnswering:
      // Whether the client only stopped sending or went away can't be told apart without writing, and a
      // server that guesses the former generates for nobody. A complete answer is still sent.
      if (!exchange_->complete()) close();
      return;
    case Phase::kLingering:
      return close();
    case Phase::kClosed:
      return;
  }
}

void Session::advance() {
  bool progress = true;
  while (progress && (phase_ == Phase::kHead || phase_ == Phase::kBody)) {
    progress = phase_ == Phase::kHead ? try_head() : try_body();
  }
  begin_read();
}

bool Session::try_head() {
  // RFC 9112 section 2.2: old clients send an empty line after a body.
  if (!crlf_skipped_ && input_.starts_with("\r\n")) {
    crlf_skipped_ = true;
    input_.erase(0, 2);
  }
  if (input_.empty()) {
    if (peer_eof_ || context_->draining.load()) {
      close();
    } else {
      arm(context_->options.idle_timeout);
    }
    return false;
  }
  switch (scanner_.scan(input_)) {
    case HeadScanner::State::kNeedMore:
      wait_for_head();
      return false;
    case HeadScanner::State::kFault:
      fail(scanner_.fault());
      return false;
    case HeadScanner::State::kComplete:
      break;
  }
  disarm();
  const std::string head = input_.substr(0, scanner_.head_size());
  input_.erase(0, head.size());
  return on_head(head);
}

void Session::wait_for_head() {
  if (peer_eof_) return fail({400, "The connection ended inside the request head."});
  if (head_begun_) return;
  head_begun_ = true;
  arm(context_->options.header_timeout);
}

bool Session::on_head(std::string_view head_bytes) {
  if (const auto fault = check_head(head_bytes)) {
    fail(*fault, head_bytes);
    return false;
  }
  parser_ = std::make_unique<RequestParser>(context_->options.max_body_bytes);
  const auto fault = parser_->parse_head(head_bytes);
  const RequestHead& head = parser_->head();
  const TargetParts target = split_target(head.target);
  const Router::Match match = context_->router.find(head.method, target.path);

  ExchangeInfo info;
  info.pattern = match.pattern.empty() ? kUnmatched : match.pattern;
  info.method = method_label(head.method);
  info.request_id = choose_request_id(find_field(head.headers, "x-request-id"));
  info.cors_fields = context_->cors.answer_fields(find_field(head.headers, "origin"));
  info.http11 = head.http11;
  info.head_only = head.method == "HEAD";
  info.keep_alive = head.keep_alive;
  begin_exchange(std::move(info));
  if (fault) {
    fail(*fault);
    return false;
  }
  if (match.handler == nullptr) {
    answer_unrouted(head, match);
    return false;
  }
  handler_ = match.handler;
  request_ =
      HttpRequest{head.method, std::string(target.path),    std::string(target.query), head.headers, {},
                  remote_,     exchange_->info().request_id};
  phase_ = Phase::kBody;
  if (head.expect_continue && input_.empty()) exchange_->send_continue();
  return true;
}

void Session::answer_unrouted(const RequestHead& head, const Router::Match& match) {
  begin_answering();
  // Nobody wants the body, and skipping it could take as long as the client likes.
  if (head.has_body) exchange_->disable_keep_alive();
  const std::string_view path = split_target(head.target).path.substr(0, kMaxQuotedPath);
  if (match.pattern.empty()) {
    exchange_->respond_error(404, fmt::format("There is no {} here.", path));
  } else if (head.method == "OPTIONS") {
    Headers fields{{"Allow", match.allow}};
    const bool preflight = !exchange_->info().cors_fields.empty() &&
                           !find_field(head.headers, "access-control-request-method").empty();
    if (preflight) {
      const auto wanted = find_field(head.headers, "access-control-request-headers");
      for (auto& field : context_->cors.preflight_fields(match.allow, wanted))
        fields.push_back(std::move(field));
    }
    exchange_->respond(204, fields, {});
  } else {
    exchange_->respond_error(405, fmt::format("{} allows {}.", path, match.allow), {{"Allow", match.allow}});
  }
}

bool Session::try_body() {
  if (!parser_->done()) {
    const size_t taken = parser_->feed_body(input_);
    input_.erase(0, taken);
    if (const auto& fault = parser_->body_fault()) {
      fail(*fault);
      return false;
    }
  }
  if (parser_->done()) {
    dispatch();
    return false;
  }
  if (peer_eof_) {
    fail({400, "The connection ended inside the request body."});
  } else if (input_.size() > context_->options.max_header_bytes) {
    // The parser leaves only what it needs whole: the line of a chunk's size, or the trailer fields.
    fail({431, fmt::format("A chunk header or trailer is longer than {} bytes.",
                           context_->options.max_header_bytes)});
  } else {
    arm(context_->options.body_timeout);
  }
  return false;
}

void Session::dispatch() {
  begin_answering();
  request_.body = parser_->take_body();
  parser_.reset();
  const std::string pattern = exchange_->info().pattern;
  const auto exchange = exchange_;
  try {
    (*handler_)(std::exchange(request_, {}), std::make_shared<ExchangeWriter>(exchange));
  } catch (const std::exception& error) {
    log::error("the handler of {} failed: {}", pattern, error.what());
    exchange->abandon();
  } catch (...) {
    log::error("the handler of {} failed with an unknown exception", pattern);
    exchange->abandon();
  }
}

// Answering.

void Session::begin_exchange(ExchangeInfo info) {
  exchange_ = std::make_shared<Exchange>(std::move(info), context_, shared_from_this(), tasks_);
  output_finished_ = false;
  close_after_ = false;
}

void Session::begin_answering() {
  phase_ = Phase::kAnswering;
  if (writing_) {
    arm(context_->options.idle_timeout);  // "100 Continue" is not out yet
  } else {
    disarm();  // an answer may take as long as it needs
  }
}

void Session::fail(const HttpFault& fault, std::string_view head_bytes) {
  begin_answering();
  if (exchange_ == nullptr) {
    ExchangeInfo info;
    info.pattern = route_of(context_->router, head_bytes);
    info.method = method_label({});
    info.request_id = choose_request_id({});
    begin_exchange(std::move(info));
  }
  exchange_->disable_keep_alive();
  exchange_->respond_error(fault.status, fault.message);
}

void Session::on_output() {
  if (phase_ == Phase::kClosed || exchange_ == nullptr) return;
  if (writing_ || output_finished_) {
    if (exchange_->aborted()) close();
    return;
  }
  Exchange::Output output = exchange_->take_output(std::move(sending_));
  if (output.aborted) return close();
  output_finished_ = output.finished;
  close_after_ = output.close_after;
  sending_ = std::move(output.bytes);
  sending_offset_ = 0;
  if (!sending_.empty()) {
    send_output();
  } else if (output_finished_) {
    finish_exchange();
  }
}

// Nearly always the kernel takes all of it at once: then no deadline is needed, nor another turn of the loop.
void Session::send_output() {
  const ssize_t count =
      ::send(socket_.native_handle(), sending_.data(), sending_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return begin_write();
    return close();
  }
  exchange_->sent(static_cast<size_t>(count));
  sending_offset_ = static_cast<size_t>(count);
  if (sending_offset_ < sending_.size()) return begin_write();
  on_sent();
  // What was written since take_output() has a signal of its own.
  if (output_finished_) finish_exchange();
}

void Session::begin_write() {
  writing_ = true;
  // While a body is read the deadline belongs to the body; all that is sent then is "100 Continue".
  if (phase_ == Phase::kAnswering) arm(context_->options.idle_timeout);
  const auto rest = asio::buffer(sending_.data() + sending_offset_, sending_.size() - sending_offset_);
  socket_.async_write_some(
      rest, [self = shared_from_this()](const error_code& ec, size_t count) { self->on_write(ec, count); });
}

void Session::on_write(const error_code& ec, size_t count) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (ec) return close();
  exchange_->sent(count);
  sending_offset_ += count;
  if (sending_offset_ < sending_.size()) return begin_write();
  on_sent();
  if (output_finished_) return finish_exchange();
  on_output();
}

void Session::on_sent() {
  sending_.clear();
  if (phase_ == Phase::kAnswering) disarm();
}

void Session::finish_exchange() {
  const auto exchange = std::exchange(exchange_, nullptr);
  exchange->observe(exchange->status());
  exchange->release();
  parser_.reset();
  if (close_after_) return linger();
  scanner_.reset();
  head_begun_ = false;
  crlf_skipped_ = false;
  phase_ = Phase::kHead;
  advance();
}

void Session::linger() {
  input_.clear();
  if (peer_eof_) return close();
  phase_ = Phase::kLingering;
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  arm(kLingerTime);
  begin_read();
}

void Session::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  error_code ignored;
  if (exchange_ != nullptr) {
    // A reset tells the client that its answer is cut; a plain close would look like the end of an HTTP/1.0
    // answer.
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  }
  socket_.close(ignored);
  deadline_.cancel();
  hangup_poll_.cancel();
  context_->sessions.remove(this);
  if (const auto exchange = std::exchange(exchange_, nullptr)) {
    // 499: nginx's status for "the client closed the request", the one that dashboards know.
    exchange->observe(499);
    exchange->client_gone();
  }
}

// Time.

void Session::arm(milliseconds timeout) {
  deadline_.expires_after(timeout);
  deadline_.async_wait([self = shared_from_this()](const error_code& ec) {
    // A deadline that was moved while its handler was already queued has not passed.
    if (!ec && self->deadline_.expiry() <= std::chrono::steady_clock::now()) self->on_deadline();
  });
}

void Session::on_deadline() {
  switch (phase_) {
    case Phase::kHead:
      if (input_.empty()) return close();
      fail({408, "The request head did not arrive in time."});
      return;
    case Phase::kBody:
      return fail({408, "The request body did not arrive in time."});
    case Phase::kAnswering:  // the client takes nothing of its answer
    case Phase::kLingering:
      return close();
    case Phase::kClosed:
      return;
  }
}

void Session::watch_for_hangup() {
  if (watching_) return;
  watching_ = true;
  hangup_poll_.expires_after(kHangupPoll);
  hangup_poll_.async_wait([self = shared_from_this()](const error_code& ec) {
    self->watching_ = false;
    if (ec || self->phase_ != Phase::kAnswering) return;
    if (self->peer_hung_up() && !self->exchange_->complete()) return self->close();
    self->begin_read();
  });
}

bool Session::peer_hung_up() {
  pollfd query{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&query, 1, 0) > 0 && (query.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace pagoda::net
