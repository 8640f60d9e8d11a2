#include "model/packed_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/mmap_file.h"
#include "model/loader/float_matrix.h"
#include "model/packed_file.h"

namespace pagoda::model {
namespace {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A model "file" of floats, from which two weights are packed, and a folder for its cache.
class PackedCacheTest : public ::testing::Test {
 protected:
  PackedCacheTest() {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "/packed_cache_" + test->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    model_ = folder_ + "/model.gguf";
    cache_ = folder_ + "/model.gguf.packed";
    std::string bytes;
    for (int i = 0; i < 4096 + 2048; ++i) {
      const float value = 0.5f * static_cast<float>(i % 101 - 50);
      bytes.append(reinterpret_cast<const char*>(&value), 4);
    }
    write_file(model_, bytes);
    reopen();
  }
  ~PackedCacheTest() override {
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }

  void reopen() {
    file_ = std::make_shared<const MmapFile>(MmapFile::open(model_).value());
    key_ = {"1.2.3", WeightPrecision::kNative, {{model_, file_->bytes().size(), file_->modified_ns()}}};
  }

  std::shared_ptr<const MatrixReader> matrix(size_t first, int64_t rows, int64_t depth) const {
    MatrixPlace place;
    place.keep_alive = file_;
    place.data = file_->bytes().subspan(first * 4, static_cast<size_t>(rows * depth) * 4);
    place.rows = rows;
    place.depth = depth;
    return std::make_shared<FloatMatrix>(DType::kF32, std::move(place));
  }
  // A packer whose targets live in `weights`.
  WeightPacker packer(PackedWeight (&weights)[2], int64_t rows = 64) const {
    WeightPacker packer(key_.precision);
    packer.add({matrix(0, rows, 64)}, weights[0]);
    packer.add({matrix(4096, 32, 64)}, weights[1]);
    return packer;
  }

  void store() {
    PackedWeight weights[2];
    WeightPacker fresh = packer(weights);
    const auto memory = fresh.pack(pool_);
    ASSERT_TRUE(memory);
    const auto stored = PackedCache(cache_, key_).store(fresh, memory->get(), pool_);
    ASSERT_TRUE(stored) << stored.error().message;
  }
  // Why the cache is not used; empty when it is.
  std::string refusal(int64_t rows = 64) {
    PackedWeight weights[2];
    const auto panels = PackedCache(cache_, key_).load(packer(weights, rows), pool_);
    return panels ? "" : panels.error().message;
  }

  std::string folder_, model_, cache_;
  std::shared_ptr<const MmapFile> file_;
  PackedCacheKey key_;
  ComputePool pool_{2};
};

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(PackedCacheTest, GivesBackTheSamePanels) {
  PackedWeight packed[2], cached[2];
  WeightPacker first = packer(packed), second = packer(cached);
  const auto memory = first.pack(pool_);
  ASSERT_TRUE(memory);
  const PackedCache cache(cache_, key_);
  const auto none = cache.load(second, pool_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kNotFound);
  const auto stored = cache.store(first, memory->get(), pool_);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_FALSE(fs::exists(cache_ + ".tmp"));
  const auto panels = cache.load(second, pool_);
  ASSERT_TRUE(panels) << panels.error().message;
  second.use(panels->specs, panels->memory);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cached[i].bytes(), packed[i].bytes());
    EXPECT_EQ(std::memcmp(cached[i].panel(0), packed[i].panel(0), packed[i].bytes()), 0);
  }
}

TEST_F(PackedCacheTest, KeepsTheMultipliersOfCodes) {
  // One row of Q8_0 blocks whose scales are far below f16's range once multiplied out.
  class Codes final : public MatrixReader {
   public:
    int64_t rows() const override { return 32; }
    int64_t depth() const override { return 32; }
    CodeScheme scheme() const override { return {8, 32, true, 0}; }
    Range code_range(int64_t, int64_t) const override { return {0x1.8p-40f, 0x1p-33f}; }
    void read_codes(int64_t, int64_t count, uint8_t* codes, float* scales, float* offsets) const override {
      for (int64_t i = 0; i < count * 32; ++i) codes[i] = static_cast<uint8_t>(i);
      std::fill_n(scales, count, 0x1.8p-40f);
      std::fill_n(offsets, count, -0x1p-33f);
    }
    void read_values(int64_t, int64_t, float*) const override {}
  };
  PackedWeight packed, cached;
  WeightPacker first(WeightPrecision::kNative), second(WeightPrecision::kNative);
  first.add({std::make_shared<Codes>()}, packed);
  second.add({std::make_shared<Codes>()}, cached);
  const auto memory = first.pack(pool_);
  ASSERT_TRUE(memory);
  const PackedCache cache(cache_, key_);
  ASSERT_TRUE(cache.store(first, memory->get(), pool_));
  const auto panels = cache.load(second, pool_);
  ASSERT_TRUE(panels) << panels.error().message;
  second.use(panels->specs, panels->memory);
  std::vector<float> row(32);
  cached.unpack_row(3, row);
  EXPECT_EQ(row[5], 0x1.8p-40f * (3 * 32 + 5) - 0x1p-33f);
  EXPECT_EQ(cached.spec().scale_multiplier, packed.spec().scale_multiplier);
  EXPECT_LT(packed.spec().scale_multiplier, 0x1p-40f);
}

