#include "api/http/batch_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <set>
#include <utility>

#include "api/http/api_state.h"
#include "api/http/disk_files.h"
#include "base/log.h"
#include "base/rng.h"

namespace pagoda::http {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFilePrefix = "file-", kBatchPrefix = "batch_", kMetaSuffix = ".json";

// An id is a prefix, the milliseconds of its making and random digits.
constexpr size_t kStampDigits = 12, kIdDigits = 32;

bool is_id(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix) || text.size() != prefix.size() + kIdDigits) return false;
  return text.find_first_not_of("0123456789abcdef", prefix.size()) == std::string_view::npos;
}

uint64_t stamp_of(std::string_view id) {
  const std::string_view digits = id.substr(id.size() - kIdDigits, kStampDigits);
  uint64_t stamp = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), stamp, 16);
  return stamp;
}

uint64_t now_milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

bool exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

Error unknown(const char* what, const std::string& id) {
  return make_error(ErrorKind::kNotFound, fmt::format("There is no {} '{}'.", what, id), "id");
}

std::set<std::string> list_folder(const std::string& folder) {
  std::set<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    names.insert(entry->path().filename());
  }
  if (failure) log::error("{}: {}", folder, failure.message());
  return names;
}

std::string without_suffix(std::string_view name, std::string_view suffix) {
  return name.ends_with(suffix) ? std::string(name.substr(0, name.size() - suffix.size())) : std::string();
}

}  // namespace

Result<std::unique_ptr<BatchStore>> BatchStore::open(const std::string& folder) {
  std::unique_ptr<BatchStore> store(new BatchStore(folder));
  for (const char* part : {"/files", "/batches"}) {
    std::error_code failure;
    fs::create_directories(folder + part, failure);
    if (failure) {
      return make_error(ErrorKind::kIo, fmt::format("--batch-dir: {}{}: {}", folder, part, failure.message()),
                        "--batch-dir");
    }
    // Prompts and answers are for the user of the server alone.
    fs::permissions(folder + part, fs::perms::owner_all, failure);
  }
  PAGODA_TRY(store->lock_folder());
  PAGODA_TRY(store->load());
  return store;
}

Result<void> BatchStore::lock_folder() {
  const std::string path = folder_ + "/lock";
  lock_ = net::UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock_.get() < 0) return disk_error("--batch-dir can't be used", path);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("--batch-dir: another server uses {}", folder_), "--batch-dir");
  }
  return {};
}

Result<void> BatchStore::load() {
  for (const std::string& name : list_folder(folder_ + "/batches")) {
    if (is_id(without_suffix(name, kMetaSuffix), kBatchPrefix)) load_batch(without_suffix(name, kMetaSuffix));
  }
  for (const std::string& name : list_folder(folder_ + "/files")) {
    if (is_id(without_suffix(name, kMetaSuffix), kFilePrefix)) load_file(without_suffix(name, kMetaSuffix));
  }
  remove_orphans();
  return {};
}

void BatchStore::load_batch(const std::string& id) {
  const auto text = read_file(batch_path(id));
  auto batch = text ? openai::parse_batch_object(*text) : std::nullopt;
  const auto is_file = [](const std::string& file) { return is_id(file, kFilePrefix); };
  const auto may_be_file = [&](const std::string& file) { return file.empty() || is_file(file); };
  if (!batch || batch->id != id || !is_file(batch->input_file_id) || !may_be_file(batch->output_file_id) ||
      !may_be_file(batch->error_file_id)) {
    log::error("{} describes no batch and is left alone", batch_path(id));
    return;
  }
  last_stamp_ = std::max(last_stamp_, stamp_of(id));
  batches_.emplace(id, std::move(*batch));
}

void BatchStore::load_file(const std::string& id) {
  const std::string path = content_path(id) + std::string(kMetaSuffix);
  const auto text = read_file(path);
  auto file = text ? openai::parse_file_object(*text) : std::nullopt;
  if (!file || file->id != id || !exists(content_path(id))) {
    log::error("{} describes no file and is left alone", path);
    return;
  }
  last_stamp_ = std::max(last_stamp_, stamp_of(id));
  files_.emplace(id, std::move(*file));
}

// A server that is killed while it writes leaves parts of files, and contents that nothing describes yet.
void BatchStore::remove_orphans() {
  std::set<std::string> named;  // by batches, which will describe them
  for (const auto& [id, batch] : batches_) {
    if (!openai::is_final(batch.status)) named.insert({batch.output_file_id, batch.error_file_id});
  }
  const auto remove = [](const std::string& path) {
    log::warn("{} was not written to its end and is removed", path);
    ::unlink(path.c_str());
  };
  for (const auto& [folder, prefix] : {std::pair("/files/", kFilePrefix), {"/batches/", kBatchPrefix}}) {
    for (const std::string& name : list_folder(folder_ + folder)) {
      const std::string whole = without_suffix(name, kPartSuffix);
      if (is_id(whole, prefix) || is_id(without_suffix(whole, kMetaSuffix), prefix)) {
        remove(folder_ + folder + name);
      }
    }
  }
  for (const std::string& name : list_folder(folder_ + "/files")) {
    if (is_id(name, kFilePrefix) && !named.contains(name) && !exists(content_path(name) + ".json")) {
      remove(content_path(name));
    }
  }
}

