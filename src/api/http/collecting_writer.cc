#include "api/http/collecting_writer.h"

#include <utility>

namespace pagoda::http {

CollectingWriter::~CollectingWriter() {
  if (done_) done_({});
}

void CollectingWriter::finish() {
  Done done;
  Answer answer;
  std::function<void()> dropped;  // destroyed without the lock: it may own whatever its maker captured
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    done.swap(done_);
    dropped.swap(on_close_);
    answer = std::move(answer_);
  }
  if (done) done(std::move(answer));
}

void CollectingWriter::close() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !done_) return;
    closed_ = true;
    callback.swap(on_close_);
  }
  if (callback) callback();
}

void CollectingWriter::respond(int status, net::Headers, std::string body) {
  {
    const std::lock_guard lock(mutex_);
    answer_ = {status, std::move(body)};
  }
  finish();
}

void CollectingWriter::begin_stream(int status, net::Headers) {
  const std::lock_guard lock(mutex_);
  answer_.status = status;
}

void CollectingWriter::write(std::string data) {
  const std::lock_guard lock(mutex_);
  answer_.body += data;
}

void CollectingWriter::end_stream() {
  finish();
}

bool CollectingWriter::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void CollectingWriter::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!done_) return;
    if (!closed_) {
      on_close_ = std::move(callback);
      return;
    }
  }
  callback();
}

}  // namespace pagoda::http
