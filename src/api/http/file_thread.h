// A thread for work that waits for the disk, so that none does that serves streams.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace pagoda::http {

class FileThread {
 public:
  // False: there is more to do; it is called again, soon.
  using Work = std::function<bool()>;

  FileThread();
  // Runs what was posted; drops what wants to be called again.
  ~FileThread();
  FileThread(const FileThread&) = delete;
  FileThread& operator=(const FileThread&) = delete;

  void post(Work work);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> posted_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pagoda::http
