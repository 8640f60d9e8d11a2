// The files and batches of a server, in a folder of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/openai/batch_objects.h"
#include "base/result.h"
#include "net/listen_socket.h"

namespace pagoda::http {

// files/ID and files/ID.json for each file, batches/ID.json for each batch, and batches/ID.output and
// batches/ID.errors while it runs. Every change is on the disk before it is seen. IDs are made here, grow
// with time and are looked up in memory: no text of a client becomes a path. Thread-safe.
class BatchStore {
 public:
  static constexpr size_t kMaxFiles = 10000, kMaxUnfinished = 1000;
  // Of batches that have ended the oldest are forgotten beyond this; their files stay.
  static constexpr size_t kMaxBatches = 10000;

  // Makes the folder if it is not there. kInvalidArgument if another server has it open; kIo.
  static Result<std::unique_ptr<BatchStore>> open(const std::string& folder);
  BatchStore(const BatchStore&) = delete;
  BatchStore& operator=(const BatchStore&) = delete;

  // --- files ---
  Result<openai::FileObject> add_file(std::string_view content, std::string filename, std::string purpose);
  std::string new_file_id();
  // Takes over the file at `path` under the id of `file`, and sets its size. If it was taken over before, by
  // a run that ended in between, this completes it.
  Result<void> adopt_file(const std::string& path, openai::FileObject file);
  Result<openai::FileObject> file(const std::string& id) const;  // kNotFound
  // kInvalidArgument if a batch that has not ended needs it.
  Result<void> remove_file(const std::string& id);
  std::vector<openai::FileObject> files() const;  // the oldest first
  // Of a file that exists.
  std::string content_path(const std::string& id) const { return folder_ + "/files/" + id; }

  // --- batches ---
  // Gives it an id. kInvalidArgument when there is no such input file; kOverloaded beyond kMaxUnfinished.
  Result<openai::BatchObject> add_batch(openai::BatchObject batch);
  Result<openai::BatchObject> batch(const std::string& id) const;  // kNotFound
  // Makes a change, unless it gives an error; the batch as it is then.
  using Change = std::function<Result<void>(openai::BatchObject&)>;
  Result<openai::BatchObject> update_batch(const std::string& id, const Change& change);
  std::vector<openai::BatchObject> batches() const;     // the oldest first
  std::vector<std::string> unfinished_batches() const;  // ids, the oldest first
  // Where the answers are while a batch runs.
  std::string output_path(const std::string& id) const { return folder_ + "/batches/" + id + ".output"; }
  std::string errors_path(const std::string& id) const { return folder_ + "/batches/" + id + ".errors"; }

 private:
  explicit BatchStore(std::string folder) : folder_(std::move(folder)) {}

  Result<void> lock_folder();
  Result<void> load();
  void load_batch(const std::string& id);
  void load_file(const std::string& id);
  void remove_orphans();
  std::string new_id(const char* prefix);
  void forget_old_batches();
  std::string batch_path(const std::string& id) const { return folder_ + "/batches/" + id + ".json"; }

  const std::string folder_;
  net::UniqueFd lock_;
  mutable std::mutex mutex_;
  uint64_t last_stamp_ = 0;  // of the newest id
  std::map<std::string, openai::FileObject> files_;
  std::map<std::string, openai::BatchObject> batches_;
};

}  // namespace pagoda::http
