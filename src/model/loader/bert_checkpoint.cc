#include "model/loader/bert_checkpoint.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "model/loader/file_error.h"
#include "model/loader/json_file.h"
#include "model/loader/safetensors_source.h"
#include "model/loader/sentence_files.h"

namespace pagoda::model {
namespace {

constexpr uint64_t kMaxTokenizerBytes = uint64_t{512} << 20;
constexpr int64_t kMaxLayers = 512;
constexpr int64_t kMaxSize = int64_t{1} << 24;  // of any dimension
constexpr int64_t kMaxHeadDim = 1024;

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Result<int64_t> size_of(const JsonView& json, const char* key, int64_t max) {
  const auto value = PAGODA_TRY(json.integer(key));
  if (!value) return corrupt_file(json.where(), "key '{}' is missing", key);
  if (*value < 1 || *value > max) {
    return corrupt_file(json.where(), "key '{}' is {}, not in 1 to {}", key, *value, max);
  }
  return *value;
}

Result<void> expect_text(const JsonView& json, const char* key, const char* expected) {
  const auto value = PAGODA_TRY(json.string(key));
  if (!value || *value == expected) return {};
  return unsupported_model(json.where(), "key '{}' is {}; {} can be run", key, shown(*value), expected);
}

Result<EncoderConfig> read_config(const JsonView& json) {
  PAGODA_TRY(expect_text(json, "hidden_act", "gelu"));
  PAGODA_TRY(expect_text(json, "position_embedding_type", "absolute"));
  if (PAGODA_TRY(json.boolean("is_decoder")).value_or(false)) {
    return unsupported_model(json.where(), "key 'is_decoder': a BERT decoder can't be run");
  }
  EncoderConfig config;
  config.vocab_size = PAGODA_TRY(size_of(json, "vocab_size", kMaxSize));
  config.hidden_size = PAGODA_TRY(size_of(json, "hidden_size", kMaxSize));
  config.intermediate_size = PAGODA_TRY(size_of(json, "intermediate_size", kMaxSize));
  config.num_layers = static_cast<int>(PAGODA_TRY(size_of(json, "num_hidden_layers", kMaxLayers)));
  config.num_heads = static_cast<int>(PAGODA_TRY(size_of(json, "num_attention_heads", 65536)));
  config.max_positions = PAGODA_TRY(size_of(json, "max_position_embeddings", kMaxSize));
  config.type_vocab_size = PAGODA_TRY(size_of(json, "type_vocab_size", 65536));
  const double eps = PAGODA_TRY(json.real("layer_norm_eps")).value_or(1e-12);
  if (!(eps >= 0 && eps < 1)) return corrupt_file(json.where(), "key 'layer_norm_eps' is {}", eps);
  config.layer_norm_eps = static_cast<float>(eps);
  if (config.hidden_size % config.num_heads != 0 || config.head_dim() > kMaxHeadDim) {
    return corrupt_file(json.where(), "{} heads don't divide the hidden size {} into heads of at most {}",
                        config.num_heads, config.hidden_size, kMaxHeadDim);
  }
  return config;
}

Result<std::string> read_tokenizer(const std::string& folder) {
  const std::string tokenizer = folder + "/tokenizer.json", vocab = folder + "/vocab.txt";
  if (exists(tokenizer)) return read_text_file(tokenizer, kMaxTokenizerBytes);
  if (!exists(vocab)) {
    return make_error(ErrorKind::kUnsupportedModel, folder + " has neither tokenizer.json nor vocab.txt");
  }
  bool lower_case = true;
  if (const std::string config = folder + "/tokenizer_config.json"; exists(config)) {
    const nlohmann::json root = PAGODA_TRY(read_json_object(config));
    lower_case = PAGODA_TRY(JsonView(root, config).boolean("do_lower_case")).value_or(true);
  }
  return wordpiece_tokenizer_json(vocab, PAGODA_TRY(read_text_file(vocab, kMaxTokenizerBytes)), lower_case);
}

std::string describe_format(const TensorSource& tensors, const std::string& prefix) {
  std::set<std::string> types;
  for (const TensorInfo& info : tensors.list()) {
    if (info.name.starts_with(prefix + "encoder.")) types.insert(info.format);
  }
  std::string text;
  for (const std::string& type : types) text += (text.empty() ? "" : ", ") + type;
  return "safetensors (" + text + ")";
}

}  // namespace

bool is_encoder_folder(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return false;
  const auto root = read_json_object(path + "/config.json");
  if (!root) return false;
  const auto type = JsonView(*root, path).string("model_type");
  return type && *type == "bert";
}

Result<std::string> wordpiece_tokenizer_json(const std::string& path, const std::string& vocab,
                                             bool lower_case) {
  nlohmann::json ids = nlohmann::json::object();
  int64_t next = 0;
  for (size_t at = 0; at < vocab.size(); ++next) {
    const size_t end = std::min(vocab.find('\n', at), vocab.size());
    std::string token = vocab.substr(at, end - at);
    if (token.ends_with('\r')) token.pop_back();
    ids.emplace(std::move(token), next);
    at = end + 1;
  }
  nlohmann::json added = nlohmann::json::array();
  for (const char* const token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    if (!ids.contains(token)) {
      if (std::string_view(token) == "[PAD]" || std::string_view(token) == "[MASK]") continue;
      return corrupt_file(path, "the vocabulary lacks {}", token);
    }
    added.push_back({{"id", ids[token]},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const auto special = [](const char* token) {
    return nlohmann::json{{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  };
  const auto entry = [&](const char* token) {
    return nlohmann::json{{"id", token}, {"ids", {ids[token]}}, {"tokens", {token}}};
  };
  const nlohmann::json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const nlohmann::json pair = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  const nlohmann::json processor = {
      {"type", "TemplateProcessing"},
      {"single", {special("[CLS]"), sequence, special("[SEP]")}},
      {"pair", {special("[CLS]"), sequence, special("[SEP]"), pair, special("[SEP]")}},
      {"special_tokens", {{"[CLS]", entry("[CLS]")}, {"[SEP]", entry("[SEP]")}}}};
  const nlohmann::json root = {{"version", "1.0"},
                               {"added_tokens", std::move(added)},
                               {"normalizer",
                                {{"type", "BertNormalizer"},
                                 {"clean_text", true},
                                 {"handle_chinese_chars", true},
                                 {"strip_accents", nullptr},
                                 {"lowercase", lower_case}}},
                               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                               {"post_processor", processor},
                               {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                               {"model",
                                {{"type", "WordPiece"},
                                 {"unk_token", "[UNK]"},
                                 {"continuing_subword_prefix", "##"},
                                 {"max_input_chars_per_word", 100},
                                 {"vocab", std::move(ids)}}}};
  return root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<EncoderCheckpoint> open_encoder_checkpoint(const std::string& folder) {
  EncoderCheckpoint checkpoint;
  checkpoint.path = folder;
  const auto path = std::filesystem::path(folder).lexically_normal();
  checkpoint.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  const std::string config_path = folder + "/config.json";
  const nlohmann::json root = PAGODA_TRY(read_json_object(config_path));
  checkpoint.config = PAGODA_TRY(read_config(JsonView(root, config_path)));
  const SentenceFiles files = PAGODA_TRY(read_sentence_files(folder));
  checkpoint.pooling.pooling = files.pooling.value_or(Pooling::kMean);
  checkpoint.pooling.normalize = files.normalize.value_or(true);
  checkpoint.max_tokens =
      std::min(checkpoint.config.max_positions, files.max_tokens.value_or(checkpoint.config.max_positions));
  checkpoint.tokenizer_json = PAGODA_TRY(read_tokenizer(folder));
  auto tensors = PAGODA_TRY(SafetensorsSource::open(folder));
  if (!tensors->contains("embeddings.word_embeddings.weight")) checkpoint.prefix = "bert.";
  checkpoint.format = describe_format(*tensors, checkpoint.prefix);
  checkpoint.tensors = std::move(tensors);
  return checkpoint;
}

}  // namespace pagoda::model
