// What the routes of files and batches share.
#pragma once

#include <memory>
#include <string>

#include "api/http/batch_manager.h"
#include "api/http/batch_store.h"
#include "api/http/file_thread.h"
#include "base/result.h"
#include "net/http_server.h"

namespace pagoda::http {

class BatchService {
 public:
  // `server` must outlive the last request of its routes. The errors name --batch-dir.
  static Result<std::shared_ptr<BatchService>> open(const std::string& folder,
                                                    const net::HttpServer& server) {
    auto store = PAGODA_TRY(BatchStore::open(folder));
    return std::shared_ptr<BatchService>(new BatchService(std::move(store), server));
  }

  // Once the model is ready: goes on with what an earlier process left. See BatchManager.
  void start(size_t window) { manager_.start(window); }
  // Before the engine ends. The routes stay.
  void stop() { manager_.stop(); }

  BatchStore& store() { return *store_; }
  BatchManager& manager() { return manager_; }
  FileThread& files() { return files_; }

 private:
  BatchService(std::unique_ptr<BatchStore> store, const net::HttpServer& server)
      : store_(std::move(store)), manager_(*store_, server) {}

  const std::unique_ptr<BatchStore> store_;
  BatchManager manager_;
  FileThread files_;  // last: its work uses the others
};

}  // namespace pagoda::http
