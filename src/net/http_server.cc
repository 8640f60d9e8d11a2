#include "net/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "net/listen_socket.h"
#include "net/server_context.h"
#include "net/session.h"

namespace pagoda::net {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Beyond max_connections this many more are told so with a 503; those after them are closed without a word.
constexpr size_t kMaxRejecting = 64;
// After an accept that failed for lack of file descriptors or memory: time for some to become free.
constexpr std::chrono::milliseconds kAcceptBackOff{50};
// One warning for a burst of failed accepts.
constexpr std::chrono::seconds kAcceptWarningInterval{10};

// One listening socket. Everything runs on the acceptor's strand.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(asio::io_context& io, std::shared_ptr<ServerContext> context)
      : io_(io),
        context_(std::move(context)),
        acceptor_(asio::make_strand(io)),
        back_off_(acceptor_.get_executor()) {}

  void open(ListenSocket socket) {
    acceptor_.assign(asio::generic::stream_protocol(socket.family, 0), socket.fd.release());
    asio::post(acceptor_.get_executor(), [self = shared_from_this()] { self->accept(); });
  }

  void close() {
    asio::post(acceptor_.get_executor(), [self = shared_from_this()] {
      error_code ignored;
      self->acceptor_.close(ignored);
      self->back_off_.cancel();
    });
  }

 private:
  void accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept(asio::any_io_executor(asio::make_strand(io_)),
                           [self = shared_from_this()](const error_code& ec, Session::Socket socket) {
                             self->on_accept(ec, std::move(socket));
                           });
  }

  void on_accept(const error_code& ec, Session::Socket socket) {
    if (!acceptor_.is_open()) return;
    if (!ec) {
      start_session(std::move(socket));
      return accept();
    }
    // The peer of this one connection gave up; nothing to wait for.
    if (ec == asio::error::connection_aborted) return accept();
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_warning_) {
      next_warning_ = now + kAcceptWarningInterval;
      log::warn("cannot accept connections: {}; trying again", ec.message());
    }
    back_off_.expires_after(kAcceptBackOff);
    back_off_.async_wait([self = shared_from_this()](const error_code&) { self->accept(); });
  }

  void start_session(Session::Socket socket) {
    if (context_->draining.load()) return;
    const auto limit = static_cast<size_t>(context_->options.max_connections);
    const size_t open = context_->sessions.size();
    if (open >= limit + kMaxRejecting) return;
    const auto session = std::make_shared<Session>(std::move(socket), context_);
    context_->sessions.add(session);
    if (open >= limit) {
      session->start_rejected();
    } else {
      session->start();
    }
    // A drain or stop that began after the test above may have missed this session.
    if (context_->draining.load()) session->drain();
    if (context_->stopping.load()) session->abort();
  }

  asio::io_context& io_;
  const std::shared_ptr<ServerContext> context_;
  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor_;
  asio::steady_timer back_off_;
  std::chrono::steady_clock::time_point next_warning_{};
};

// Has what is posted to a task queue run by an I/O thread. Everything runs on the descriptor's strand.
class TaskQueueReader : public std::enable_shared_from_this<TaskQueueReader> {
 public:
  TaskQueueReader(asio::io_context& io, std::shared_ptr<TaskQueue> queue)
      : queue_(std::move(queue)), descriptor_(asio::make_strand(io)) {}
  // The queue owns the descriptor.
  ~TaskQueueReader() {
    if (descriptor_.is_open()) descriptor_.release();
  }

  void open() {
    descriptor_.assign(queue_->event_fd());
    asio::post(descriptor_.get_executor(), [self = shared_from_this()] { self->read(); });
  }

  void close() {
    asio::post(descriptor_.get_executor(), [self = shared_from_this()] {
      if (self->descriptor_.is_open()) self->descriptor_.release();
    });
  }

 private:
  void read() {
    if (!descriptor_.is_open()) return;
    descriptor_.async_read_some(asio::buffer(count_),
                                [self = shared_from_this()](const error_code& ec, size_t) {
                                  if (!ec) self->queue_->run_pending();
                                  self->read();
                                });
  }

  const std::shared_ptr<TaskQueue> queue_;
  asio::posix::stream_descriptor descriptor_;
  std::array<char, sizeof(uint64_t)> count_{};
};

