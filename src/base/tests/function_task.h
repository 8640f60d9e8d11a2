// A Task made of a function.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/executor.h"

namespace pagoda {

class FunctionTask final : public Task {
 public:
  explicit FunctionTask(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  std::function<void()> work_;
};

inline std::shared_ptr<Task> task(std::function<void()> work) {
  return std::make_shared<FunctionTask>(std::move(work));
}

}  // namespace pagoda
