#include "cli/flag_compat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace pagoda::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string config_file(const std::string& text) {
  const std::string path = testing::TempDir() + "/flag_compat_test.yaml";
  std::ofstream(path) << text;
  return path;
}

TEST(ForeignFlagsTest, GpuFlagsAreDroppedWithAWarning) {
  std::vector<std::string> warnings;
  const auto kept = drop_foreign_flags(
      {"serve", "m.gguf", "--enforce-eager", "--swap-space", "4", "--port", "1", "--device=cpu"}, warnings);
  ASSERT_TRUE(kept);
  EXPECT_THAT(*kept, ElementsAre("serve", "m.gguf", "--port", "1"));
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr("--enforce-eager"), HasSubstr("--swap-space"), HasSubstr("--device")));
}

TEST(ForeignFlagsTest, FlagsOfMissingFeaturesAreRefusedByName) {
  for (const char* flag : {"--api-key", "--ssl-keyfile", "--tensor-parallel-size=2"}) {
    std::vector<std::string> warnings;
    const auto kept = drop_foreign_flags({"serve", "m", flag}, warnings);
    ASSERT_FALSE(kept) << flag;
    EXPECT_EQ(kept.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(kept.error().message, HasSubstr(std::string(flag).substr(0, std::string(flag).find('='))));
  }
}

TEST(ConfigFileTest, BecomesFlagsBeforeTheOthers) {
  const auto path = config_file(
      "port: 9000\nmax_model_len: 32k\nstrict-params: true\nenable-prefix-caching: false\n"
      "served-model-name: [a, b]\n");
  const auto args = expand_config_file({"serve", "m", "--config", path, "--port=1"});
  ASSERT_TRUE(args) << args.error().message;
  EXPECT_THAT(*args, ElementsAre("serve", "--port=9000", "--max-model-len=32k", "--strict-params",
                                 "--no-enable-prefix-caching", "--served-model-name=a",
                                 "--served-model-name=b", "m", "--port=1"));
}

TEST(ConfigFileTest, ErrorsNameFileAndLine) {
  const auto nested = expand_config_file({"serve", "--config=" + config_file("port: 1\nhost:\n  a: 1\n")});
  ASSERT_FALSE(nested);
  EXPECT_THAT(nested.error().message, HasSubstr("line 3"));
  const auto broken = expand_config_file({"serve", "--config=" + config_file("a: [1\n")});
  ASSERT_FALSE(broken);
  const auto missing = expand_config_file({"serve", "--config", "/no/such.yaml"});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("/no/such.yaml"));
  EXPECT_FALSE(expand_config_file({"serve", "--config"}));
}

}  // namespace
}  // namespace pagoda::cli
