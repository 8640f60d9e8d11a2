// Broken files never crash: every truncation of a small file, and thousands of random changes to real ones.
// What still opens must also be readable to the last row.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <random>

#include "model/checkpoint.h"
#include "model/pack.h"
#include "model_files.h"
#include "support/shared_data.h"

namespace pagoda::model {
namespace {

using namespace test;

// A file in memory with a path, rewritten in place.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("model", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }
  void write(std::string_view bytes, size_t at = 0) {
    ASSERT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes.size()));
  }
  void truncate(size_t size) { ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(size)), 0); }

 private:
  int fd_;
};

// Opens and reads everything; true when the file was accepted.
bool exercise(const std::string& path, ComputePool& pool) {
  const auto checkpoint = open_checkpoint(path);
  if (!checkpoint) {
    EXPECT_EQ(checkpoint.error().message.find('\n'), std::string::npos) << checkpoint.error().message;
    EXPECT_LT(checkpoint.error().message.size(), 2000u);
    return false;
  }
  for (const TensorInfo& info : checkpoint->tensors->list()) {
    if (info.shape.size() != 2) continue;
    const auto matrix = checkpoint->tensors->matrix(info.name, info.shape[0], info.shape[1]);
    if (!matrix) continue;
    const MatrixReader* const part = matrix->get();
    (void)pack_matrix({&part, 1}, WeightPrecision::kNative, pool);
  }
  return true;
}

TEST(GgufFuzz, EveryTruncationIsRefused) {
  ComputePool pool(1);
  MemoryFile file;
  // The header and the table, and a cut through the data.
  const std::string whole = tiny_gguf().bytes();
  file.truncate(whole.size());
  file.write(whole);
  ASSERT_TRUE(exercise(file.path(), pool));
  for (size_t length = whole.size(); length-- > 0;) {
    if (length > 2048 && length % 97 != 0) continue;  // inside the data all lengths are alike
    file.truncate(length);
    ASSERT_FALSE(exercise(file.path(), pool)) << length;
  }
}

void flip_bytes(const std::string& golden, int rounds, uint32_t seed) {
  const auto path = testing_support::golden_dir() / "gguf" / golden;
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not here: it comes with the reference data";
  std::ifstream stream(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(whole.empty());
  // The keys and the table lie in front; flips in the data alone change numbers and nothing else.
  const size_t head = std::min<size_t>(whole.size(), 30000);
  ComputePool pool(1);
  MemoryFile file;
  file.truncate(whole.size());
  file.write(whole);
  std::mt19937 random(seed);
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<size_t> places;
    for (auto n = 1 + random() % 3; n-- > 0;) {
      const size_t place = random() % (random() % 4 == 0 ? whole.size() : head);
      places.push_back(place);
      const char byte = static_cast<char>(random());
      file.write({&byte, 1}, place);
    }
    accepted += exercise(file.path(), pool) ? 1 : 0;
    for (const size_t place : places) file.write({&whole[place], 1}, place);
    if (::testing::Test::HasFailure()) {
      FAIL() << "seed " << seed << " round " << round;
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, rounds);
}

TEST(GgufFuzz, FlippedBytesOfALlamaFile) {
  flip_bytes("llama-q4_k_m.gguf", 2500, 1);
}
TEST(GgufFuzz, FlippedBytesOfAQwenFile) {
  flip_bytes("qwen2-q4_k_m.gguf", 2500, 2);
}

TEST(GgufFuzz, FlippedBytesOfQ2K) {
  flip_bytes("llama-q2_k.gguf", 2500, 1);
}

}  // namespace
}  // namespace pagoda::model
