#include "model/loader/quantization_config.h"

#include <gtest/gtest.h>

#include "model_files.h"

namespace pagoda::model {
namespace {

using nlohmann::json;
using test::TempDir;

Result<std::optional<QuantizationConfig>> read(const json& quantization,
                                               const std::string& folder = "/absent",
                                               std::optional<QuantMethod> asked = std::nullopt) {
  const json root = quantization.is_null() ? json::object() : json{{"quantization_config", quantization}};
  return read_quantization_config(JsonView(root, "config.json"), folder, asked);
}

QuantizationConfig good(const json& quantization) {
  const auto config = read(quantization);
  if (!config || !*config) {
    ADD_FAILURE() << quantization << ": " << (config ? "none" : config.error().message);
    return {};
  }
  return **config;
}

void refused(const json& quantization, const std::string& part) {
  const auto config = read(quantization);
  ASSERT_FALSE(config) << quantization;
  EXPECT_NE(config.error().message.find(part), std::string::npos) << config.error().message;
  EXPECT_EQ(config.error().message.find("config.json"), 0u) << config.error().message;
  EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
}

json with(json base, const json& more) {
  base.update(more);
  return base;
}
const json kGptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"sym", true}};
const json kAwq = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 64}, {"zero_point", true}};
json compressed(const json& weights, const json& more = {}) {
  json group = {{"targets", {"Linear"}}, {"weights", weights}};
  group.update(more.is_null() ? json::object() : more);
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups", {{"group_0", group}}}};
}

