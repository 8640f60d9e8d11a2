#include "base/mmap_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace pagoda {
namespace {

TEST(MmapFileTest, MapsBytesAndMoves) {
  const std::string path = testing::TempDir() + "/mmap_file_test.bin";
  std::ofstream(path, std::ios::binary) << "hello";
  auto file = MmapFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  MmapFile moved = std::move(*file);
  EXPECT_EQ(std::string(moved.bytes().begin(), moved.bytes().end()), "hello");
  EXPECT_EQ(moved.path(), path);
}

TEST(MmapFileTest, EmptyFileIsAnEmptySpan) {
  const std::string path = testing::TempDir() + "/mmap_file_test_empty.bin";
  std::ofstream(path, std::ios::binary).flush();
  auto file = MmapFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MmapFileTest, ReleasedPagesStayReadable) {
  const std::string path = testing::TempDir() + "/mmap_file_test_release.bin";
  std::string text;
  for (int i = 0; i < 40000; ++i) text += static_cast<char>('a' + i % 26);
  std::ofstream(path, std::ios::binary) << text;
  auto file = MmapFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  MmapFile::release(file->bytes());
  MmapFile::release(file->bytes().subspan(5000, 10));  // inside one page: nothing to release
  MmapFile::release({});
  EXPECT_EQ(std::string(file->bytes().begin(), file->bytes().end()), text);
}

TEST(MmapFileTest, NamesThePathOnFailure) {
  auto missing = MmapFile::open("/no/such/file");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kIo);
  EXPECT_NE(missing.error().message.find("/no/such/file"), std::string::npos);
  auto folder = MmapFile::open(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace pagoda
