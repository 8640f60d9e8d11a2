// What all sessions of a server share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "net/cors.h"
#include "net/http_server.h"
#include "net/router.h"
#include "net/task_queue.h"

namespace pagoda::net {

class Session;

// The open connections, so that they can be counted, drained and closed. Thread-safe. Owns no session.
class SessionRegistry {
 public:
  void add(const std::shared_ptr<Session>& session) {
    const std::lock_guard lock(mutex_);
    sessions_[session.get()] = session;
  }
  void remove(Session* session) {
    const std::lock_guard lock(mutex_);
    sessions_.erase(session);
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return sessions_.size();
  }
  std::vector<std::shared_ptr<Session>> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Session>> alive;
    for (const auto& [key, session] : sessions_) {
      if (auto strong = session.lock()) alive.push_back(std::move(strong));
    }
    return alive;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Session*, std::weak_ptr<Session>> sessions_;
};

struct ServerContext {
  ServerContext(HttpServerOptions server_options, ErrorBody render_error, RequestObserver request_observer)
      : options(std::move(server_options)),
        error_body(std::move(render_error)),
        observer(std::move(request_observer)),
        cors(options.allowed_origins) {}

  // Connections share the queues evenly. Null in a server that was not started.
  std::shared_ptr<TaskQueue> next_task_queue() {
    if (task_queues.empty()) return nullptr;
    return task_queues[num_sessions.fetch_add(1, std::memory_order_relaxed) % task_queues.size()];
  }

  const HttpServerOptions options;
  const ErrorBody error_body;
  const RequestObserver observer;  // may be empty
  const CorsPolicy cors;
  Router router;                                        // constant once the server runs
  std::vector<std::shared_ptr<TaskQueue>> task_queues;  // one for each I/O thread; constant like the router
  std::atomic<size_t> num_sessions{0};                  // since the start
  SessionRegistry sessions;
  std::atomic<bool> draining{false};  // no new connections; each answer is its connection's last
  std::atomic<bool> stopping{false};  // no connections at all; implies draining
  std::atomic<int> active_requests{0};
};

}  // namespace pagoda::net
