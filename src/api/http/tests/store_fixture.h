// A folder of files and batches that goes with the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include "api/http/batch_store.h"

namespace pagoda::http {

class StoreFixture : public ::testing::Test {
 protected:
  StoreFixture() {
    dir_ = std::filesystem::temp_directory_path() / ("pagoda_store_" + std::to_string(getpid()));
    std::filesystem::remove_all(dir_);
    open();
  }
  ~StoreFixture() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }

  // As a server that starts anew on the folder.
  void open() {
    store_.reset();
    auto store = BatchStore::open(dir_);
    ASSERT_TRUE(store) << store.error().message;
    store_ = *std::move(store);
  }
  openai::FileObject add_file(const std::string& content, const std::string& purpose = "batch") {
    auto file = store_->add_file(content, "in.jsonl", purpose);
    EXPECT_TRUE(file) << file.error().message;
    return file ? *file : openai::FileObject();
  }
  openai::BatchObject add_batch(const std::string& file_id) {
    openai::BatchObject batch;
    batch.endpoint = "/v1/echo";
    batch.input_file_id = file_id;
    batch.completion_window = "24h";
    batch.created_at = 5;
    auto added = store_->add_batch(batch);
    EXPECT_TRUE(added) << added.error().message;
    return added ? *added : batch;
  }
  template <class Change>
  openai::BatchObject change(const std::string& id, Change make) {
    auto changed = store_->update_batch(id, [&](openai::BatchObject& batch) -> Result<void> {
      make(batch);
      return {};
    });
    EXPECT_TRUE(changed) << changed.error().message;
    return changed ? *changed : openai::BatchObject();
  }
  void set_status(const std::string& id, openai::BatchStatus status) {
    change(id, [&](openai::BatchObject& batch) { batch.status = status; });
  }

  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::set<std::string> names(const std::string& folder) const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / folder)) {
      found.insert(entry.path().filename());
    }
    return found;
  }
  std::string path(const std::string& name) const { return dir_ / name; }

  std::filesystem::path dir_;
  std::unique_ptr<BatchStore> store_;
};

// While it lives no file can grow beyond `bytes`, as if the disk were full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  using Handler = void (*)(int);
  const Handler handler_;
  rlimit before_{};
};

}  // namespace pagoda::http