// Removes the file of a Unix socket when its server ends, unless another server has put its own there.
class SocketFile {
 public:
  explicit SocketFile(std::string path) : path_(std::move(path)) {
    if (::stat(path_.c_str(), &status_) != 0) path_.clear();
  }
  ~SocketFile() {
    struct stat now {};
    if (path_.empty() || ::stat(path_.c_str(), &now) != 0) return;
    if (now.st_dev == status_.st_dev && now.st_ino == status_.st_ino) ::unlink(path_.c_str());
  }
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  std::string path_;
  struct stat status_ {};
};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, ErrorBody error_body, RequestObserver observer)
      : context_(
            std::make_shared<ServerContext>(std::move(options), std::move(error_body), std::move(observer))),
        io_(context_->options.io_threads) {
    PAGODA_CHECK(context_->options.io_threads >= 1 && context_->options.max_connections >= 1);
  }
  ~Impl() { stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ServerContext& context() { return *context_; }
  bool started() const { return !threads_.empty(); }

  Result<uint16_t> start() {
    PAGODA_CHECK(!started() && !stopped_, "start() is called once");
    std::vector<ListenSocket> sockets = PAGODA_TRY(open_sockets());
    PAGODA_TRY(open_task_queues());
    const uint16_t port = sockets.front().port;
    for (ListenSocket& socket : sockets) {
      listeners_.push_back(std::make_shared<Listener>(io_, context_));
      listeners_.back()->open(std::move(socket));
    }
    for (int i = 0; i < context_->options.io_threads; ++i) threads_.emplace_back([this] { run(); });
    return port;
  }

  void begin_drain() {
    const std::lock_guard lock(mutex_);
    if (!stopped_) drain_locked();
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    context_->stopping.store(true);
    drain_locked();
    for (const auto& session : context_->sessions.all()) session->abort();
    for (const auto& reader : readers_) reader->close();
    work_.reset();
    for (std::thread& thread : threads_) {
      PAGODA_CHECK(thread.get_id() != std::this_thread::get_id(), "stop() was called by a handler");
      thread.join();
    }
    threads_.clear();
    for (const auto& queue : context_->task_queues) queue->close();
    readers_.clear();
    listeners_.clear();
    socket_file_.reset();
  }

 private:
  Result<std::vector<ListenSocket>> open_sockets() {
    const HttpServerOptions& options = context_->options;
    if (options.uds.empty()) return listen_tcp(options.host, options.port);
    std::vector<ListenSocket> sockets;
    sockets.push_back(PAGODA_TRY(listen_unix(options.uds)));
    socket_file_.emplace(options.uds);
    return sockets;
  }

  Result<void> open_task_queues() {
    for (int i = 0; i < context_->options.io_threads; ++i) {
      context_->task_queues.push_back(PAGODA_TRY(TaskQueue::open()));
      readers_.push_back(std::make_shared<TaskQueueReader>(io_, context_->task_queues.back()));
      readers_.back()->open();
    }
    return {};
  }

  void drain_locked() {
    context_->draining.store(true);
    for (const auto& listener : listeners_) listener->close();
    for (const auto& session : context_->sessions.all()) session->drain();
  }

  void run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {
        // Out of memory, or a callback of the server's owner: the connection at hand is lost, the others live
        // on.
        log::error("an I/O thread caught: {}", error.what());
      }
    }
  }

  std::mutex mutex_;  // begin_drain() and stop()
  bool stopped_ = false;
  std::shared_ptr<ServerContext> context_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::vector<std::shared_ptr<TaskQueueReader>> readers_;
  std::optional<SocketFile> socket_file_;
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(HttpServerOptions options, ErrorBody error_body, RequestObserver observer)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(error_body), std::move(observer))) {}

HttpServer::~HttpServer() = default;

void HttpServer::route(std::string method, std::string path, Handler handler) {
  PAGODA_CHECK(!impl_->started(), "route() after start()");
  impl_->context().router.add(std::move(method), std::move(path), std::move(handler));
}

bool HttpServer::has_route(std::string_view method, std::string_view path) const {
  return impl_->context().router.find(method, path).handler != nullptr;
}

void HttpServer::dispatch(HttpRequest request, std::shared_ptr<ResponseWriter> response) const {
  const Router::Match match = impl_->context().router.find(request.method, request.path);
  if (match.handler != nullptr) return (*match.handler)(std::move(request), std::move(response));
  const int status = match.pattern.empty() ? 404 : 405;
  const char* message = status == 404 ? "There is no such route." : "This route has other methods.";
  response->respond(status, {{"Content-Type", "application/json"}},
                    impl_->context().error_body(status, message, match.pattern));
}

Result<uint16_t> HttpServer::start() {
  return impl_->start();
}
void HttpServer::begin_drain() {
  impl_->begin_drain();
}
int HttpServer::active_requests() const {
  return impl_->context().active_requests.load();
}
void HttpServer::stop() {
  impl_->stop();
}

}  // namespace pagoda::net
