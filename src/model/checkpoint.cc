#include "model/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>

#include "model/loader/gguf_checkpoint.h"
#include "model/loader/hf_checkpoint.h"

namespace pagoda::model {

Result<Checkpoint> open_checkpoint(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return make_error(ErrorKind::kIo, fmt::format("cannot open {}: {}", path,
                                                  error ? error.message() : "no such file or folder"));
  }
  if (std::filesystem::is_directory(status)) return open_hf_checkpoint(path);
  if (path.ends_with(".safetensors") || path.ends_with(".json")) {
    return make_error(ErrorKind::kUnsupportedModel,
                      fmt::format("{} is one file of a Hugging Face model; name its folder", path));
  }
  return open_gguf_checkpoint(path);
}

}  // namespace pagoda::model
