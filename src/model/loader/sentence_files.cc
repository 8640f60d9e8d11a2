#include "model/loader/sentence_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/loader/file_error.h"
#include "model/loader/json_file.h"

namespace pagoda::model {
namespace {

constexpr uint64_t kMaxModulesBytes = uint64_t{1} << 20;

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Result<Pooling> read_pooling(const std::string& path) {
  const nlohmann::json root = PAGODA_TRY(read_json_object(path));
  const JsonView json(root, path);
  std::optional<Pooling> pooling;
  const struct {
    const char* key;
    Pooling pooling;
  } known[] = {{"pooling_mode_cls_token", Pooling::kCls},
               {"pooling_mode_mean_tokens", Pooling::kMean},
               {"pooling_mode_lasttoken", Pooling::kLast}};
  for (const auto& mode : known) {
    if (!PAGODA_TRY(json.boolean(mode.key)).value_or(false)) continue;
    if (pooling) return unsupported_model(path, "several ways of pooling at once can't be run");
    pooling = mode.pooling;
  }
  for (const char* const key :
       {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"}) {
    if (PAGODA_TRY(json.boolean(key)).value_or(false)) {
      return unsupported_model(path, "key '{}' can't be run; cls, mean and last token can", key);
    }
  }
  if (!pooling) return corrupt_file(path, "names no way of pooling");
  return *pooling;
}

Result<void> read_module(const std::string& folder, const JsonView& module, SentenceFiles& files) {
  const std::string type = PAGODA_TRY(module.string("type")).value_or("");
  if (type.ends_with(".Transformer")) return {};
  if (type.ends_with(".Normalize")) {
    files.normalize = true;
    return {};
  }
  if (!type.ends_with(".Pooling")) {
    return unsupported_model(module.where(), "module {} can't be run; Transformer, Pooling and Normalize can",
                             shown(type));
  }
  const std::string name = PAGODA_TRY(module.string("path")).value_or("");
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    return corrupt_file(module.where(), "path {} is no folder beside it", shown(name));
  }
  files.pooling = PAGODA_TRY(read_pooling(folder + "/" + name + "/config.json"));
  return {};
}

}  // namespace

Result<SentenceFiles> read_sentence_files(const std::string& folder) {
  SentenceFiles files;
  const std::string lengths = folder + "/sentence_bert_config.json", modules = folder + "/modules.json";
  if (exists(lengths)) {
    const nlohmann::json root = PAGODA_TRY(read_json_object(lengths));
    files.max_tokens = PAGODA_TRY(JsonView(root, lengths).integer("max_seq_length"));
    if (files.max_tokens && *files.max_tokens < 1) {
      return corrupt_file(lengths, "key 'max_seq_length' is {}", *files.max_tokens);
    }
  }
  if (!exists(modules)) return files;
  const std::string text = PAGODA_TRY(read_text_file(modules, kMaxModulesBytes));
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) return corrupt_file(modules, "is no JSON list");
  files.normalize = false;
  for (const nlohmann::json& entry : list) {
    if (!entry.is_object()) return corrupt_file(modules, "lists something else than objects");
    PAGODA_TRY(read_module(folder, JsonView(entry, modules), files));
  }
  return files;
}

}  // namespace pagoda::model
