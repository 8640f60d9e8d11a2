// Where quick work runs: handing it over again and again needs no memory and never blocks.
#pragma once

#include <memory>

namespace pagoda {

// Work that is handed over as often as there is some to do.
class Task {
 public:
  virtual ~Task() = default;
  virtual void run() = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Any thread. Has `task` run soon and once, after what was posted before and never within this call. False,
  // and nothing happens, once the executor takes no more work: the caller runs it elsewhere then.
  virtual bool post(std::shared_ptr<Task> task) = 0;
};

}  // namespace pagoda