TEST_F(PackedCacheTest, SaysWhichThingDiffers) {
  store();
  EXPECT_EQ(refusal(), "");
  const PackedCacheKey key = key_;
  key_.version = "1.2.4";
  EXPECT_EQ(refusal(), "its 'pagoda' is \"1.2.3\", this run's \"1.2.4\"");
  key_ = key;
  EXPECT_CONTAINS(refusal(32), "its weights have other shapes or formats");
  key_.precision = WeightPrecision::kFloat32;
  EXPECT_EQ(refusal(), "its 'precision' is \"native\", this run's \"float32\"");
  key_ = key;
  key_.quantization = "int8";
  EXPECT_EQ(refusal(), "its 'quantization' is \"\", this run's \"int8\"");
  key_ = key;
  key_.files.push_back(key_.files[0]);
  EXPECT_EQ(refusal(), "it is of another set of model files");
}

TEST_F(PackedCacheTest, NoticesAnotherModel) {
  store();
  const auto time = fs::last_write_time(model_);
  const std::string bytes = read_file(model_);
  const auto rewrite = [&](const std::string& content) {
    file_.reset();
    fs::remove(model_);
    write_file(model_, content);
    fs::last_write_time(model_, time);
    reopen();
  };
  std::string other = bytes;
  other[20000] ^= 1;
  rewrite(other);  // same size and time
  EXPECT_CONTAINS(refusal(), "the model file model.gguf has another hash");
  rewrite(bytes + "x");
  EXPECT_CONTAINS(refusal(), "the model file model.gguf has another bytes");
  rewrite(bytes);
  EXPECT_EQ(refusal(), "");
  fs::last_write_time(model_, time + std::chrono::seconds(1));
  EXPECT_CONTAINS(refusal(), "has changed since it was opened");
  reopen();
  EXPECT_CONTAINS(refusal(), "the model file model.gguf has another modified");
  fs::remove(model_);
  EXPECT_CONTAINS(refusal(), "cannot open " + model_);
}

TEST_F(PackedCacheTest, RefusesWhatIsCutOffOrDamaged) {
  store();
  const std::string whole = read_file(cache_);
  ASSERT_GT(whole.size(), size_t{2} << 20);
  const auto with = [&](const std::string& bytes) {
    write_file(cache_, bytes);
    return refusal();
  };
  EXPECT_EQ(with(""), "it has only 0 bytes");
  EXPECT_EQ(with("PAGODAPK"), "it has only 8 bytes");
  EXPECT_EQ(with("GGUF" + whole.substr(4)), "it is no packed cache");
  EXPECT_CONTAINS(with(whole.substr(0, 100)), "its directory of ");
  EXPECT_CONTAINS(with(whole.substr(0, whole.size() - 1)), "bytes instead of ");
  EXPECT_CONTAINS(with(whole + "x"), "bytes instead of ");
  EXPECT_CONTAINS(with(whole.substr(0, size_t{2} << 20)), "bytes instead of ");
  std::string bytes = whole;
  std::memset(bytes.data() + 8, 0xff, 4);
  EXPECT_CONTAINS(with(bytes), "its directory of 4294967295 bytes does not fit");
  // Every byte of the head and of the directory counts.
  uint32_t size;
  std::memcpy(&size, whole.data() + 8, 4);
  for (size_t at = 0; at < 20 + size; ++at) {
    bytes = whole.substr(0, 20 + size);
    bytes[at] ^= 4;
    EXPECT_NE(with(bytes), "") << at;
  }
  bytes = whole;
  std::memset(bytes.data() + (size_t{2} << 20), 0,
              bytes.size() - (size_t{2} << 20));  // a hole instead of panels
  EXPECT_EQ(with(bytes), "its panels are damaged (checksum)");
  EXPECT_EQ(with(whole), "");
}

