// A ResponseWriter that keeps what it is given.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "net/http_types.h"

namespace pagoda::http {

class RecordingWriter final : public net::ResponseWriter {
 public:
  void respond(int code, net::Headers fields, std::string text) override {
    const std::lock_guard lock(mutex);
    ++answers;
    status = code;
    headers = std::move(fields);
    body = std::move(text);
    ended = true;
  }
  void begin_stream(int code, net::Headers fields) override {
    const std::lock_guard lock(mutex);
    ++answers;
    status = code;
    headers = std::move(fields);
  }
  void write(std::string data) override {
    const std::lock_guard lock(mutex);
    body += data;
    ++writes;
  }
  void end_stream() override {
    const std::lock_guard lock(mutex);
    ended = true;
  }
  bool closed() const override { return false; }
  size_t pending_bytes() const override { return 0; }
  void on_close(std::function<void()> callback) override { close = std::move(callback); }
  std::shared_ptr<Executor> executor() override { return tasks; }

  std::string header(const std::string& name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }

  std::mutex mutex;
  int status = 0, answers = 0, writes = 0;
  net::Headers headers;
  std::string body;
  bool ended = false;
  std::function<void()> close;
  std::shared_ptr<Executor> tasks;
};

}  // namespace pagoda::http
