#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "model/checkpoint.h"
#include "model/loader/json_file.h"
#include "model/loader/safetensors_file.h"
#include "quantize/tests/tiny_model.h"
#include "quantize/writer/code_formats.h"
#include "quantize/writer/hf_config.h"
#include "quantize/writer/hf_folder_writer.h"
#include "quantize/writer/output_file.h"

namespace pagoda::quantize {
namespace {

namespace fs = std::filesystem;
using test::make_tiny_model;
using test::temporary_folder;

TEST(SafetensorsWriter, OurReaderFindsTheSameBytes) {
  const std::string folder = temporary_folder("safetensors");
  fs::create_directory(folder);
  const std::vector<OutTensor> tensors = {tensor_of("a", "I32", {2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                          tensor_of("b", "F16", {1, 3}, {9, 8, 7, 6, 5, 4})};
  ASSERT_TRUE(write_safetensors(folder + "/x.safetensors", tensors));
  const auto file = model::SafetensorsFile::open(folder + "/x.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 2U);
  const auto& b = file->tensors()[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, "F16");
  EXPECT_THAT(b.shape, testing::ElementsAre(1, 3));
  EXPECT_THAT(b.data, testing::ElementsAre(9, 8, 7, 6, 5, 4));
  EXPECT_FALSE(fs::exists(folder + "/x.safetensors.tmp"));
}

// A limit on the size of files stands in for a full disk: write() fails half way.
TEST(OutputFile, AFullDiskIsOneLineAndLeavesNothing) {
  const std::string folder = temporary_folder("full");
  fs::create_directory(folder);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto result = write_text_file(folder + "/big", std::string(10000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, testing::HasSubstr("cannot write " + folder + "/big"));
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST(HfFolderWriter, RefusesAFolderThatIsThere) {
  const std::string source = make_tiny_model("there_in"), out = temporary_folder("there_out");
  const auto checkpoint = model::open_checkpoint(source);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  fs::create_directory(out);
  const auto writer = HfFolderWriter::open(out + "/", *checkpoint, "x");
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().message, out + " exists already; name a new folder");
}

TEST(HfFolderWriter, GoesOnOnlyWithTheSameRun) {
  const std::string source = make_tiny_model("state_in"), out = temporary_folder("state_out");
  const auto checkpoint = model::open_checkpoint(source);
  ASSERT_TRUE(checkpoint);
  {
    const auto first = HfFolderWriter::open(out, *checkpoint, "rtn 4-bit g32");
    ASSERT_TRUE(first) << first.error().message;
    const auto beside = HfFolderWriter::open(out, *checkpoint, "rtn 4-bit g32");
    ASSERT_FALSE(beside);
    EXPECT_THAT(beside.error().message, testing::HasSubstr("is being written by another run"));
  }
  EXPECT_TRUE(HfFolderWriter::open(out, *checkpoint, "rtn 4-bit g32"));
  const auto other = HfFolderWriter::open(out, *checkpoint, "rtn 8-bit g32");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, testing::HasSubstr("remove it"));
  fs::remove_all(out + ".partial");
}

TEST(HfFolderWriter, TouchesNoFolderOfOthers) {
  const std::string source = make_tiny_model("foreign_in"), out = temporary_folder("foreign_out");
  const auto checkpoint = model::open_checkpoint(source);
  ASSERT_TRUE(checkpoint);
  fs::create_directory(out + ".partial");
  std::ofstream(out + ".partial/mine") << "x";
  EXPECT_FALSE(HfFolderWriter::open(out, *checkpoint, "x"));
  EXPECT_TRUE(fs::exists(out + ".partial/mine"));
  fs::remove_all(out + ".partial");
}

TEST(StoredName, IsThatOfTheFamily) {
  model::ModelConfig config;
  config.architecture = model::Architecture::kMixtral;
  EXPECT_EQ(stored_name(config, "model.layers.1.mlp.experts.3.down_proj.qweight"),
            "model.layers.1.block_sparse_moe.experts.3.w2.qweight");
  EXPECT_EQ(stored_name(config, "model.layers.1.mlp.gate.weight"),
            "model.layers.1.block_sparse_moe.gate.weight");
  config.architecture = model::Architecture::kStarcoder2;
  EXPECT_EQ(stored_name(config, "model.layers.1.mlp.up_proj.bias"), "model.layers.1.mlp.c_fc.bias");
}

}  // namespace
}  // namespace pagoda::quantize
