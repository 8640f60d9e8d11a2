#include "cli/signals.h"

#include <pthread.h>
#include <signal.h>

#include <cstdlib>

namespace pagoda::cli {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR2);  // wakes the thread up for its end
  return set;
}

}  // namespace

SignalWatcher::SignalWatcher() {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error code, not the end
  thread_ = std::thread([this] { watch(); });
}

SignalWatcher::~SignalWatcher() {
  stop_.store(true);
  pthread_kill(thread_.native_handle(), SIGUSR2);
  thread_.join();
}

void SignalWatcher::set_interruptible(bool value) {
  interruptible_.store(value);
}

void SignalWatcher::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return signalled_; });
}

bool SignalWatcher::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return signalled_; });
}

void SignalWatcher::watch() {
  const sigset_t set = watched_signals();
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    if (stop_.load()) return;
    if (number == SIGUSR2) continue;
    if (interruptible_.load()) std::_Exit(0);
    const std::lock_guard lock(mutex_);
    if (signalled_) std::_Exit(0);
    signalled_ = true;
    changed_.notify_all();
  }
}

}  // namespace pagoda::cli
