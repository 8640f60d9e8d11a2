// Whole files, read back by our own loader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "model/checkpoint.h"
#include "model/loader/gguf_file.h"
#include "model/loader/json_file.h"
#include "model/loader/model_check.h"
#include "quantize/gguf/gguf_job.h"
#include "quantize/tests/tiny_model.h"
#include "support/shared_data.h"

namespace pagoda::quantize {
namespace {

namespace fs = std::filesystem;
using test::make_tiny_model;
using test::temporary_folder;

constexpr const char* kTokenizer = R"({"added_tokens": [
  {"id": 1, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
  "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "post_processor": null, "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 3, "b": 4, "ab": 5}, "merges": ["a b"]}})";

std::string tiny_model(const std::string& name, const test::TinySizes& sizes = {}) {
  const std::string folder = make_tiny_model(name, sizes);
  std::ofstream(folder + "/tokenizer.json") << kTokenizer;
  return folder;
}

model::Checkpoint open(const std::string& path) {
  auto checkpoint = model::open_checkpoint(path);
  if (!checkpoint) throw std::runtime_error(checkpoint.error().message);
  return std::move(checkpoint).value();
}

Result<void> write(const std::string& source, const std::string& out, GgmlType type,
                   const Hooks& hooks = {}) {
  ComputePool pool(2);
  const model::Checkpoint checkpoint = open(source);
  return write_gguf({checkpoint, out, type}, pool, hooks);
}

std::vector<float> values_of(const model::Checkpoint& checkpoint, const model::RequiredTensor& tensor) {
  if (tensor.depth == 0) return checkpoint.tensors->vector(tensor.name, tensor.rows).value();
  const auto reader = checkpoint.tensors->matrix(tensor.name, tensor.rows, tensor.depth);
  if (!reader) throw std::runtime_error(reader.error().message);
  std::vector<float> values(static_cast<size_t>(tensor.rows * tensor.depth));
  (*reader)->read_values(0, tensor.rows, values.data());
  return values;
}

std::string out_path(const std::string& name) {
  const std::string path = temporary_folder(name + "_out") + ".gguf";
  fs::remove(path);
  return path;
}

std::vector<std::string> types_of(const model::Checkpoint& checkpoint) {
  std::vector<std::string> types;
  for (const auto& info : checkpoint.tensors->list()) {
    if (std::find(types.begin(), types.end(), info.format) == types.end()) types.push_back(info.format);
  }
  return types;
}

// Every family that can be written, as floats: what our loader reads is what the folder holds, bit for bit
// but for the sums of Gemma's norms, and means the same.
void expect_same_weights(const model::Checkpoint& before, const model::Checkpoint& after) {
  for (const auto& tensor : model::required_tensors(before.config)) {
    auto expected = values_of(before, tensor);
    const bool sum = before.config.norm_weight_plus_one && tensor.name.ends_with("norm.weight");
    for (float& value : expected) value += sum ? 1.0f : 0.0f;
    ASSERT_EQ(values_of(after, tensor), expected) << tensor.name;
  }
}

void expect_same_rope(const model::ModelConfig& a, const model::ModelConfig& b) {
  EXPECT_EQ(a.rotary_dim, b.rotary_dim);
  if (a.learned_positions) return;
  EXPECT_FLOAT_EQ(static_cast<float>(a.rope_sliding.theta), static_cast<float>(b.rope_sliding.theta));
  if (a.rope.scaling == model::RopeConfig::Scaling::kLongRope) {
    EXPECT_EQ(a.rope.short_factors, b.rope.short_factors);
    EXPECT_EQ(a.rope.long_factors, b.rope.long_factors);
    EXPECT_EQ(a.rope.original_max_positions, b.rope.original_max_positions);
    EXPECT_FLOAT_EQ(static_cast<float>(a.rope.magnitude), static_cast<float>(b.rope.magnitude));
    return;
  }
  const auto expected = model::rope_inverse_frequencies(a.rope, a.rotary_dim);
  const auto actual = model::rope_inverse_frequencies(b.rope, b.rotary_dim);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6 * expected[i]);
}

