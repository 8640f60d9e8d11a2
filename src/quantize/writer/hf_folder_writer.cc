#include "quantize/writer/hf_folder_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/loader/json_file.h"
#include "model/loader/safetensors_file.h"
#include "quantize/writer/hf_config.h"
#include "quantize/writer/output_file.h"
#include "quantize/writer/safetensors_writer.h"

namespace pagoda::quantize {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kScratchPrefix = "quantize-scratch-";
constexpr const char* kStateFile = "/quantize-state.json";

Error file_error(std::string_view what, const std::string& path, const std::string& reason) {
  return make_error(ErrorKind::kIo, fmt::format("cannot {} {}: {}", what, path, reason));
}

// "/a/b/" and "/a/b" name the same folder.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// What the result depends on: another model or other options must not go on with the files of this one.
std::string state_text(const model::Checkpoint& checkpoint, const std::string& key) {
  Json state;
  state["options"] = key;
  for (const model::ModelFile& file : checkpoint.files) {
    state["files"].push_back({{"path", fs::absolute(file.path).lexically_normal().string()},
                              {"bytes", file.bytes},
                              {"modified_ns", file.modified_ns}});
  }
  return state.dump(1) + "\n";
}

// Files beside the weights that belong to a model, and not to its old format.
bool is_copied(const fs::path& path) {
  constexpr std::array<std::string_view, 6> kOwn = {"config.json",         "quantize_config.json",
                                                    "quant_config.json",   "model.safetensors.index.json",
                                                    "quantize-state.json", "pytorch_model.bin.index.json"};
  constexpr std::array<std::string_view, 4> kKinds = {".json", ".jinja", ".txt", ".model"};
  const std::string name = path.filename().string(), kind = path.extension().string();
  if (std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end()) return false;
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end() || name.starts_with("LICENSE") ||
         name.starts_with("NOTICE");
}

}  // namespace

HfFolderWriter::HfFolderWriter(std::string out, const model::Checkpoint& checkpoint)
    : out_(std::move(out)),
      partial_(out_ + ".partial"),
      checkpoint_(&checkpoint),
      num_parts_(checkpoint.config.num_layers + 1) {}

HfFolderWriter::HfFolderWriter(HfFolderWriter&& other) noexcept
    : out_(std::move(other.out_)),
      partial_(std::move(other.partial_)),
      checkpoint_(other.checkpoint_),
      num_parts_(other.num_parts_),
      lock_fd_(std::exchange(other.lock_fd_, -1)) {}

HfFolderWriter::~HfFolderWriter() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

Result<HfFolderWriter> HfFolderWriter::open(const std::string& out, const model::Checkpoint& checkpoint,
                                            const std::string& key) {
  HfFolderWriter writer(without_slash(out), checkpoint);
  std::error_code error;
  if (fs::exists(fs::symlink_status(writer.out_, error))) {
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("{} exists already; name a new folder", writer.out_));
  }
  fs::create_directory(writer.partial_, error);
  if (error) return file_error("create", writer.partial_, error.message());
  PAGODA_TRY(writer.lock(state_text(checkpoint, key)));
  return writer;
}

Result<void> HfFolderWriter::lock(const std::string& state) {
  const std::string path = partial_ + kStateFile;
  lock_fd_ = ::open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_fd_ < 0) return file_error("open", partial_, std::strerror(errno));
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    return make_error(ErrorKind::kInvalidArgument,
                      fmt::format("{} is being written by another run", partial_));
  }
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    if (!fs::is_empty(partial_, ignored)) {
      return make_error(ErrorKind::kInvalidArgument,
                        fmt::format("{} is there, but no earlier run left it; remove it", partial_));
    }
    return write_text_file(path, state);
  }
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  if (PAGODA_TRY(model::read_text_file(path, kMaxBytes)) == state) return {};
  return make_error(
      ErrorKind::kInvalidArgument,
      fmt::format("{} was left by a run of another model or with other options; remove it", partial_));
}

