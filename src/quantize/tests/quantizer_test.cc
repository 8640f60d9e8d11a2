#include "quantize/quantizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "model/loader/json_file.h"
#include "quantize/tests/tiny_model.h"
#include "quantize/writer/code_formats.h"

namespace pagoda::quantize {
namespace {

namespace fs = std::filesystem;
using test::make_tiny_model;
using test::temporary_folder;

model::Checkpoint open(const std::string& path) {
  auto checkpoint = model::open_checkpoint(path);
  if (!checkpoint) throw std::runtime_error(checkpoint.error().message);
  return std::move(checkpoint).value();
}

std::vector<float> values_of(const model::Checkpoint& checkpoint, const Linear& linear) {
  const auto reader = checkpoint.tensors->matrix(linear.stem + ".weight", linear.rows, linear.depth);
  if (!reader) throw std::runtime_error(reader.error().message);
  std::vector<float> values(static_cast<size_t>(linear.rows * linear.depth));
  (*reader)->read_values(0, linear.rows, values.data());
  return values;
}

class QuantizeRtn : public testing::TestWithParam<Options> {};

// What our loaders read from the folder is bit for bit what the codes stand for.
TEST_P(QuantizeRtn, LoadsAsTheCodesSay) {
  const Options& options = GetParam();
  const std::string source = make_tiny_model("rtn_in"), out = temporary_folder("rtn_out");
  const model::Checkpoint original = open(source);
  ASSERT_TRUE(check_options(options, original.config));
  ComputePool pool(2);
  const auto result = quantize({original, out, options, {}}, pool, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(fs::exists(out + ".partial"));
  if (options.method != Method::kInt8) {
    // What tests/interop found the others to load.
    const auto config = model::read_json_object(out + "/config.json").value();
    EXPECT_EQ(config["quantization_config"]["checkpoint_format"], options.symmetric ? "gptq" : "gptq_v2");
  }
  const model::Checkpoint made = open(out);
  EXPECT_THAT(made.quantization, testing::HasSubstr(options.bits == 4 ? "4-bit" : "8-bit"));
  for (const Linear& linear : layer_linears(original.config, 1)) {
    const auto before = values_of(original, linear);
    std::vector<float> expected(before.size());
    if (options.method == Method::kInt8) {
      const auto coded = round_channels(before.data(), linear.rows, linear.depth, "BF16", pool);
      for (size_t i = 0; i < expected.size(); ++i) {
        const uint16_t scale = coded.scales[i / static_cast<size_t>(linear.depth)];
        expected[i] = bf16_to_f32(scale) * static_cast<float>(coded.codes[i]);
      }
    } else {
      round_to_nearest(before.data(), options.shape(linear), pool).dequantise(expected.data(), pool);
    }
    EXPECT_EQ(values_of(made, linear), expected) << linear.stem;
  }
  const Linear embedding{"model.embed_tokens", 64, 64};
  EXPECT_EQ(values_of(made, embedding), values_of(original, embedding));
  EXPECT_TRUE(fs::exists(out + "/tokenizer_config.json"));
  fs::remove_all(out);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeRtn,
                         testing::Values(Options{Method::kRtn, 4, 32, false},
                                         Options{Method::kRtn, 4, 64, true},
                                         Options{Method::kRtn, 8, 32, false},
                                         Options{Method::kRtn, 4, -1, false},
                                         Options{Method::kInt8, 8, 128, false}));

TEST(Quantize, ACancelledRunGoesOn) {
  const std::string source = make_tiny_model("cancel_in"), out = temporary_folder("cancel_out");
  const model::Checkpoint original = open(source);
  ComputePool pool(1);
  const Options options{Method::kRtn, 4, 32, false};
  int64_t done = 0;
  Hooks hooks;
  hooks.progress = [&](const Hooks::Progress& progress) { done = progress.done; };
  hooks.cancelled = [&] { return done == 9; };  // in the second layer
  const auto first = quantize({original, out, options, {}}, pool, hooks);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(fs::exists(out));
  EXPECT_TRUE(fs::exists(out + ".partial/model-00001-of-00003.safetensors"));
  int64_t skipped = 0;
  hooks.progress = [&](const Hooks::Progress& progress) { skipped = progress.skipped; };
  hooks.cancelled = nullptr;
  ASSERT_TRUE(quantize({original, out, options, {}}, pool, hooks));
  EXPECT_EQ(skipped, 7);
  EXPECT_EQ(open(out).quantization, "gptq_v2 4-bit g32");
  EXPECT_FALSE(fs::exists(out + "/quantize-state.json"));
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Samples some_samples() {
  Samples samples;
  for (int32_t i = 0; i < 6; ++i) {
    auto& sample = samples.emplace_back();
    for (int32_t j = 0; j < 40; ++j) sample.push_back(TokenId{(i * 29 + j * j * 7 + j) % 64});
  }
  return samples;
}

// An ended run has kept the inputs of its next layer: what it goes on to write is the same byte for byte.
TEST(QuantizeGptq, AnEndedRunGoesOnToTheSameFiles) {
  const std::string source = make_tiny_model("gptq_in", {64, 64, 128, 3});
  const std::string whole = temporary_folder("gptq_whole"), parts = temporary_folder("gptq_parts");
  const model::Checkpoint original = open(source);
  ComputePool pool(2);
  Options options;
  options.method = Method::kGptq;
  options.group_size = 32;
  ASSERT_TRUE(quantize({original, whole, options, some_samples()}, pool, {}));
  EXPECT_EQ(open(whole).quantization, "gptq_v2 4-bit g32");
  int64_t done = 0, skipped = 0;
  Hooks hooks;
  hooks.progress = [&](const Hooks::Progress& progress) {
    done = progress.done;
    skipped = progress.skipped;
  };
  hooks.cancelled = [&] { return done * 5 > 25 * 4 * 2; };  // a layer is 25 steps: in the second
  ASSERT_FALSE(quantize({original, parts, options, some_samples()}, pool, hooks));
  hooks.cancelled = nullptr;
  ASSERT_TRUE(quantize({original, parts, options, some_samples()}, pool, hooks));
  EXPECT_EQ(skipped, 25);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(parts)) names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, testing::SizeIs(7U));  // four parts, index, config, tokenizer_config
  for (const std::string& name : names)
    EXPECT_EQ(bytes_of(parts + "/" + name), bytes_of(whole + "/" + name)) << name;
}

// The folder is AWQ's, with the norms that took up the scales, in float16.
TEST(QuantizeAwq, WritesScaledNormsAndCodes) {
  const std::string source = make_tiny_model("awq_in"), out = temporary_folder("awq_out");
  const model::Checkpoint original = open(source);
  ComputePool pool(2);
  Options options;
  options.method = Method::kAwq;
  options.group_size = 32;
  ASSERT_TRUE(check_options(options, original.config));
  ASSERT_TRUE(quantize({original, out, options, some_samples()}, pool, {}));
  const model::Checkpoint made = open(out);
  EXPECT_EQ(made.quantization, "awq 4-bit g32");
  const std::string norm = "model.layers.1.input_layernorm.weight";
  EXPECT_NE(*made.tensors->vector(norm, 64), *original.tensors->vector(norm, 64));
  const std::string last = "model.norm.weight";
  EXPECT_EQ(*made.tensors->vector(last, 64), *original.tensors->vector(last, 64));
  const auto config = model::read_json_object(out + "/config.json");
  ASSERT_TRUE(config);
  EXPECT_EQ((*config)["torch_dtype"], "float16");
  EXPECT_EQ((*config)["quantization_config"]["version"], "gemm");
}

TEST(QuantizeGptq, OtherSamplesAreAnotherRun) {
  const std::string source = make_tiny_model("samples_in"), out = temporary_folder("samples_out");
  const model::Checkpoint original = open(source);
  ComputePool pool(1);
  Options options;
  options.method = Method::kGptq;
  options.group_size = 32;
  Hooks hooks;
  hooks.cancelled = [] { return true; };
  Samples samples = some_samples();
  EXPECT_EQ(quantize({original, out, options, samples}, pool, hooks).error().kind, ErrorKind::kCancelled);
  samples.pop_back();
  const auto other = quantize({original, out, options, samples}, pool, {});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, testing::HasSubstr("with other options; remove it"));
  fs::remove_all(out + ".partial");
}

TEST(CheckOptions, NamesTheFlag) {
  const model::Checkpoint original = open(make_tiny_model("options", {64, 96, 192, 1}));
  const auto message = [&](const Options& options) {
    const auto result = check_options(options, original.config);
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(message({Method::kRtn, 3, 32, false}), "--bits is 3; 4 and 8 can be written");
  EXPECT_EQ(message({Method::kInt8, 4, 32, false}), "--bits 4: the method int8 has 8 bits");
  EXPECT_EQ(message({Method::kAwq, 8, 32, false}), "--bits 8: the method awq has 4 bits");
  EXPECT_EQ(message({Method::kAwq, 4, 32, true}), "--sym: the method awq has zero points");
  EXPECT_EQ(message({Method::kAwq, 4, 32, false, true}), "--desc-act is for the method gptq");
  EXPECT_EQ(message({Method::kRtn, 4, 100, false}),
            "--group-size is 100; 32, 64, 128 and -1 (all of a row) can be written");
  EXPECT_EQ(
      message({Method::kRtn, 4, 64, false}),
      "--group-size 64 does not divide the 96 inputs of model.layers.0.self_attn.q_proj; 32 or -1 would do");
  EXPECT_EQ(message({Method::kRtn, 4, 32, false}), "");
  const model::Checkpoint odd = open(make_tiny_model("odd", {64, 64, 240, 1}));
  EXPECT_EQ(check_options({Method::kRtn, 4, 32, false}, odd.config).error().message,
            "--group-size 32 does not divide the 240 inputs of model.layers.0.mlp.down_proj; -1 would do");
}

}  // namespace
}  // namespace pagoda::quantize