void expect_same_config(const model::ModelConfig& a, const model::ModelConfig& b) {
  EXPECT_EQ(a.layer_window, b.layer_window);
  EXPECT_EQ(a.max_positions, b.max_positions);
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.bos, b.bos);
  EXPECT_THAT(b.eos, testing::IsSupersetOf(a.eos));
  EXPECT_FLOAT_EQ(a.attention_scale, b.attention_scale);
  EXPECT_FLOAT_EQ(a.embedding_scale, b.embedding_scale);
  EXPECT_FLOAT_EQ(a.residual_scale, b.residual_scale);
  EXPECT_FLOAT_EQ(a.logit_scale, b.logit_scale);
  EXPECT_EQ(a.attention_softcap, b.attention_softcap);
  EXPECT_EQ(a.logit_softcap, b.logit_softcap);
  EXPECT_EQ(a.moe.experts_per_token, b.moe.experts_per_token);
  expect_same_rope(a, b);
}

// A copy of a golden model; empty when it isn't there. The tiny Gemmas scale attention as no published one
// does, and GGUF files have no key for that.
std::string golden_model(const std::string& name) {
  const fs::path source = testing_support::golden_dir() / "tiny" / name;
  if (!fs::exists(source)) return {};
  const std::string folder = temporary_folder("golden_" + name);
  fs::copy(source, folder, fs::copy_options::recursive);
  auto config = model::read_json_object(folder + "/config.json").value();
  if (config.contains("query_pre_attn_scalar")) config["query_pre_attn_scalar"] = config["head_dim"];
  std::ofstream(folder + "/config.json") << config;
  return folder;
}

class Folders : public testing::TestWithParam<const char*> {};

TEST_P(Folders, ComeBackAsTheyWere) {
  const std::string source = golden_model(GetParam());
  if (source.empty()) GTEST_SKIP() << "no golden data of " << GetParam();
  const std::string out = out_path(std::string("folder_") + GetParam());
  const auto result = write(source, out, GgmlType::kF32);
  ASSERT_TRUE(result) << result.error().message;
  const model::Checkpoint before = open(source), after = open(out);
  expect_same_weights(before, after);
  expect_same_config(before.config, after.config);
  EXPECT_EQ(before.chat_template, after.chat_template);
  fs::remove(out);
  fs::remove_all(source);
}

INSTANTIATE_TEST_SUITE_P(Tiny, Folders,
                         testing::Values("llama-tied-f32", "llama3-rope-sharded", "llama-spm-bias",
                                         "mistral-swa", "qwen2", "qwen3", "phi3", "phi3-longrope",
                                         "starcoder2", "gpt2", "granite", "mixtral", "gemma2", "gemma3"));

TEST(Gguf, HasTheTypeAskedForAndWiderOnesForNarrowRows) {
  const std::string source = tiny_model("gguf_types", {64, 256, 512, 2}), out = out_path("gguf_types");
  ASSERT_TRUE(write(source, out, GgmlType::kQ4_K));
  EXPECT_THAT(types_of(open(out)), testing::UnorderedElementsAre("Q4_K", "Q6_K", "F32"));
  const auto file = model::GgufFile::open(out);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->integer("general.file_type").value(), 14);
  EXPECT_EQ(file->integer("general.quantization_version").value(), 2);
  fs::remove(out);
  const std::string narrow = tiny_model("gguf_narrow", {64, 64, 512, 1});
  ASSERT_TRUE(write(narrow, out, GgmlType::kQ4_K));
  EXPECT_THAT(types_of(open(out)), testing::UnorderedElementsAre("Q8_0", "Q4_K", "F32"));
  fs::remove(out);
}

TEST(Gguf, OfAGgufFileKeepsItsKeysAndWhatHasItsTypeAlready) {
  const std::string source = tiny_model("gguf_again"), first = out_path("gguf_first"),
                    second = out_path("gguf_second"), third = out_path("gguf_third");
  ASSERT_TRUE(write(source, first, GgmlType::kQ8_0));
  ASSERT_TRUE(write(first, second, GgmlType::kQ8_0));
  EXPECT_EQ(model::read_text_file(first, 1 << 24).value(), model::read_text_file(second, 1 << 24).value());
  // q and k rows stay in the order in which they are stored.
  const model::Checkpoint one = open(first), two = open(second);
  for (const auto& tensor : model::required_tensors(one.config)) {
    EXPECT_EQ(values_of(one, tensor), values_of(two, tensor)) << tensor.name;
  }
  ASSERT_TRUE(write(first, third, GgmlType::kF32));
  const model::Checkpoint floats = open(third);
  for (const auto& tensor : model::required_tensors(one.config)) {
    EXPECT_EQ(values_of(one, tensor), values_of(floats, tensor)) << tensor.name;
  }
  EXPECT_EQ(one.tokenizer_json, floats.tokenizer_json);
  for (const auto& path : {first, second, third}) fs::remove(path);
}

