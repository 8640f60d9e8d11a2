// One connection: reads requests, hands them to their handlers, sends the answers in order.
#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "net/exchange.h"
#include "net/http_strict.h"
#include "net/request_parser.h"
#include "net/server_context.h"

namespace pagoda::net {

// A state machine over two chains of operations that run side by side: a read that is pending nearly always
// (so that a client that goes away is noticed while its answer is made), and a write whenever there is
// output. Everything private runs on the socket's strand.
//
//   kHead -> kBody -> kAnswering -> kHead ...    one round per request; kBody is skipped without a body
//                               \-> kLingering -> kClosed
class Session final : public OutputSignal, public std::enable_shared_from_this<Session> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // `socket`'s executor is a strand of its own.
  Session(Socket socket, std::shared_ptr<ServerContext> context);

  // The following may be called from any thread.
  void start();
  // Answers 503 without waiting for a request, then closes.
  void start_rejected();
  // Closes now if no request is under way; otherwise after its answer.
  void drain();
  // Closes now, whatever is under way.
  void abort();
  void output_ready() override;
  void take_now() override;

 private:
  enum class Phase { kHead, kBody, kAnswering, kLingering, kClosed };

  void prepare_socket();
  void begin_read();
  void on_read(const boost::system::error_code& ec, size_t count);
  void on_eof();
  // Parses as far as the bytes at hand allow, then reads on.
  void advance();
  // All three: false when more bytes are needed or an answer is under way.
  bool try_head();
  bool on_head(std::string_view head);
  bool try_body();
  void wait_for_head();
  // OPTIONS, another method than the path has, or an unknown path.
  void answer_unrouted(const RequestHead& head, const Router::Match& match);
  void dispatch();

  void begin_exchange(ExchangeInfo info);
  void begin_answering();
  // Answers with an error after which the rest of the input can't be understood. `head_bytes`: of a head that
  // was not parsed.
  void fail(const HttpFault& fault, std::string_view head_bytes = {});

  void on_output();
  void send_output();
  void begin_write();
  void on_write(const boost::system::error_code& ec, size_t count);
  void on_sent();
  void finish_exchange();
  void linger();
  void close();

  void arm(std::chrono::milliseconds timeout);
  void disarm() { deadline_.cancel(); }
  void on_deadline();
  void watch_for_hangup();
  bool peer_hung_up();

  Socket socket_;
  const boost::asio::any_io_executor strand_;
  const std::shared_ptr<ServerContext> context_;
  const std::shared_ptr<TaskQueue> tasks_;
  std::string remote_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer hangup_poll_;

  Phase phase_ = Phase::kHead;
  bool reading_ = false;
  bool writing_ = false;
  bool watching_ = false;
  bool peer_eof_ = false;
  bool head_begun_ = false;       // the header deadline runs
  bool crlf_skipped_ = false;     // an empty line before this request was forgiven
  bool output_finished_ = false;  // the exchange has nothing more to give
  bool close_after_ = false;

  std::array<char, 16384> read_buffer_;
  std::string
      input_;  // read and not parsed yet; at most the limits of a head, or kMaxPipelined while answering
  HeadScanner scanner_;
  std::unique_ptr<RequestParser> parser_;
  HttpRequest request_;
  const Handler* handler_ = nullptr;
  std::shared_ptr<Exchange> exchange_;  // from the end of a head to the last byte of its answer
  std::string sending_;
  size_t sending_offset_ = 0;
};

}  // namespace pagoda::net
