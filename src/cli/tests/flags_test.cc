#include "cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "cli/runtime.h"

namespace pagoda::cli {
namespace {

using testing::ElementsAre;

TEST(FlagsTest, ServeTakesVllmsNames) {
  const auto line =
      parse_command_line({"serve", "m.gguf", "--port", "9", "--max-model-len", "32k", "--served-model-name",
                          "a", "--no-enable-prefix-caching", "--max-num-seqs=7"});
  ASSERT_TRUE(line);
  ASSERT_EQ(line->command, Command::kServe);
  EXPECT_EQ(line->serve.engine.model, "m.gguf");
  EXPECT_EQ(line->serve.port, 9);
  EXPECT_EQ(line->serve.engine.max_model_len, "32k");
  EXPECT_FALSE(line->serve.engine.enable_prefix_caching);
  EXPECT_EQ(line->serve.engine.max_num_seqs, 7);
  EXPECT_THAT(line->serve.served_model_name, ElementsAre("a"));
}

TEST(FlagsTest, CommandLineWinsOverFileWinsOverEnvironment) {
  const std::string path = testing::TempDir() + "/flags_test.yaml";
  std::ofstream(path) << "port: 2\nmax-num-seqs: 2\n";
  setenv("PAGODA_PORT", "3", 1);
  setenv("PAGODA_MAX_NUM_SEQS", "3", 1);
  setenv("PAGODA_HOST", "::1", 1);
  const auto line = parse_command_line({"serve", "m", "--config", path, "--port", "1"});
  unsetenv("PAGODA_PORT");
  unsetenv("PAGODA_MAX_NUM_SEQS");
  unsetenv("PAGODA_HOST");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->serve.port, 1);
  EXPECT_EQ(line->serve.engine.max_num_seqs, 2);
  EXPECT_EQ(line->serve.host, "::1");
}

TEST(FlagsTest, WrongUsageExitsWithTwo) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{},
                                             {"serve"},
                                             {"serve", "m", "--port", "70000"},
                                             {"serve", "m", "--no-such-flag"},
                                             {"serve", "m", "--dtype", "int3"},
                                             {"serve", "m", "--block-size", "32"},
                                             {"generate", "m"}}) {
    testing::internal::CaptureStderr();
    const auto line = parse_command_line(args);
    const std::string printed = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(line);
    EXPECT_EQ(line->command, Command::kExit);
    EXPECT_EQ(line->exit_code, 2) << printed;
    EXPECT_FALSE(printed.empty());
  }
}

TEST(FlagsTest, UnknownCommandIsNamed) {
  const auto line = parse_command_line({"sevre", "m"});
  ASSERT_FALSE(line);
  EXPECT_NE(line.error().message.find("'sevre'"), std::string::npos);
}

TEST(FlagsTest, GenerateHasASeed) {
  const auto line = parse_command_line({"generate", "m", "-p", "x", "--seed", "7"});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->generate.seed, 7);
}

TEST(FlagsTest, KvCacheDtypesAreListedWhereOneIsUnknown) {
  const std::vector<std::pair<std::string, DType>> known = {
      {"auto", DType::kBF16}, {"bfloat16", DType::kBF16},
      {"bf16", DType::kBF16}, {"float16", DType::kF16},
      {"fp16", DType::kF16},  {"float32", DType::kF32},
      {"int8", DType::kI8},   {"int8_per_token_head", DType::kI8}};
  for (const auto& [name, type] : known) {
    const auto line = parse_command_line({"serve", "m", "--kv-cache-dtype", name});
    ASSERT_TRUE(line);
    ASSERT_EQ(line->command, Command::kServe) << name;
    EXPECT_EQ(kv_dtype_of(line->serve.engine), type) << name;
  }
  const auto exact = parse_command_line({"serve", "m", "--dtype", "float32"});
  ASSERT_TRUE(exact);
  EXPECT_EQ(kv_dtype_of(exact->serve.engine), DType::kF32);
  for (const char* wrong : {"fp8", "int4", "INT8", ""}) {
    testing::internal::CaptureStderr();
    const auto refused = parse_command_line({"serve", "m", std::string("--kv-cache-dtype=") + wrong});
    const std::string printed = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->exit_code, 2);
    const std::string first_line = printed.substr(0, printed.find('\n'));
    for (const auto& [name, type] : known) EXPECT_NE(first_line.find(name), std::string::npos) << first_line;
  }
}

TEST(FlagsTest, ItlTargetIsOffUnlessAskedForAndBounded) {
  const auto line = parse_command_line({"serve", "m"});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->serve.engine.itl_target_ms, 0);
  const auto with = parse_command_line({"serve", "m", "--itl-target-ms", "80"});
  ASSERT_TRUE(with);
  EXPECT_EQ(with->serve.engine.itl_target_ms, 80);
  for (const char* wrong : {"-1", "60001", "fast", "1.5"}) {
    testing::internal::CaptureStderr();
    const auto refused = parse_command_line({"serve", "m", std::string("--itl-target-ms=") + wrong});
    const std::string printed = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->exit_code, 2);
    EXPECT_NE(printed.find("--itl-target-ms"), std::string::npos) << printed;
  }
}

TEST(FlagsTest, PackedCacheIsOffUnlessAskedFor) {
  EXPECT_EQ(parse_command_line({"serve", "m"})->serve.engine.packed_cache, "off");
  EXPECT_EQ(parse_command_line({"serve", "m", "--packed-cache", "auto"})->serve.engine.packed_cache, "auto");
  EXPECT_EQ(
      parse_command_line({"generate", "m", "-p", "x", "--packed-cache", "/a"})->generate.engine.packed_cache,
      "/a");
  setenv("PAGODA_PACKED_CACHE", "auto", 1);
  const auto line = parse_command_line({"serve", "m"});
  unsetenv("PAGODA_PACKED_CACHE");
  EXPECT_EQ(line->serve.engine.packed_cache, "auto");
}

TEST(FlagsTest, HelpExitsWithZero) {
  testing::internal::CaptureStdout();
  const auto line = parse_command_line({"serve", "--help"});
  EXPECT_NE(testing::internal::GetCapturedStdout().find("--max-num-batched-tokens"), std::string::npos);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->exit_code, 0);
}

TEST(FlagsTest, VllmEnvironmentAliases) {
  setenv("VLLM_CPU_KVCACHE_SPACE", "2", 1);
  setenv("VLLM_CPU_OMP_THREADS_BIND", "0-1", 1);
  const auto line = parse_command_line({"serve", "m"});
  unsetenv("VLLM_CPU_KVCACHE_SPACE");
  unsetenv("VLLM_CPU_OMP_THREADS_BIND");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->serve.engine.kv_cache_memory_bytes, "2G");
  EXPECT_EQ(line->serve.engine.threads, 2);
}

}  // namespace
}  // namespace pagoda::cli