// A wrong weight shows in answers only, and at every start: each byte of the panels must count.
TEST_F(PackedCacheTest, NoticesASingleBitAnywhereInThePanels) {
  store();
  const std::string whole = read_file(cache_);
  std::string bytes = whole;
  for (size_t at = size_t{2} << 20; at < whole.size(); at += 509) {
    bytes[at] ^= 1;
    write_file(cache_, bytes);
    EXPECT_EQ(refusal(), "its panels are damaged (checksum)") << at;
    bytes[at] ^= 1;
  }
}

TEST_F(PackedCacheTest, RefusesDirectoriesOfOthers) {
  store();
  const std::string whole = read_file(cache_);
  uint32_t size;
  std::memcpy(&size, whole.data() + 8, 4);
  const std::string directory = whole.substr(20, size);
  // A directory with a right checksum, of the same length so that the data stays where it is.
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = directory;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    text.resize(size, ' ');
    const uint64_t hash = hash_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, 0);
    std::string bytes = whole;
    std::memcpy(bytes.data() + 12, &hash, 8);
    bytes.replace(20, size, text);
    write_file(cache_, bytes);
    return refusal();
  };
  EXPECT_CONTAINS(with("\"format\":3", "\"format\":2"), "its 'format' is 2, this run's 3");
  const std::string version = std::to_string(kPackedLayoutVersion);
  EXPECT_CONTAINS(with("\"layouts\":" + version, "\"layouts\":0"),
                  "its 'layouts' is 0, this run's " + version);
  EXPECT_CONTAINS(with("\"format\":3", "\"f\":1"), "it names no 'format'");
  EXPECT_CONTAINS(with("\"format\":3", "\"format\":["), "its directory is no JSON object");
  EXPECT_CONTAINS(with("\"name\"", "\"eman\""), "the model file model.gguf has another name");
  EXPECT_CONTAINS(with("\"multipliers\":[[0,0]", "\"multipliers\":[[0]"), "weight 0 has no multipliers");
  EXPECT_CONTAINS(with("[[0,0],[0,0]]", "[[999,0],[0]]"), "weight 0 has no multipliers");
  EXPECT_CONTAINS(with("\"multipliers\"", "\"multipliets\""), "lacks multipliers");
  EXPECT_EQ(with("\"format\":3", "\"format\":3"), "");
}

TEST_F(PackedCacheTest, IsLeftAloneWhileAnotherProcessWritesIt) {
  const int other = ::open((cache_ + ".tmp").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  PackedWeight weights[2];
  WeightPacker fresh = packer(weights);
  const auto memory = fresh.pack(pool_);
  const auto stored = PackedCache(cache_, key_).store(fresh, memory->get(), pool_);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().kind, ErrorKind::kOverloaded);
  EXPECT_FALSE(fs::exists(cache_));
  ::close(other);
  store();  // what the other left behind is overwritten
  EXPECT_EQ(refusal(), "");
}