std::string HfFolderWriter::part_path(int part) const {
  return fmt::format("{}/model-{:05}-of-{:05}.safetensors", partial_, part + 1, num_parts_);
}

bool HfFolderWriter::has_part(int part) const {
  std::error_code ignored;
  return fs::exists(part_path(part), ignored);
}

std::string HfFolderWriter::scratch_path(const std::string& name) const {
  return fmt::format("{}/{}{}", partial_, kScratchPrefix, name);
}

void HfFolderWriter::remove_scratch() const {
  std::error_code ignored;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(partial_, ignored)) {
    if (entry.path().filename().string().starts_with(kScratchPrefix)) paths.push_back(entry.path());
  }
  for (const fs::path& path : paths) fs::remove(path, ignored);
}

Result<void> HfFolderWriter::write_part(int part, std::vector<OutTensor> tensors) {
  for (OutTensor& tensor : tensors) tensor.name = stored_name(checkpoint_->config, std::move(tensor.name));
  const auto width = [](const OutTensor& tensor) {
    return tensor.dtype == "I8" ? 1 : tensor.dtype == "I32" || tensor.dtype == "F32" ? 4 : 2;
  };
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const OutTensor& a, const OutTensor& b) { return width(a) > width(b); });
  return write_safetensors(part_path(part), tensors);
}

Result<void> HfFolderWriter::write_index() const {
  uint64_t bytes = 0;
  Json map = Json::object();
  for (int part = 0; part < num_parts_; ++part) {
    const std::string path = part_path(part);
    const auto file = PAGODA_TRY(model::SafetensorsFile::open(path));
    for (const model::SafetensorsTensor& tensor : file.tensors()) {
      bytes += tensor.data.size();
      map[tensor.name] = fs::path(path).filename().string();
    }
  }
  const Json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  return write_text_file(partial_ + "/model.safetensors.index.json", index.dump(1) + "\n");
}

Result<void> HfFolderWriter::copy_files() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint_->path, error)) {
    if (!entry.is_regular_file(error) || !is_copied(entry.path())) continue;
    constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
    const std::string text = PAGODA_TRY(model::read_text_file(entry.path().string(), kMaxBytes));
    PAGODA_TRY(write_text_file(partial_ + "/" + entry.path().filename().string(), text));
  }
  if (error) return file_error("read", checkpoint_->path, error.message());
  return {};
}

Result<void> HfFolderWriter::write_texts(const Options& options, const std::string& dtype) const {
  const auto write = [&](const char* name, const Json& json) {
    return write_text_file(partial_ + name, json.dump(2) + "\n");
  };
  const Json config = PAGODA_TRY(quantized_config(*checkpoint_, options, dtype));
  PAGODA_TRY(write("/config.json", config));
  std::error_code ignored;
  if (fs::is_directory(checkpoint_->path, ignored)) return copy_files();
  PAGODA_TRY(write("/generation_config.json", generation_config(*checkpoint_)));
  if (checkpoint_->tokenizer_json.empty()) return {};
  PAGODA_TRY(write_text_file(partial_ + "/tokenizer.json", checkpoint_->tokenizer_json));
  PAGODA_TRY(write("/tokenizer_config.json", tokenizer_config(*checkpoint_)));
  if (checkpoint_->chat_template.empty()) return {};
  return write_text_file(partial_ + "/chat_template.jinja", checkpoint_->chat_template);
}

Result<void> HfFolderWriter::finish(const Options& options, const std::string& dtype) {
  PAGODA_TRY(write_index());
  PAGODA_TRY(write_texts(options, dtype));
  remove_scratch();
  PAGODA_TRY(sync_folder(partial_));
  std::error_code error;
  fs::rename(partial_, out_, error);
  if (error) return file_error("rename", partial_, error.message());
  fs::remove(out_ + kStateFile, error);
  return {};
}

}  // namespace pagoda::quantize
