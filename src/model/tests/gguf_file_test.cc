#include "model/loader/gguf_file.h"

#include <gtest/gtest.h>

#include "model_files.h"

namespace pagoda::model {
namespace {

using namespace test;

Result<GgufFile> parse(const std::string& bytes) {
  return GgufFile::parse("x.gguf", {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

const std::string kArch = gguf_kv("general.architecture", 8, gguf_text("llama"));

// One key, one tensor of 8 floats.
GgufParts base() {
  GgufParts parts;
  parts.keys = {kArch};
  parts.infos = {gguf_info("t", {8}, 0, 0)};
  parts.data.assign(32, '\0');
  return parts;
}

GgufParts with_key(std::string_view key, uint32_t type, const std::string& value) {
  GgufParts parts = base();
  parts.keys = {gguf_kv(key, type, value)};
  return parts;
}

GgufParts with_infos(std::vector<std::string> infos, size_t data_bytes = 32) {
  GgufParts parts = base();
  parts.infos = std::move(infos);
  parts.data.assign(data_bytes, '\0');
  return parts;
}

TEST(GgufFile, ReadsTheBaseFile) {
  const std::string bytes = base().bytes();
  ASSERT_EQ(bytes.size(), 160u);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(**file->string("general.architecture"), "llama");
  ASSERT_EQ(file->tensors().size(), 1u);
  EXPECT_EQ(file->tensors()[0].name, "t");
  EXPECT_EQ(file->tensors()[0].offset, 128u);
  EXPECT_EQ(file->tensors()[0].data.size(), 32u);
}

TEST(GgufFile, AcceptsWhatTheFormatAllows) {
  GgufParts version2 = base();
  version2.version = le<uint32_t>(2);
  EXPECT_TRUE(parse(version2.bytes()));
  EXPECT_TRUE(parse(with_infos({gguf_info(std::string(63, 'n'), {8}, 0, 0)}).bytes()));
  EXPECT_TRUE(parse(with_infos({}, 0).bytes()));
  EXPECT_TRUE(parse(with_key("general.alignment", 4, le<uint32_t>(64)).bytes() + std::string(32, '\0')));
  // A hole between two tensors, and tensors in another order than their data.
  EXPECT_TRUE(parse(with_infos({gguf_info("a", {8}, 0, 64), gguf_info("b", {8}, 0, 0)}, 96).bytes()));
}

struct BadCase {
  const char* name;
  std::string bytes;
  const char* message;  // must be part of the error
};

std::vector<BadCase> bad_headers() {
  std::vector<BadCase> cases;
  const auto add = [&](const char* name, const GgufParts& parts, const char* message) {
    cases.push_back({name, parts.bytes(), message});
  };
  cases.push_back({"empty", "", "offset 0"});
  cases.push_back({"magic only", "GGUF", "version"});
  GgufParts parts = base();
  parts.magic = "GGUX";
  add("bad magic", parts, "'GGUX'");
  for (const uint32_t version : {0u, 1u, 99u}) {
    parts = base();
    parts.version = le(version);
    add("bad version", parts, "version");
  }
  parts = base();
  parts.version = std::string("\0\0\0\3", 4);
  add("big-endian", parts, "big-endian");
  parts = base();
  parts.num_keys = int64_t{1} << 62;
  add("huge key count", parts, "keys at offset 16");
  parts = base();
  parts.num_tensors = int64_t{1} << 60;
  add("huge tensor count", parts, "tensors at offset 8");
  parts = base();
  parts.keys = {le(UINT64_MAX) + "abc"};
  add("huge key length", parts, "key 0 at offset");
  return cases;
}

std::vector<BadCase> bad_keys() {
  std::vector<BadCase> cases;
  const auto add = [&](const char* name, const GgufParts& parts, const char* message) {
    cases.push_back({name, parts.bytes(), message});
  };
  add("huge string", with_key("k", 8, le(uint64_t{1} << 63) + "x"), "value of key 'k'");
  add("unknown type", with_key("k", 77, std::string(8, '\0')), "type 77");
  add("huge array", with_key("k", 9, le<uint32_t>(4) + le(uint64_t{1} << 61)),
      "2305843009213693952 elements");
  add("huge string array", with_key("k", 9, le<uint32_t>(8) + le(uint64_t{1} << 61)), "strings");
  add("array of array",
      with_key("k", 9, le<uint32_t>(9) + le<uint64_t>(1) + le<uint32_t>(4) + le<uint64_t>(1)),
      "array of type 9");
  GgufParts twice = base();
  twice.keys = {kArch, kArch};
  add("same key twice", twice, "'general.architecture' at offset 69 appears twice");
  add("empty key", with_key("", 4, le<uint32_t>(1)), "printable");
  add("key of other bytes", with_key("\xff\xfe", 4, le<uint32_t>(1)), "'\\xff\\xfe'");
  add("bool of 2", with_key("k", 7, "\2"), "bool of value 2");
  for (const uint32_t alignment : {0u, 3u, 4u, 1u << 31}) {
    add("bad alignment", with_key("general.alignment", 4, le(alignment)), "'general.alignment' at offset");
  }
  add("alignment of type i32", with_key("general.alignment", 5, le<int32_t>(32)), "type i32 instead of u32");
  return cases;
}

std::vector<BadCase> bad_tensors() {
  std::vector<BadCase> cases;
  const auto add = [&](const char* name, const GgufParts& parts, const char* message) {
    cases.push_back({name, parts.bytes(), message});
  };
  add("9 dimensions", with_infos({gguf_info("t", std::vector<uint64_t>(9, 1), 0, 0)}), "9 dimensions");
  add("no dimension", with_infos({gguf_info("t", {}, 0, 0)}), "0 dimensions");
  std::string info = gguf_info("t", {1}, 0, 0);
  info.replace(9, 4, le(UINT32_MAX));
  add("2^32-1 dimensions", with_infos({info}), "4294967295 dimensions");
  add("dimension of 2^63", with_infos({gguf_info("t", {uint64_t{1} << 63}, 0, 0)}), "'t'");
  add("product wraps", with_infos({gguf_info("t", {uint64_t{1} << 32, uint64_t{1} << 32, 16}, 0, 0)}),
      "impossible");
  add("bytes wrap", with_infos({gguf_info("t", {uint64_t{1} << 62}, 0, 0)}), "too many");
  add("dimension of 0", with_infos({gguf_info("t", {0}, 0, 0)}), "impossible");
  add("unknown type", with_infos({gguf_info("t", {8}, 99, 0)}), "type 99");
  add("removed type", with_infos({gguf_info("t", {32}, 4, 0)}), "type 4");
  add("Q4_0 rows of 33", with_infos({gguf_info("t", {33}, 2, 0)}), "blocks of 32");
  add("misaligned", with_infos({gguf_info("t", {8}, 0, 1)}, 64), "offset 1");
  add("offset beyond the file", with_infos({gguf_info("t", {8}, 0, uint64_t{1} << 40)}), "1099511627776");
  add("offset wraps", with_infos({gguf_info("t", {8}, 0, UINT64_MAX - 31)}), "data offset");
  add("data too short", with_infos({gguf_info("t", {1024}, 0, 0)}), "needs 4096 bytes");
  add("same name twice", with_infos({gguf_info("t", {8}, 0, 0), gguf_info("t", {8}, 0, 32)}, 64),
      "appears twice");
  add("overlap", with_infos({gguf_info("a", {8}, 0, 0), gguf_info("b", {8}, 0, 0)}, 64), "overlap");
  add("partial overlap", with_infos({gguf_info("a", {16}, 0, 0), gguf_info("b", {8}, 0, 32)}, 64), "overlap");
  add("name of 64", with_infos({gguf_info(std::string(64, 'n'), {8}, 0, 0)}), "63 printable");
  add("empty name", with_infos({gguf_info("", {8}, 0, 0)}), "printable");
  return cases;
}

TEST(GgufFile, RefusesMalformedFilesAndSaysWhy) {
  for (const auto& cases : {bad_headers(), bad_keys(), bad_tensors()}) {
    for (const BadCase& bad : cases) {
      const auto file = parse(bad.bytes);
      ASSERT_FALSE(file) << bad.name;
      EXPECT_EQ(file.error().kind, ErrorKind::kCorruptFile) << bad.name;
      EXPECT_TRUE(file.error().message.starts_with("x.gguf: ")) << file.error().message;
      EXPECT_NE(file.error().message.find(bad.message), std::string::npos)
          << bad.name << ": " << file.error().message;
      EXPECT_EQ(file.error().message.find('\n'), std::string::npos) << bad.name;
    }
  }
}

TEST(GgufFile, RefusesEveryTruncation) {
  const std::string whole = base().bytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly this length, so that a sanitizer sees any read beyond it.
    const std::vector<uint8_t> bytes(whole.begin(), whole.begin() + static_cast<int64_t>(length));
    EXPECT_FALSE(GgufFile::parse("x.gguf", bytes)) << length;
  }
}

TEST(GgufFile, TypedQuestionsCheckTypes) {
  GgufBuilder builder;
  builder.raw("u8", 0, "\xff")
      .raw("i8", 1, "\xff")
      .raw("u64", 10, le(UINT64_MAX))
      .raw("i64", 11, le<int64_t>(-5));
  builder.raw("f64", 12, le(0.1)).f32("f32", 0.5f).boolean("bool", true).text("text", "word");
  builder.texts("texts", {"a", "", "ccc"})
      .floats("floats", {1, 2})
      .i32s("ints", {-1, 7})
      .bools("bools", {1, 0});
  const std::string bytes = builder.bytes();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(**file->integer("u8"), 255);
  EXPECT_EQ(**file->integer("i8"), -1);
  EXPECT_EQ(**file->integer("i64"), -5);
  EXPECT_FALSE(file->integer("u64"));  // beyond int64
  EXPECT_FALSE(file->integer("f32"));
  EXPECT_FALSE(file->integer("bool"));
  EXPECT_FALSE(file->integer("texts"));
  EXPECT_EQ(**file->real("f64"), 0.1);
  EXPECT_EQ(**file->real("f32"), 0.5);
  EXPECT_EQ(**file->real("u8"), 255.0);
  EXPECT_FALSE(file->real("text"));
  EXPECT_EQ(**file->boolean("bool"), true);
  EXPECT_FALSE(file->boolean("u8"));
  EXPECT_EQ(**file->strings("texts"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_FALSE(file->strings("floats"));
  EXPECT_EQ(**file->floats("floats"), (std::vector<float>{1, 2}));
  EXPECT_EQ(**file->integers("ints"), (std::vector<int64_t>{-1, 7}));
  EXPECT_EQ(**file->integers("bools"), (std::vector<int64_t>{1, 0}));
  EXPECT_FALSE(*file->integer("absent"));
  EXPECT_EQ(file->integer("text").error().message.find("x.gguf: key 'text' at offset"), 0u);
}

}  // namespace
}  // namespace pagoda::model