TEST_F(PackedCacheTest, WritersAndReadersAtOnce) {
  store();
  PackedWeight weights[2];
  WeightPacker fresh = packer(weights);
  const auto memory = fresh.pack(pool_);
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      ComputePool pool(1);
      for (int i = 0; i < 10; ++i) {
        if (t < 2) {
          const auto stored = PackedCache(cache_, key_).store(fresh, memory->get(), pool);
          if (!stored && stored.error().kind != ErrorKind::kOverloaded) ++bad;
        } else if (!PackedCache(cache_, key_).load(fresh, pool)) {
          ++bad;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(bad.load(), 0);
  EXPECT_EQ(refusal(), "");
}

TEST_F(PackedCacheTest, AFolderThatCannotBeWrittenIsOneMessage) {
  cache_ = folder_ + "/absent/model.packed";
  PackedWeight weights[2];
  WeightPacker fresh = packer(weights);
  const auto memory = fresh.pack(pool_);
  const auto stored = PackedCache(cache_, key_).store(fresh, memory->get(), pool_);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().kind, ErrorKind::kIo);
  EXPECT_CONTAINS(stored.error().message, "cannot create " + cache_ + ".tmp: No such file or directory");
}

TEST_F(PackedCacheTest, AFullDiskLeavesNothingBehind) {
  PackedWeight weights[2];
  WeightPacker fresh = packer(weights);
  const auto memory = fresh.pack(pool_);
  // A limit on the size of files fails like a full disk does, in the middle of the file.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{size_t{1} << 20, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto stored = PackedCache(cache_, key_).store(fresh, memory->get(), pool_);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().kind, ErrorKind::kIo);
  EXPECT_CONTAINS(stored.error().message, cache_ + ".tmp: File too large");
  EXPECT_FALSE(fs::exists(cache_));
  EXPECT_FALSE(fs::exists(cache_ + ".tmp"));
}

TEST_F(PackedCacheTest, PackOrReuseWritesUsesAndRewrites) {
  Checkpoint checkpoint;
  checkpoint.path = model_;
  checkpoint.files = key_.files;
  checkpoint.packed_cache = cache_;
  const auto run = [&] {
    PackedWeight weights[2];
    WeightPacker fresh = packer(weights);
    EXPECT_TRUE(pack_or_reuse(checkpoint, fresh, pool_));
    std::vector<float> row(64);
    weights[1].unpack_row(31, row);
    return row[63];
  };
  const float expected = 0.5f * static_cast<float>((4096 + 2047) % 101 - 50);
  EXPECT_EQ(run(), expected);
  const std::string written = read_file(cache_);
  const auto time = fs::last_write_time(cache_);
  EXPECT_EQ(run(), expected);
  EXPECT_EQ(fs::last_write_time(cache_), time);
  write_file(cache_, "rubbish");
  EXPECT_EQ(run(), expected);
  EXPECT_EQ(read_file(cache_), written);
  checkpoint.packed_cache = folder_ + "/absent/x";  // can't be written: no error
  EXPECT_EQ(run(), expected);
  checkpoint.packed_cache.clear();
  EXPECT_EQ(run(), expected);
}

TEST_F(PackedCacheTest, PackedWeightsNeedNoMappedFile) {
  const std::string name = fs::path(folder_).filename().string() + "/model.gguf";
  const auto is_mapped = [&] { return read_file("/proc/self/maps").find(name) != std::string::npos; };
  PackedWeight weights[2];
  {
    WeightPacker fresh = packer(weights);
    ASSERT_TRUE(fresh.pack(pool_));
    file_.reset();
    EXPECT_TRUE(is_mapped());  // by the readers
  }
  EXPECT_FALSE(is_mapped());
  fs::resize_file(model_, 0);
  std::vector<float> row(64);
  weights[0].unpack_row(0, row);
  EXPECT_EQ(row[1], -24.5f);
}

TEST_F(PackedCacheTest, PathFollowsTheFlag) {
  Checkpoint checkpoint;
  checkpoint.path = model_;
  checkpoint.name = "model";
  const auto path = [&](const std::string& choice, WeightPrecision precision = WeightPrecision::kNative) {
    return packed_cache_path(choice, checkpoint, precision).value();
  };
  EXPECT_EQ(path("off"), "");
  EXPECT_EQ(path("auto"), fs::path(model_).lexically_normal().string() + ".packed");
  EXPECT_EQ(path("auto", WeightPrecision::kFloat32),
            fs::path(model_).lexically_normal().string() + ".float32.packed");
  checkpoint.rounding = "int4";
  EXPECT_EQ(path("auto"), fs::path(model_).lexically_normal().string() + ".int4.packed");
  checkpoint.rounding.clear();
  const std::string one = path(folder_);
  EXPECT_CONTAINS(one, folder_ + "/model-");
  checkpoint.path = folder_ + "/other/model.gguf";
  EXPECT_NE(path(folder_), one);
  checkpoint.path = folder_;
  EXPECT_EQ(path("auto"), (fs::path(folder_).lexically_normal() / "model.packed").string());
  const auto refused = packed_cache_path("on", checkpoint, WeightPrecision::kNative);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(refused.error().param, "--packed-cache");
}

TEST(HashBytes, EveryByteAndTheLengthCount) {
  std::vector<uint8_t> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37);
  const uint64_t hash = hash_bytes(bytes, 1);
  EXPECT_NE(hash_bytes(bytes, 2), hash);
  for (auto& byte : bytes) {
    byte ^= 1;
    EXPECT_NE(hash_bytes(bytes, 1), hash);
    byte ^= 1;
  }
  const std::vector<uint8_t> zeros(64);
  EXPECT_NE(hash_bytes(std::span(zeros).first(32), 0), hash_bytes(zeros, 0));
  EXPECT_NE(hash_bytes(std::span(zeros).first(3), 0), hash_bytes(std::span(zeros).first(4), 0));
}

// Several pieces, the last of them short.
TEST(HashBytes, PiecesAreAllHashedForAnyNumberOfThreads) {
  std::vector<uint8_t> bytes((size_t{9} << 20) + 5, 3);
  ComputePool one(1), three(3);
  const uint64_t hash = hash_pieces(bytes, one);
  EXPECT_EQ(hash_pieces(bytes, three), hash);
  for (const size_t at : {size_t{0}, size_t{4} << 20, (size_t{8} << 20) - 1, bytes.size() - 1}) {
    bytes[at] ^= 128;
    EXPECT_NE(hash_pieces(bytes, three), hash) << at;
    bytes[at] ^= 128;
  }
  EXPECT_NE(hash_pieces(std::span(bytes).first(bytes.size() - 5), three), hash);
}

}  // namespace
}  // namespace pagoda::model
