#include "model/loader/gguf_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "model/loader/file_error.h"
#include "model/loader/gguf_config.h"
#include "model/loader/gguf_source.h"
#include "model/loader/gguf_tokenizer.h"
#include "model/loader/hf_names.h"
#include "model/loader/model_check.h"
#include "model/loader/view_source.h"

namespace pagoda::model {
namespace {

// Real templates have some 20 KB; the limit keeps a hostile one from the template engine.
constexpr size_t kMaxChatTemplateBytes = size_t{1} << 20;

// "dir/x-00001-of-00003.gguf" -> "x".
std::string model_name(const std::string& path, size_t num_files) {
  std::string name = std::filesystem::path(path).stem().string();
  constexpr size_t kSplitSuffix = sizeof("-00001-of-00003") - 1;
  if (num_files > 1 && name.size() > kSplitSuffix) name.resize(name.size() - kSplitSuffix);
  return name;
}

// "GGUF v3 (Q4_1 210, F32 61, Q8_0 1)": the types by number of tensors.
std::string describe_format(const GgufFile& file, const TensorSource& tensors) {
  std::map<std::string, int> counts;
  for (const TensorInfo& info : tensors.list()) ++counts[info.format];
  std::vector<std::pair<std::string, int>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [type, count] : order)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", type, count);
  return fmt::format("GGUF v{} ({})", file.version(), text);
}

Result<void> read_tokenizer(const GgufFile& file, Checkpoint& checkpoint) {
  const GgufVocabulary vocabulary = PAGODA_TRY(gguf_vocabulary(file));
  if (vocabulary.tokens.empty()) return {};
  if (vocabulary.tokens.size() > static_cast<size_t>(checkpoint.config.vocab_size)) {
    return corrupt_file(
        file.path(), "key 'tokenizer.ggml.tokens' at offset {} has {} tokens, the embedding {} rows",
        file.find("tokenizer.ggml.tokens")->offset, vocabulary.tokens.size(), checkpoint.config.vocab_size);
  }
  PAGODA_TRY(read_gguf_special_tokens(file, vocabulary, checkpoint));
  auto text = gguf_tokenizer_json(vocabulary);
  if (!text) {
    Error error = std::move(text).error();
    error.message = file.path() + ": " + error.message;
    return error;
  }
  checkpoint.tokenizer_json = std::move(text).value();
  return {};
}

}  // namespace

Result<Checkpoint> open_gguf_checkpoint(const std::string& path) {
  const auto files = PAGODA_TRY(open_gguf_set(path));
  const GgufFile& file = *files[0];
  const Architecture architecture = PAGODA_TRY(gguf_architecture(file));
  auto tensors = PAGODA_TRY(GgufTensorSource::create(files, architecture));

  Checkpoint checkpoint;
  checkpoint.path = path;
  checkpoint.name = model_name(path, files.size());
  checkpoint.format = describe_format(file, *tensors);
  for (const auto& part : files) {
    checkpoint.file_bytes += part->size();
    checkpoint.files.push_back({part->path(), part->size(), part->modified_ns()});
  }
  checkpoint.config = PAGODA_TRY(gguf_model_config(file, architecture, *tensors));
  PAGODA_TRY(read_tokenizer(file, checkpoint));
  PAGODA_TRY(check_config(checkpoint.config, path));
  auto views = fused_tensor_views(checkpoint.config, *tensors);
  checkpoint.tensors = std::move(tensors);
  if (!views.empty())
    checkpoint.tensors = std::make_unique<ViewSource>(std::move(checkpoint.tensors), std::move(views));
  PAGODA_TRY(check_tensors(checkpoint.config, *checkpoint.tensors, path));

  checkpoint.generation = PAGODA_TRY(gguf_generation_defaults(file));
  const auto chat_template = PAGODA_TRY(file.string("tokenizer.chat_template"));
  if (chat_template && chat_template->size() > kMaxChatTemplateBytes) {
    return corrupt_file(path, "key 'tokenizer.chat_template' at offset {} has {} bytes; the limit is {}",
                        file.find("tokenizer.chat_template")->offset, chat_template->size(),
                        kMaxChatTemplateBytes);
  }
  checkpoint.chat_template = std::string(chat_template.value_or(""));
  return checkpoint;
}

}  // namespace pagoda::model