// Rows of 64 can't be Q4_K: Q8_0 stands in, but not for what has fewer bits already.
TEST(Gguf, WidensNothingThatIsNarrowAlready) {
  const std::string source = tiny_model("gguf_narrow_already", {64, 64, 512, 1}),
                    first = out_path("gguf_four"), second = out_path("gguf_still_four");
  ASSERT_TRUE(write(source, first, GgmlType::kQ4_0));
  ASSERT_TRUE(write(first, second, GgmlType::kQ4_K));
  const auto file = model::GgufFile::open(second);
  ASSERT_TRUE(file);
  const auto type = [&](std::string_view name) {
    for (const auto& tensor : file->tensors()) {
      if (tensor.name == name) return std::string(ggml_type_name(tensor.type));
    }
    return std::string();
  };
  EXPECT_EQ(type("token_embd.weight"), "Q8_0");
  EXPECT_EQ(type("blk.0.attn_q.weight"), "Q4_0");
  EXPECT_EQ(type("blk.0.ffn_down.weight"), "Q4_K");
  fs::remove(first);
  fs::remove(second);
}

TEST(Gguf, LeavesNothingWhenItIsInterrupted) {
  const std::string source = tiny_model("gguf_stop"), out = out_path("gguf_stop");
  int calls = 0;
  Hooks hooks;
  hooks.cancelled = [&] { return ++calls > 3; };
  const auto result = write(source, out, GgmlType::kQ4_0, hooks);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(fs::exists(out));
  EXPECT_FALSE(fs::exists(out + ".tmp"));
}

TEST(Gguf, RefusesAFileThatIsThere) {
  const std::string source = tiny_model("gguf_there"), out = out_path("gguf_there");
  std::ofstream(out) << "mine";
  const auto result = write(source, out, GgmlType::kQ8_0);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, out + " exists already; name a new file");
  fs::remove(out);
}

struct Refusal {
  const char *tokenizer_from, *tokenizer_to, *message;
};

TEST(Gguf, RefusesWhatTheFormatHasNoWordsFor) {
  const Refusal refusals[] = {
      {R"("type": "BPE")", R"("type": "Unigram")", "the model 'Unigram' of its tokenizer.json"},
      {R"("use_regex": true)", R"("use_regex": false)", "splits words has no name"},
      {R"("normalizer": null)", R"("normalizer": {"type": "Lowercase"})", "splits words has no name"},
      {R"("ab": 5)", R"("ab": 64)", "token 'ab' has the id 64, the embedding 64 rows"},
      {R"("ab": 5)", R"("ab": 3)", "have the same id 3"}};
  for (const Refusal& refusal : refusals) {
    const std::string source = tiny_model("gguf_refused"), out = out_path("gguf_refused");
    std::string text = kTokenizer;
    text.replace(text.find(refusal.tokenizer_from), std::strlen(refusal.tokenizer_from),
                 refusal.tokenizer_to);
    std::ofstream(source + "/tokenizer.json") << text;
    const auto result = write(source, out, GgmlType::kQ8_0);
    ASSERT_FALSE(result) << refusal.message;
    EXPECT_THAT(result.error().message, testing::HasSubstr(refusal.message));
    EXPECT_FALSE(fs::exists(out));
  }
}

TEST(Gguf, RefusesLayersThatReadersWouldTakeForOthers) {
  const std::string source = golden_model("qwen3-moe");
  if (source.empty()) GTEST_SKIP() << "no golden data";
  const auto result = write(source, out_path("gguf_moe"), GgmlType::kQ8_0);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message,
              testing::HasSubstr("architecture qwen3moe can't say layers with and without experts"));
}

TEST(Gguf, NeedsAVocabulary) {
  const std::string source = make_tiny_model("gguf_no_tokenizer");
  const auto result = write(source, out_path("gguf_no_tokenizer"), GgmlType::kQ8_0);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, testing::HasSubstr("has no tokenizer.json"));
}

}  // namespace
}  // namespace pagoda::quantize
