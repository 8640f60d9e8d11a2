// Streams that have nothing to send yet are kept alive.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace pagoda::http {

class KeptStream {
 public:
  virtual ~KeptStream() = default;
  // Shows the client and all proxies between that the answer will come. False when that is no longer needed.
  virtual bool keep_alive() = 0;
};

// Clients and proxies give up on an answer whose head doesn't come within a minute or two, and then send the
// same long prompt again. The thread starts with the first stream and sleeps while none waits.
class StreamKeeper {
 public:
  // `interval` 0: keeps nothing alive.
  explicit StreamKeeper(std::chrono::milliseconds interval) : interval_(interval) {}
  ~StreamKeeper();
  StreamKeeper(const StreamKeeper&) = delete;
  StreamKeeper& operator=(const StreamKeeper&) = delete;

  // Calls keep_alive() of the stream every interval, the first time after one, while it lives and returns
  // true.
  void add(std::weak_ptr<KeptStream> stream);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Clock::time_point due;
    std::weak_ptr<KeptStream> stream;
  };
  void loop();

  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> entries_;  // the one that is due first at the front: all have the same interval
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace pagoda::http
