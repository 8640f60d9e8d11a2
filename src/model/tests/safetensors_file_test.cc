#include "model/loader/safetensors_file.h"

#include <gtest/gtest.h>

#include "model_files.h"

namespace pagoda::model {
namespace {

using namespace test;

Result<SafetensorsFile> parse(const std::string& bytes) {
  return SafetensorsFile::parse("x.safetensors",
                                {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

// One entry of the header.
std::string entry(const std::string& name, const std::string& shape, const std::string& range,
                  const std::string& dtype = "F32") {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + range +
         "}";
}
const std::string kData4 = le(1.5f);
const std::string kBase = "{" + entry("a", "[1]", "[0,4]") + "}";

TEST(SafetensorsFile, ReadsTheBaseFile) {
  const std::string bytes = safetensors_bytes(kBase, kData4);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 1u);
  const SafetensorsTensor& a = file->tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, "F32");
  EXPECT_EQ(a.shape, std::vector<int64_t>{1});
  EXPECT_EQ(a.offset, bytes.size() - 4);
  EXPECT_EQ(std::string(a.data.begin(), a.data.end()), kData4);
}

TEST(SafetensorsFile, AcceptsWhatTheFormatAllows) {
  EXPECT_TRUE(parse(safetensors_bytes(kBase + "   ", kData4)));
  EXPECT_TRUE(parse(safetensors_bytes(" " + kBase, kData4)));
  EXPECT_TRUE(parse(safetensors_bytes("{}")));
  EXPECT_TRUE(parse(
      safetensors_bytes(R"({"__metadata__":{"format":"pt"},)" + entry("a", "[1]", "[0,4]") + "}", kData4)));
  EXPECT_TRUE(parse(safetensors_bytes("{" + entry("a", "[]", "[0,4]") + "}", kData4)));
  const auto empty = parse(
      safetensors_bytes("{" + entry("e", "[0,5]", "[0,0]") + "," + entry("a", "[1]", "[0,4]") + "}", kData4));
  EXPECT_TRUE(empty) << empty.error().message;
  const auto order = parse(safetensors_bytes(
      "{" + entry("b", "[1]", "[4,8]") + "," + entry("a", "[1]", "[0,4]") + "}", le(1.0f) + le(2.0f)));
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->tensors()[0].name, "a");
}

struct BadCase {
  const char* name;
  std::string bytes;
  const char* message;
};

std::vector<BadCase> bad_cases() {
  const auto one = [](const std::string& e, const std::string& data = kData4) {
    return safetensors_bytes("{" + e + "}", data);
  };
  const auto length = [](uint64_t claimed, const std::string& rest) { return le(claimed) + rest; };
  const std::string a = entry("a", "[1]", "[0,4]");
  return {
      {"short", "\4", "1 bytes"},
      {"seven bytes", std::string(7, '\0'), "7 bytes"},
      {"length 2^63", length(uint64_t{1} << 63, kBase + kData4), "9223372036854775808"},
      {"length beyond the file", length(10000, kBase + kData4), "10000"},
      {"length above the limit", length(100000001, "{}"), "100000001"},
      {"no JSON", safetensors_bytes("{{{{"), "offset"},
      {"empty header", safetensors_bytes(""), "not valid JSON"},
      {"cut header", safetensors_bytes(kBase.substr(0, kBase.size() - 1), kData4), "not valid JSON"},
      {"two values", safetensors_bytes(kBase + "{}", kData4), "not valid JSON"},
      {"array", safetensors_bytes("[]"), "the header is an array"},
      {"number", safetensors_bytes("1"), "not an object"},
      {"not UTF-8", safetensors_bytes("{\"\xff\":1}"), "not valid JSON"},
      {"entry is a number", safetensors_bytes(R"({"a":1})"), "'a' is the number 1"},
      {"beyond the data", one(entry("a", "[2]", "[0,8]")), "[0, 8) of 4"},
      {"reversed", one(entry("a", "[1]", "[4,0]")), "[4, 0)"},
      {"overlap", one(a + "," + entry("b", "[1]", "[0,4]")), "begins at offset"},
      {"hole", one(a + "," + entry("b", "[1]", "[8,12]"), std::string(12, '\0')), "begins at offset"},
      {"unused bytes", one(a, std::string(8, '\0')), "the file has"},
      {"size and shape differ", one(entry("a", "[1000,1000]", "[0,4]")), "needs 4000000 bytes"},
      {"shape overflows", one(entry("a", "[4611686018427387904,4]", "[0,4]")), "impossible shape"},
      {"dimension above int64", one(entry("a", "[18446744073709551615]", "[0,4]")), "impossible shape"},
      {"dimension above 64 bits", one(entry("a", "[184467440737095516150]", "[0,4]")), "the number"},
      {"unknown dtype", one(entry("a", "[1]", "[0,4]", "F33")), "'F33'"},
      {"negative offset", one(entry("a", "[1]", "[-4,0]")), "the number -4"},
      {"fraction", one(entry("a", "[1]", "[0,4.0]")), "the number 4.0"},
      {"same key twice", one(a + "," + a), "'a' appears twice"},
      {"same key, other range", one(a + "," + entry("a", "[1]", "[4,8]"), std::string(8, '\0')),
       "appears twice"},
      {"metadata of numbers", one(R"("__metadata__":{"x":1},)" + a), "the number 1"},
      {"nested metadata", one(R"("__metadata__":{"x":{}},)" + a), "an object"},
      {"three offsets", one(entry("a", "[1]", "[0,4,4]")), "data_offsets"},
      {"nine dimensions", one(entry("a", "[1,1,1,1,1,1,1,1,1]", "[0,4]")), "more than 8"},
      {"no dtype", one(R"("a":{"shape":[1],"data_offsets":[0,4]})"), "lacks"},
      {"no shape", one(R"("a":{"dtype":"F32","data_offsets":[0,4]})"), "lacks"},
      {"unknown field", one(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})"),
       "unknown field 'x'"},
      {"field twice", one(R"("a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"), "twice"},
      {"dtype is a list", one(R"("a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]})"), "an array"},
      {"nested shape", one(R"("a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]})"), "an array"},
      {"deep nesting", safetensors_bytes(std::string(1000000, '[')), "the header is an array"},
  };
}

TEST(SafetensorsFile, RefusesMalformedFilesAndSaysWhy) {
  for (const BadCase& bad : bad_cases()) {
    const auto file = parse(bad.bytes);
    ASSERT_FALSE(file) << bad.name;
    EXPECT_EQ(file.error().kind, ErrorKind::kCorruptFile) << bad.name;
    EXPECT_EQ(file.error().message.find("x.safetensors: "), 0u) << file.error().message;
    EXPECT_NE(file.error().message.find(bad.message), std::string::npos)
        << bad.name << ": " << file.error().message;
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos) << bad.name;
  }
}

TEST(SafetensorsFile, RefusesEveryTruncationAndSurvivesEveryByte) {
  const std::string whole = safetensors_bytes(R"({"__metadata__":{"k":"v"},)" + entry("a", "[1]", "[0,4]") +
                                                  "," + entry("b", "[2,1]", "[4,8]", "BF16") + "}",
                                              std::string(8, '\1'));
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::vector<uint8_t> bytes(whole.begin(), whole.begin() + static_cast<int64_t>(length));
    EXPECT_FALSE(SafetensorsFile::parse("x", bytes)) << length;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::vector<uint8_t> bytes(whole.begin(), whole.end());
      bytes[at] = static_cast<uint8_t>(value);
      const auto file = SafetensorsFile::parse("x", bytes);
      if (!file) continue;
      for (const SafetensorsTensor& tensor : file->tensors()) {
        ASSERT_GE(tensor.data.data(), bytes.data());
        ASSERT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
      }
    }
  }
}

}  // namespace
}  // namespace pagoda::model