TEST(QuantizationConfig, ReadsEveryMethod) {
  QuantizationConfig config = good(kGptq);
  EXPECT_EQ(config.method, QuantMethod::kGptq);
  EXPECT_EQ(config.formats, (std::vector<CodeFormat>{{4, 128}}));
  EXPECT_TRUE(config.zeros_minus_one);
  EXPECT_FALSE(config.needs_group_index);
  config = good(
      with(kGptq, {{"bits", 8}, {"group_size", -1}, {"checkpoint_format", "gptq_v2"}, {"desc_act", true}}));
  EXPECT_EQ(config.formats, (std::vector<CodeFormat>{{8, CodeFormat::kPerRow}}));
  EXPECT_FALSE(config.zeros_minus_one);
  EXPECT_TRUE(config.needs_group_index);
  EXPECT_EQ(quantization_name(config), "gptq_v2 8-bit per channel");
  EXPECT_EQ(good(kAwq).formats, (std::vector<CodeFormat>{{4, 64}}));
  // AutoAWQ's own names, as in its quant_config.json.
  EXPECT_EQ(good({{"quant_method", "awq"}, {"w_bit", 4}, {"q_group_size", 32}, {"version", "GEMM"}}).formats,
            (std::vector<CodeFormat>{{4, 32}}));
  config = good(compressed({{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 128}}));
  EXPECT_EQ(config.method, QuantMethod::kCompressedTensors);
  EXPECT_EQ(config.formats, (std::vector<CodeFormat>{{4, 128}}));
  EXPECT_EQ(good(compressed({{"num_bits", 8}, {"strategy", "channel"}})).formats,
            (std::vector<CodeFormat>{{8, CodeFormat::kPerRow}}));
  EXPECT_EQ(good(compressed({{"num_bits", 8}, {"strategy", "tensor"}})).formats,
            (std::vector<CodeFormat>{{8, CodeFormat::kPerMatrix}}));
  EXPECT_EQ(good({{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}).formats,
            (std::vector<CodeFormat>{{8, CodeFormat::kPerRow}}));
}

TEST(QuantizationConfig, NothingMeansNotQuantised) {
  const auto none = read(nullptr);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  const json with_null = {{"quantization_config", nullptr}};
  EXPECT_FALSE(read_quantization_config(JsonView(with_null, "c"), "/absent", std::nullopt)->has_value());
}

TEST(QuantizationConfig, FilesOfOlderTools) {
  const TempDir dir;
  dir.write("quantize_config.json", R"({"bits":4,"group_size":32,"desc_act":false,"sym":true})");
  auto config = read(nullptr, dir.path());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ((*config)->method, QuantMethod::kGptq);
  EXPECT_EQ((*config)->where, dir.path() + "/quantize_config.json");
  // config.json goes first.
  config = read(kAwq, dir.path());
  EXPECT_EQ((*config)->method, QuantMethod::kAwq);
  std::filesystem::remove(dir.path() + "/quantize_config.json");
  dir.write("quant_config.json", R"({"zero_point":true,"q_group_size":128,"w_bit":4,"version":"GEMM"})");
  config = read(nullptr, dir.path());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ((*config)->method, QuantMethod::kAwq);
  // --quantization stands in for a quant_method that is not there.
  const json unnamed = {{"bits", 4}, {"group_size", 128}};
  EXPECT_EQ((*read(unnamed, "/absent", QuantMethod::kGptq))->method, QuantMethod::kGptq);
}

TEST(QuantizationConfig, RefusesWhatCannotRun) {
  refused(json::object(), "an unnamed method");
  refused({{"quant_method", "fp8"}}, "quantised with 'fp8', which can't be run; gptq, awq");
  refused({{"quant_method", 3}}, "quant_method");
  refused(with(kGptq, {{"bits", 3}}), "GPTQ with 3 bits can't be run; 4 and 8 can");
  refused(with(kGptq, {{"group_size", 0}}), "'group_size' is 0");
  refused(with(kGptq, {{"group_size", -2}}), "'group_size' is -2");
  refused(with(kGptq, {{"group_size", nullptr}}), "'group_size' is missing");
  refused(with(kGptq, {{"bits", nullptr}}), "'bits' is missing");
  refused(with(kGptq, {{"checkpoint_format", "marlin"}}), "'marlin'");
  refused(with(kGptq, {{"dynamic", {{"+:.*down.*", {{"bits", 8}}}}}}), "'+:.*down.*'");
  EXPECT_TRUE(read(with(kGptq, {{"dynamic", {{"-:lm_head", json::object()}}}})));
  refused(with(kAwq, {{"bits", 8}}), "AWQ with 8 bits");
  refused(with(kAwq, {{"version", "gemv"}}), "'gemv'");
  refused(with(kAwq, {{"backend", "llm-awq"}}), "'llm-awq'");
  refused(with(kAwq, {{"zero_point", false}}), "without zero points");
  refused(compressed({{"num_bits", 8}, {"type", "float"}}), "type 'float' with 8 bits");
  refused(compressed({{"num_bits", 3}}), "with 3 bits");
  refused(compressed({{"num_bits", 4}, {"strategy", "block"}}), "'block'");
  refused(compressed({{"num_bits", 4}, {"strategy", "group"}}), "under the strategy 'group'");
  refused(compressed({{"num_bits", 4}}, {{"input_activations", {{"num_bits", 4}}}}),
          "activations of type 'int'");
  refused(with(compressed({{"num_bits", 4}}), {{"format", "float-quantized"}}), "'float-quantized'");
  refused(with(compressed({{"num_bits", 4}}), {{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}),
          "sparse weights");
  refused(with(compressed({{"num_bits", 4}}), {{"transform_config", {{"config_groups", 1}}}}),
          "'transform_config'");
  refused({{"quant_method", "compressed-tensors"}, {"format", "int-quantized"}},
          "'config_groups' is missing");
  refused({{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}}, "bitsandbytes with 4 bits");
  refused({{"quant_method", "bitsandbytes"}}, "are both false");
}

TEST(QuantizationConfig, NamesOfMethods) {
  for (const QuantMethod method :
       {QuantMethod::kGptq, QuantMethod::kAwq, QuantMethod::kCompressedTensors, QuantMethod::kBitsAndBytes}) {
    EXPECT_EQ(quant_method_from_name(quant_method_name(method)), method);
  }
  EXPECT_EQ(quant_method_from_name("GPTQ_Marlin"), QuantMethod::kGptq);
  EXPECT_EQ(quant_method_from_name("fp8"), std::nullopt);
}

}  // namespace
}  // namespace pagoda::model
