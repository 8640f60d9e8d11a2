// Answers of requests that came over no connection.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "net/http_types.h"

namespace pagoda::http {

// Collects an answer, whole or streamed, and hands it over once. Thread-safe, as a ResponseWriter is.
class CollectingWriter final : public net::ResponseWriter {
 public:
  struct Answer {
    int status = 0;  // 0: the handler dropped the request without an answer, or it was closed before
    std::string body;
  };
  // Called by whoever ends the answer or drops the writer; must not call back into the writer.
  using Done = std::function<void(Answer)>;

  explicit CollectingWriter(Done done) : done_(std::move(done)) {}
  ~CollectingWriter() override;
  CollectingWriter(const CollectingWriter&) = delete;
  CollectingWriter& operator=(const CollectingWriter&) = delete;

  // As if the client had gone: what comes later is ignored, and the handler is told.
  void close();

  void respond(int status, net::Headers headers, std::string body) override;
  void begin_stream(int status, net::Headers headers) override;
  void write(std::string data) override;
  void end_stream() override;
  bool closed() const override;
  size_t pending_bytes() const override { return 0; }
  void on_close(std::function<void()> callback) override;
  std::shared_ptr<Executor> executor() override { return nullptr; }

 private:
  void finish();

  mutable std::mutex mutex_;
  Done done_;  // null once it was called
  Answer answer_;
  bool closed_ = false;
  std::function<void()> on_close_;
};

}  // namespace pagoda::http