// Strictly growing, so that the order of ids is that of their making, after a restart and with a clock that
// was set back, too.
std::string BatchStore::new_id(const char* prefix) {
  last_stamp_ = std::max(last_stamp_ + 1, now_milliseconds());
  return fmt::format("{}{:012x}{:016x}{:04x}", prefix, last_stamp_, random_seed(), random_seed() & 0xFFFF);
}

std::string BatchStore::new_file_id() {
  const std::lock_guard lock(mutex_);
  return new_id("file-");
}

Result<openai::FileObject> BatchStore::add_file(std::string_view content, std::string filename,
                                                std::string purpose) {
  const std::lock_guard lock(mutex_);
  if (files_.size() >= kMaxFiles) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("The server keeps {} files, which is its limit; delete some first.", files_.size()),
        "file");
  }
  openai::FileObject file;
  file.id = new_id("file-");
  file.filename = std::move(filename);
  file.purpose = std::move(purpose);
  file.bytes = static_cast<int64_t>(content.size());
  file.created_at = unix_seconds();
  PAGODA_TRY(write_file(content_path(file.id), content));
  if (auto written = write_file(content_path(file.id) + ".json", openai::file_json(file)); !written) {
    ::unlink(content_path(file.id).c_str());
    return written.error();
  }
  files_.emplace(file.id, file);
  return file;
}

Result<void> BatchStore::adopt_file(const std::string& path, openai::FileObject file) {
  const std::lock_guard lock(mutex_);
  const std::string content = content_path(file.id);
  if (exists(path)) PAGODA_TRY(move_file(path, content));
  struct stat info {};
  if (stat(content.c_str(), &info) != 0) return disk_error("The file can't be read", content);
  file.bytes = static_cast<int64_t>(info.st_size);
  PAGODA_TRY(write_file(content + ".json", openai::file_json(file)));
  files_.insert_or_assign(file.id, std::move(file));
  return {};
}

Result<openai::FileObject> BatchStore::file(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end()) return unknown("file", id);
  return found->second;
}

Result<void> BatchStore::remove_file(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (!files_.contains(id)) return unknown("file", id);
  for (const auto& [batch_id, batch] : batches_) {
    if (batch.input_file_id == id && !openai::is_final(batch.status)) {
      return make_error(ErrorKind::kInvalidArgument,
                        fmt::format("The file '{}' is the input of '{}', which is {}: cancel it first.", id,
                                    batch_id, openai::batch_status_name(batch.status)),
                        "id", "file_in_use");
    }
  }
  // The description first: contents without one are removed at the next start.
  for (const std::string& path : {content_path(id) + ".json", content_path(id)}) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return disk_error("The file can't be removed", path);
  }
  files_.erase(id);
  return {};
}

std::vector<openai::FileObject> BatchStore::files() const {
  const std::lock_guard lock(mutex_);
  std::vector<openai::FileObject> all;
  for (const auto& [id, file] : files_) all.push_back(file);
  return all;
}

void BatchStore::forget_old_batches() {
  for (auto batch = batches_.begin(); batches_.size() > kMaxBatches && batch != batches_.end();) {
    if (openai::is_final(batch->second.status)) {
      ::unlink(batch_path(batch->first).c_str());
      batch = batches_.erase(batch);
    } else {
      ++batch;
    }
  }
}

Result<openai::BatchObject> BatchStore::add_batch(openai::BatchObject batch) {
  const std::lock_guard lock(mutex_);
  if (!files_.contains(batch.input_file_id)) {
    return make_error(ErrorKind::kInvalidArgument, fmt::format("There is no file '{}'.", batch.input_file_id),
                      "input_file_id");
  }
  const auto unfinished = std::count_if(batches_.begin(), batches_.end(),
                                        [](const auto& b) { return !openai::is_final(b.second.status); });
  if (static_cast<size_t>(unfinished) >= kMaxUnfinished) {
    return make_error(ErrorKind::kOverloaded,
                      fmt::format("{} batches wait, which is the limit.", unfinished));
  }
  batch.id = new_id("batch_");
  PAGODA_TRY(write_file(batch_path(batch.id), openai::batch_json(batch)));
  batches_.emplace(batch.id, batch);
  forget_old_batches();
  return batch;
}

Result<openai::BatchObject> BatchStore::batch(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(id);
  if (found == batches_.end()) return unknown("batch", id);
  return found->second;
}

Result<openai::BatchObject> BatchStore::update_batch(const std::string& id, const Change& change) {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(id);
  if (found == batches_.end()) return unknown("batch", id);
  openai::BatchObject changed = found->second;
  PAGODA_TRY(change(changed));
  PAGODA_TRY(write_file(batch_path(id), openai::batch_json(changed)));
  found->second = changed;
  return changed;
}

std::vector<openai::BatchObject> BatchStore::batches() const {
  const std::lock_guard lock(mutex_);
  std::vector<openai::BatchObject> all;
  for (const auto& [id, batch] : batches_) all.push_back(batch);
  return all;
}

std::vector<std::string> BatchStore::unfinished_batches() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, batch] : batches_) {
    if (!openai::is_final(batch.status)) ids.push_back(id);
  }
  return ids;
}

}  // namespace pagoda::http
