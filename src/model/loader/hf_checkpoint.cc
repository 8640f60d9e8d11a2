#include "model/loader/hf_checkpoint.h"

#include <filesystem>
#include <set>
#include <utility>

#include "model/loader/file_error.h"
#include "model/loader/hf_config.h"
#include "model/loader/hf_names.h"
#include "model/loader/json_file.h"
#include "model/loader/model_check.h"
#include "model/loader/quantized_source.h"
#include "model/loader/safetensors_source.h"

namespace pagoda::model {
namespace {

constexpr uint64_t kMaxTokenizerBytes = uint64_t{512} << 20;   // Gemma 3's has 33 MB
constexpr uint64_t kMaxChatTemplateBytes = uint64_t{1} << 20;  // real ones have some 20 KB

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// A special token: "<s>", or {"content": "<s>", ...}. Empty when absent.
Result<std::string> token_text(const JsonView& json, const char* key) {
  const nlohmann::json* const value = json.find(key);
  if (value == nullptr) return std::string();
  if (!value->is_object()) return PAGODA_TRY(json.string(key)).value_or("");
  const auto object = PAGODA_TRY(json.object(key));
  return PAGODA_TRY(object->string("content")).value_or("");
}

// chat_template: the source, or a list of {"name", "template"} of which "default" counts.
Result<std::string> read_chat_template(const JsonView& json) {
  const nlohmann::json* const value = json.find("chat_template");
  if (value == nullptr) return std::string();
  if (!value->is_array()) return PAGODA_TRY(json.string("chat_template")).value_or("");
  for (const nlohmann::json& entry : *value) {
    if (!entry.is_object())
      return corrupt_file(json.where(), "key 'chat_template' lists something else than objects");
    const JsonView view(entry, json.where() + ": chat_template");
    const auto name = PAGODA_TRY(view.string("name"));
    if (name == "default") return PAGODA_TRY(view.string("template")).value_or("");
  }
  return std::string();
}

Result<void> read_tokenizer(const std::string& folder, Checkpoint& checkpoint) {
  const std::string tokenizer = folder + "/tokenizer.json", config = folder + "/tokenizer_config.json";
  if (exists(tokenizer))
    checkpoint.tokenizer_json = PAGODA_TRY(read_text_file(tokenizer, kMaxTokenizerBytes));
  if (exists(config)) {
    const nlohmann::json root = PAGODA_TRY(read_json_object(config));
    const JsonView json(root, config);
    checkpoint.tokenizer_config_json = PAGODA_TRY(read_text_file(config, kMaxTokenizerBytes));
    checkpoint.chat_template = PAGODA_TRY(read_chat_template(json));
    checkpoint.bos_token = PAGODA_TRY(token_text(json, "bos_token"));
    checkpoint.eos_token = PAGODA_TRY(token_text(json, "eos_token"));
    checkpoint.pad_token = PAGODA_TRY(token_text(json, "pad_token"));
    checkpoint.unk_token = PAGODA_TRY(token_text(json, "unk_token"));
    checkpoint.add_bos_token = PAGODA_TRY(json.boolean("add_bos_token"));
  }
  const std::string file = folder + "/chat_template.jinja", processor = folder + "/chat_template.json";
  if (exists(file)) {
    checkpoint.chat_template = PAGODA_TRY(read_text_file(file, kMaxChatTemplateBytes));
  } else if (checkpoint.chat_template.empty() && exists(processor)) {
    const nlohmann::json root = PAGODA_TRY(read_json_object(processor));
    checkpoint.chat_template = PAGODA_TRY(read_chat_template(JsonView(root, processor)));
  }
  if (checkpoint.chat_template.size() > kMaxChatTemplateBytes) {
    return corrupt_file(folder, "the chat template has {} bytes; the limit is {}",
                        checkpoint.chat_template.size(), kMaxChatTemplateBytes);
  }
  return {};
}

// "safetensors (BF16)": the types of the tensors that are there.
std::string describe_format(const TensorSource& tensors) {
  std::set<std::string> types;
  for (const TensorInfo& info : tensors.list()) types.insert(info.format);
  std::string text;
  for (const std::string& type : types) text += (text.empty() ? "" : ", ") + type;
  return "safetensors (" + text + ")";
}

Result<std::optional<QuantizationConfig>> read_quantization(const JsonView& config, const std::string& folder,
                                                            std::optional<QuantMethod> asked) {
  auto found = PAGODA_TRY(read_quantization_config(config, folder, asked));
  if (!asked || (found && found->method == *asked)) return found;
  const std::string_view name = quant_method_name(*asked);
  std::string message =
      fmt::format("{}: --quantization is {}, but the folder says nothing of quantisation", folder, name);
  if (found) {
    message = fmt::format("{}: the weights are quantised with {}, but --quantization is {}", found->where,
                          quant_method_name(found->method), name);
  }
  return make_error(ErrorKind::kInvalidArgument, std::move(message), "--quantization");
}

// The files as they are, or as the matrices that they are the parts of.
Result<std::unique_ptr<TensorSource>> open_tensors(std::unique_ptr<SafetensorsSource> files,
                                                   std::optional<QuantizationConfig> quantization) {
  if (!quantization) return std::unique_ptr<TensorSource>(std::move(files));
  return std::unique_ptr<TensorSource>(
      PAGODA_TRY(QuantizedSource::create(std::move(files), std::move(*quantization))));
}

}  // namespace

Result<Checkpoint> open_hf_checkpoint(const std::string& folder, std::optional<QuantMethod> asked) {
  Checkpoint checkpoint;
  checkpoint.path = folder;
  const auto absolute = std::filesystem::path(folder).lexically_normal();
  checkpoint.name = (absolute.has_filename() ? absolute : absolute.parent_path()).filename().string();

  const std::string config_path = folder + "/config.json",
                    generation_path = folder + "/generation_config.json";
  const nlohmann::json config = PAGODA_TRY(read_json_object(config_path));
  checkpoint.config = PAGODA_TRY(hf_model_config(JsonView(config, config_path)));
  auto quantization = PAGODA_TRY(read_quantization(JsonView(config, config_path), folder, asked));
  if (quantization) checkpoint.quantization = quantization_name(*quantization);
  if (exists(generation_path)) {
    const nlohmann::json generation = PAGODA_TRY(read_json_object(generation_path));
    checkpoint.generation =
        PAGODA_TRY(hf_generation_defaults(JsonView(generation, generation_path), checkpoint.config));
  }
  PAGODA_TRY(check_config(checkpoint.config, config_path));

  auto files = PAGODA_TRY(SafetensorsSource::open(folder));
  checkpoint.files = files->files();
  for (const ModelFile& file : checkpoint.files) checkpoint.file_bytes += file.bytes;
  checkpoint.tensors = PAGODA_TRY(open_tensors(std::move(files), std::move(quantization)));
  auto views = hf_tensor_views(checkpoint.config, *checkpoint.tensors);
  if (!views.empty())
    checkpoint.tensors = std::make_unique<ViewSource>(std::move(checkpoint.tensors), std::move(views));
  PAGODA_TRY(check_tensors(checkpoint.config, *checkpoint.tensors, folder));
  checkpoint.format = describe_format(*checkpoint.tensors);
  PAGODA_TRY(read_tokenizer(folder, checkpoint));
  return checkpoint;
}

}  // namespace pagoda::model
