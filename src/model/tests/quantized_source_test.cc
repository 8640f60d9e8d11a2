// The readers of quantised Hugging Face matrices, on vectors worked out by hand and on files that are wrong.
#include "model/loader/quantized_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "model/loader/grouped_matrix.h"
#include "model_files.h"
#include "tensor/half.h"
#include "tensor/packed_weight.h"

namespace pagoda::model {
namespace {

using namespace test;
using Values = std::vector<float>;

std::string f16_list(const Values& values) {
  std::string bytes;
  for (const float value : values) bytes += le(f32_to_f16(value));
  return bytes;
}
RawTensor words(const std::string& name, std::vector<int64_t> shape, const std::vector<uint32_t>& values) {
  return {name, "I32", std::move(shape), le_list(values)};
}
RawTensor halves(const std::string& name, std::vector<int64_t> shape, const Values& values) {
  return {name, "F16", std::move(shape), f16_list(values)};
}

QuantizationConfig config_of(QuantMethod method, CodeFormat format) {
  QuantizationConfig config;
  config.method = method;
  config.formats = {format};
  config.where = "config.json";
  return config;
}

// A folder with one matrix, "x".
class QuantizedFile {
 public:
  QuantizedFile(std::vector<RawTensor> tensors, QuantizationConfig config) {
    dir_.write("model.safetensors", raw_safetensors(tensors));
    auto files = SafetensorsSource::open(dir_.path());
    if (!files) {
      ADD_FAILURE() << files.error().message;
      return;
    }
    auto source = QuantizedSource::create(std::move(*files), std::move(config));
    if (source) {
      source_ = std::move(*source);
    } else {
      error_ = source.error().message;
    }
  }
  const QuantizedSource& source() const { return *source_; }
  std::string error(int64_t rows, int64_t depth) const {
    if (!source_) return error_;
    const auto reader = source_->matrix("x.weight", rows, depth);
    if (reader) return "";
    EXPECT_EQ(reader.error().message.find('\n'), std::string::npos);
    return reader.error().message;
  }
  Values row(int64_t index, int64_t rows, int64_t depth) const {
    const auto reader = source_->matrix("x.weight", rows, depth);
    if (!reader) {
      ADD_FAILURE() << reader.error().message;
      return {};
    }
    Values values(static_cast<size_t>(depth));
    (*reader)->read_values(index, 1, values.data());
    return values;
  }

 private:
  TempDir dir_;
  std::unique_ptr<QuantizedSource> source_;
  std::string error_;
};

// What a packed weight would multiply with, from codes, scales and offsets.
Values from_codes(const MatrixReader& reader, int64_t first, int64_t count) {
  const CodeScheme scheme = reader.scheme();
  const int64_t depth = reader.depth(), groups = round_up(depth, kDepthMultiple) / scheme.group_size;
  std::vector<uint8_t> codes(static_cast<size_t>(count * depth));
  Values scales(static_cast<size_t>(count * groups)), offsets(scales), values(codes.size());
  reader.read_codes(first, count, codes.data(), scales.data(), scheme.has_offsets ? offsets.data() : nullptr);
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto r = static_cast<int64_t>(i) / depth, k = static_cast<int64_t>(i) % depth;
    const auto at = static_cast<size_t>(r * groups + k / scheme.group_size);
    EXPECT_LT(codes[i], 1 << scheme.bits);
    const auto order = reader.column_order();
    const int64_t column = order.empty() ? k : order[static_cast<size_t>(k)];
    values[static_cast<size_t>(r * depth + column)] =
        scales[at] * static_cast<float>(codes[i] - scheme.zero_point) + offsets[at];
  }
  return values;
}

// Any range of rows, by codes and by values, is the same range of all rows.
void expect_consistent(const MatrixReader& reader, float tolerance) {
  const int64_t rows = reader.rows(), depth = reader.depth();
  Values all(static_cast<size_t>(rows * depth));
  reader.read_values(0, rows, all.data());
  for (const auto& [first, count] :
       {std::pair<int64_t, int64_t>{0, rows}, {1, 1}, {3, rows - 4}, {rows - 1, 1}}) {
    const auto begin = all.begin() + first * depth;
    Values part(static_cast<size_t>(count * depth));
    reader.read_values(first, count, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), begin));
    if (reader.scheme().bits == 0) continue;
    const Values coded = from_codes(reader, first, count);
    for (size_t i = 0; i < coded.size(); ++i) ASSERT_NEAR(coded[i], part[i], tolerance) << first << " " << i;
  }
  if (reader.scheme().bits == 0) return;
  const MatrixReader::Range range = reader.code_range(0, rows);
  EXPECT_GT(range.max_scale, 0);
  EXPECT_EQ(range.max_offset > 0, reader.scheme().has_offsets);
}

// CASES B097: 4 bits, 8 x 8, one group, q[k][n] = (k + 2 n) mod 16, scale 0.5, zero points 0 to 7 stored.
std::vector<RawTensor> small_gptq() {
  return {
      words("x.qweight", {1, 8},
            {0x76543210, 0x98765432, 0xba987654, 0xdcba9876, 0xfedcba98, 0x10fedcba, 0x3210fedc, 0x543210fe}),
      words("x.qzeros", {1, 1}, {0x76543210}), halves("x.scales", {1, 8}, Values(8, 0.5f))};
}
constexpr CodeFormat kOneGroup{4, CodeFormat::kPerRow};

TEST(GptqMatrix, BothFormatsOfZeroPoints) {
  QuantizationConfig config = config_of(QuantMethod::kGptq, kOneGroup);
  const QuantizedFile v1(small_gptq(), config);
  // The case lists inputs by rows; rows of the reader are outputs.
  const auto input_row = [](const QuantizedFile& file, int64_t k) {
    Values values;
    for (int64_t n = 0; n < 8; ++n) values.push_back(file.row(n, 8, 8)[static_cast<size_t>(k)]);
    return values;
  };
  EXPECT_EQ(input_row(v1, 0), (Values{-0.5f, 0, 0.5f, 1, 1.5f, 2, 2.5f, 3}));
  EXPECT_EQ(input_row(v1, 7), (Values{3, 3.5f, 4, 4.5f, 5, -2.5f, -2, -1.5f}));
  config.zeros_minus_one = false;
  EXPECT_EQ(input_row(QuantizedFile(small_gptq(), config), 0), (Values{0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f}));
}

TEST(GptqMatrix, AStoredZeroOfAllOnesIsZero) {
  auto tensors = small_gptq();
  tensors[1] = words("x.qzeros", {1, 1}, {0xffffffff});
  const QuantizedFile file(tensors, config_of(QuantMethod::kGptq, kOneGroup));
  EXPECT_EQ(file.row(0, 8, 8), (Values{0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f}));
  EXPECT_EQ((*file.source().matrix("x.weight", 8, 8))->scheme().zero_point, 0);
}

// Eight outputs, all alike: codes 0 to 7, two groups of 4 with scales 1 and 10, zero 8.
std::vector<RawTensor> act_order(const std::vector<int32_t>& g_idx) {
  Values scales(8, 1.0f);
  scales.resize(16, 10.0f);
  return {words("x.qweight", {1, 8}, std::vector<uint32_t>(8, 0x76543210)),
          words("x.qzeros", {2, 1}, {0x77777777, 0x77777777}), halves("x.scales", {2, 8}, scales),
          RawTensor{"x.g_idx", "I32", {8}, le_list(g_idx)}};
}

TEST(GptqMatrix, ActOrder) {
  QuantizationConfig config = config_of(QuantMethod::kGptq, {4, 4});
  config.needs_group_index = true;
  const Values sequential = {-8, -7, -6, -5, -40, -30, -20, -10};
  EXPECT_EQ(QuantizedFile(act_order({0, 1, 0, 1, 1, 0, 1, 0}), config).row(3, 8, 8),
            (Values{-8, -70, -6, -50, -40, -3, -20, -1}));
  EXPECT_EQ(QuantizedFile(act_order({0, 0, 0, 0, 1, 1, 1, 1}), config).row(3, 8, 8), sequential);
  EXPECT_EQ(QuantizedFile(act_order(std::vector<int32_t>(8, 0)), config).row(3, 8, 8), sequential);
  for (const int32_t bad : {2, -1, 1 << 30}) {
    const QuantizedFile file(act_order({0, 1, 0, 1, 1, 0, 1, bad}), config);
    EXPECT_NE(file.error(8, 8).find("'x.g_idx' at offset"), std::string::npos);
    EXPECT_NE(file.error(8, 8).find("entry 7 is " + std::to_string(bad) + ", but there are 2 groups"),
              std::string::npos)
        << file.error(8, 8);
  }
  auto without = act_order({});
  without.pop_back();
  EXPECT_NE(QuantizedFile(without, config).error(8, 8).find("'x.g_idx' is missing"), std::string::npos);
  config.needs_group_index = false;
  EXPECT_EQ(QuantizedFile(without, config).row(3, 8, 8), sequential);
}

// CASES B098.
TEST(AwqMatrix, OrderOfNibblesAndZeroPoints) {
  const std::vector<RawTensor> tensors = {words("x.qweight", {1, 1}, {0x75316420}),
                                          words("x.qzeros", {1, 1}, {0x43214321}),
                                          halves("x.scales", {1, 8}, Values(8, 0.25f))};
  const QuantizedFile file(tensors, config_of(QuantMethod::kAwq, kOneGroup));
  Values outputs;
  for (int64_t n = 0; n < 8; ++n) outputs.push_back(file.row(n, 8, 1)[0]);
  EXPECT_EQ(outputs, (Values{-0.25f, 0, 0, 0.25f, 0.25f, 0.5f, 0.5f, 0.75f}));
}

// Random files of every format, their tensors in order of importance: the codes first.
struct RandomFile {
  std::vector<RawTensor> tensors;
  QuantizationConfig config;
  int64_t rows, depth;
};

std::string random_bytes(std::mt19937& random, int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes += static_cast<char>(random() & 255);
  return bytes;
}
std::string random_scales(std::mt19937& random, int64_t count) {
  Values scales;
  for (int64_t i = 0; i < count; ++i) scales.push_back(0.25f + static_cast<float>(random() % 1000) / 4096);
  return f16_list(scales);
}

RandomFile random_gptq(std::mt19937& random, int bits, int64_t group) {
  const int64_t rows = 40, depth = 192, per_word = 32 / bits;
  const int64_t groups = group < 0 ? 1 : (depth + group - 1) / group;
  return {{{"x.qweight", "I32", {depth / per_word, rows}, random_bytes(random, depth / per_word * rows * 4)},
           {"x.qzeros", "I32", {groups, rows / per_word}, random_bytes(random, groups * rows / per_word * 4)},
           {"x.scales", "F16", {groups, rows}, random_scales(random, groups * rows)}},
          config_of(QuantMethod::kGptq, {bits, group}),
          rows,
          depth};
}

RandomFile random_awq(std::mt19937& random, int64_t group) {
  const int64_t rows = 40, depth = 192, groups = depth / group;
  return {{{"x.qweight", "I32", {depth, rows / 8}, random_bytes(random, depth * rows / 2)},
           {"x.qzeros", "I32", {groups, rows / 8}, random_bytes(random, groups * rows / 2)},
           {"x.scales", "F16", {groups, rows}, random_scales(random, groups * rows)}},
          config_of(QuantMethod::kAwq, {4, group}),
          rows,
          depth};
}

// `zeros`: 0 none, 1 in words, 2 in bytes.
RandomFile random_packed(std::mt19937& random, CodeFormat format, int zeros) {
  const int64_t rows = 37, depth = 180, per_word = 32 / format.bits,
                words_per_row = (depth + per_word - 1) / per_word;
  const int64_t groups = format.group_size > 0 ? (depth + format.group_size - 1) / format.group_size : 1;
  RandomFile file{
      {{"x.weight_packed", "I32", {rows, words_per_row}, random_bytes(random, rows * words_per_row * 4)},
       {"x.weight_scale", "F16", {rows, groups}, random_scales(random, rows * groups)},
       {"x.weight_shape", "I64", {2}, le_list<int64_t>({rows, depth})}},
      config_of(QuantMethod::kCompressedTensors, format),
      rows,
      depth};
  if (format.group_size == CodeFormat::kPerMatrix) {
    file.tensors[1] = {"x.weight_scale", "F16", {1}, random_scales(random, 1)};
  } else if (zeros == 1) {
    const int64_t lines = (rows + per_word - 1) / per_word;
    file.tensors.push_back(
        {"x.weight_zero_point", "I32", {lines, groups}, random_bytes(random, lines * groups * 4)});
  } else if (zeros == 2) {
    std::string bytes;
    for (int64_t i = 0; i < rows * groups; ++i)
      bytes += static_cast<char>(static_cast<int>(random() % 16) - 8);
    file.tensors.push_back({"x.weight_zero_point", "I8", {rows, groups}, bytes});
  }
  return file;
}

RandomFile random_bytewise(std::mt19937& random, bool bits_and_bytes) {
  const int64_t rows = 37, depth = 180;
  std::vector<RawTensor> tensors = {{"x.weight", "I8", {rows, depth}, random_bytes(random, rows * depth)}};
  if (bits_and_bytes) {
    tensors.push_back({"x.SCB", "F32", {rows}, le_list(Values(static_cast<size_t>(rows), 3.0f))});
  } else {
    tensors.push_back({"x.weight_scale", "F16", {rows, 1}, random_scales(random, rows)});
  }
  return {tensors,
          config_of(bits_and_bytes ? QuantMethod::kBitsAndBytes : QuantMethod::kCompressedTensors,
                    {8, CodeFormat::kPerRow}),
          rows, depth};
}

std::vector<RandomFile> random_files(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<RandomFile> files;
  for (const int bits : {4, 8}) {
    for (const int64_t group : {int64_t{32}, int64_t{64}, int64_t{128}, int64_t{48}, CodeFormat::kPerRow}) {
      files.push_back(random_gptq(random, bits, group));
    }
    for (const int64_t group : {int64_t{32}, int64_t{128}, CodeFormat::kPerRow, CodeFormat::kPerMatrix}) {
      for (const int zeros : {0, 1, 2}) files.push_back(random_packed(random, {bits, group}, zeros));
    }
  }
  for (const int64_t group : {32, 64, 96}) files.push_back(random_awq(random, group));
  for (const bool bits_and_bytes : {false, true}) files.push_back(random_bytewise(random, bits_and_bytes));
  return files;
}

// `file` with its inputs dealt out to the groups at random; `even`: as many to each as its size.
RandomFile in_act_order(RandomFile file, std::mt19937& random, bool even) {
  const int64_t size = file.config.formats[0].columns(file.depth), last = (file.depth - 1) / size;
  std::vector<int32_t> groups;
  for (int64_t k = 0; k < file.depth; ++k) groups.push_back(static_cast<int32_t>(k / size));
  std::shuffle(groups.begin(), groups.end(), random);
  if (!even) *std::find(groups.begin(), groups.end(), 0) = static_cast<int32_t>(last);
  const bool gptq = file.config.method == QuantMethod::kGptq;
  file.tensors.push_back({gptq ? "x.g_idx" : "x.weight_g_idx", "I32", {file.depth}, le_list(groups)});
  return file;
}

TEST(QuantizedSource, ActOrderSortsTheColumns) {
  std::mt19937 random(4);
  for (const bool even : {true, false}) {
    for (const RandomFile& file : {in_act_order(random_gptq(random, 4, 32), random, even),
                                   in_act_order(random_gptq(random, 8, 128), random, even),
                                   in_act_order(random_packed(random, {4, 32}, 1), random, even)}) {
      const QuantizedFile opened(file.tensors, file.config);
      const auto reader = opened.source().matrix("x.weight", file.rows, file.depth);
      ASSERT_TRUE(reader) << reader.error().message;
      // Groups of other sizes don't begin where a packed weight's do: plain floats.
      EXPECT_EQ((*reader)->scheme().bits, even ? file.config.formats[0].bits : 0);
      EXPECT_EQ((*reader)->column_order().empty(), !even);
      expect_consistent(**reader, 0x1p-16f);
    }
  }
}

TEST(QuantizedSource, AnEmbeddingInActOrderIsRefused) {
  std::mt19937 random(5);
  RandomFile file = in_act_order(random_gptq(random, 4, 32), random, true);
  for (RawTensor& tensor : file.tensors) tensor.name = "model.embed_tokens" + tensor.name.substr(1);
  const QuantizedFile opened(file.tensors, file.config);
  const auto reader = opened.source().matrix("model.embed_tokens.weight", file.rows, file.depth);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().kind, ErrorKind::kUnsupportedModel);
  EXPECT_NE(reader.error().message.find("act-order"), std::string::npos);
}

TEST(QuantizedSource, CodesAndValuesAgreeInEveryFormat) {
  for (const RandomFile& file : random_files(1)) {
    const QuantizedFile opened(file.tensors, file.config);
    SCOPED_TRACE(std::string(quant_method_name(file.config.method)) + " " +
                 code_format_name(file.config.formats[0]));
    const auto reader = opened.source().matrix("x.weight", file.rows, file.depth);
    ASSERT_TRUE(reader) << reader.error().message;
    EXPECT_EQ((*reader)->scheme().bits, file.config.formats[0].bits);
    // Scale times code and scale times zero point, each rounded to float: 2^-24 of at most 256 * 0.5.
    expect_consistent(**reader, 0x1p-16f);
    const auto list = opened.source().list();
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].name, "x.weight");
    EXPECT_EQ(list[0].shape, (std::vector<int64_t>{file.rows, file.depth}));
  }
}

// Every part missing, of another type, or one longer or shorter in any dimension: an error that names it.
TEST(QuantizedSource, EveryMisshapenPartIsNamed) {
  for (const RandomFile& file : random_files(2)) {
    for (size_t i = 0; i < file.tensors.size(); ++i) {
      const RawTensor& part = file.tensors[i];
      const bool optional = part.name == "x.weight_zero_point" || part.name == "x.weight_shape";
      const auto expect_named = [&](const RawTensor& changed) {
        auto tensors = file.tensors;
        tensors[i] = changed;
        const std::string error = QuantizedFile(tensors, file.config).error(file.rows, file.depth);
        EXPECT_NE(error.find("'" + part.name + "'"), std::string::npos) << changed.dtype << ": " << error;
      };
      for (size_t d = 0; d < part.shape.size(); ++d) {
        const int64_t line = static_cast<int64_t>(part.data.size()) / part.shape[d];
        RawTensor longer = part, shorter = part;
        ++longer.shape[d];
        longer.data.resize(part.data.size() + static_cast<size_t>(line), '\1');
        expect_named(longer);
        if (part.shape[d] == 1) continue;  // nothing would be left
        --shorter.shape[d];
        shorter.data.resize(part.data.size() - static_cast<size_t>(line));
        expect_named(shorter);
      }
      RawTensor other = part;
      other.dtype = part.dtype == "F32"   ? "U32"
                    : part.dtype == "I32" ? "F32"
                    : part.dtype == "I64" ? "F64"
                                          : "U8";
      if (part.dtype == "F16") other.dtype = "I16";
      if (part.name == "x.weight") continue;  // then it is no quantised matrix
      if (part.name != "x.qweight" && part.name != "x.weight_packed") expect_named(other);
      if (optional) continue;
      auto tensors = file.tensors;
      tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
      const std::string error = QuantizedFile(tensors, file.config).error(file.rows, file.depth);
      EXPECT_NE(error.find("is missing"), std::string::npos) << part.name << ": " << error;
    }
    // The configuration says another group size.
    QuantizationConfig config = file.config;
    if (config.method == QuantMethod::kBitsAndBytes) continue;
    config.formats[0].group_size = config.formats[0].group_size == 16 ? 32 : 16;
    EXPECT_NE(QuantizedFile(file.tensors, config).error(file.rows, file.depth).find("instead of"),
              std::string::npos);
    EXPECT_NE(QuantizedFile(file.tensors, file.config).error(file.rows + 8, file.depth), "");
    EXPECT_NE(QuantizedFile(file.tensors, file.config).error(file.rows, file.depth + 32), "");
  }
}

TEST(QuantizedSource, FloatsStayFloatsAndPartsAreNotTensors) {
  auto tensors = small_gptq();
  tensors.push_back(halves("x.bias", {8}, Values(8, 0.0f)));
  tensors.push_back(halves("y.weight", {1, 2}, {1, 2}));
  tensors.push_back(halves("y.bias", {1}, {0}));
  const QuantizedFile file(tensors, config_of(QuantMethod::kGptq, kOneGroup));
  std::vector<std::string> names;
  for (const TensorInfo& info : file.source().list()) names.push_back(info.name);
  std::sort(names.begin(), names.end());
  // The bias of zeros of a quantised matrix need not be part of the model; another's must.
  EXPECT_EQ(names, (std::vector<std::string>{"x.weight", "y.bias", "y.weight"}));
  EXPECT_EQ(*file.source().vector("x.bias", 8), Values(8, 0.0f));
  EXPECT_TRUE(file.source().contains("x.weight"));
  EXPECT_FALSE(file.source().contains("z.weight"));
  EXPECT_EQ((*file.source().matrix("y.weight", 1, 2))->scheme().bits, 0);
  const auto absent = file.source().matrix("z.weight", 1, 2);
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().message.find("'z.qweight' is missing, and so is 'z.weight'"), std::string::npos);
  tensors.push_back(halves("x.weight", {1, 1}, {1}));
  EXPECT_NE(
      QuantizedFile(tensors, config_of(QuantMethod::kGptq, kOneGroup)).error(8, 8).find("are both there"),
      std::string::npos);
}

TEST(QuantizedSource, EachMatrixHasItsOwnFormat) {
  std::mt19937 random(3);
  RandomFile file = random_packed(random, {4, 32}, 0);
  file.config.formats = {{8, CodeFormat::kPerRow}, {4, 128}, {4, 32}};
  const QuantizedFile opened(file.tensors, file.config);
  const auto reader = opened.source().matrix("x.weight", file.rows, file.depth);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ((*reader)->scheme().bits, 4);
  EXPECT_EQ((*reader)->scheme().group_size, 32);
}

TEST(QuantizedSource, ScalesThatAreNoNumbersShow) {
  auto tensors = small_gptq();
  Values scales(8, 0.5f);
  scales[3] = std::nanf("");
  tensors[2] = halves("x.scales", {1, 8}, scales);
  const QuantizedFile file(tensors, config_of(QuantMethod::kGptq, kOneGroup));
  const auto reader = file.source().matrix("x.weight", 8, 8);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_TRUE(std::isnan((*reader)->code_range(0, 8).max_scale));
  EXPECT_FALSE(std::isnan((*reader)->code_range(0, 3).max_scale));
}

TEST(GroupedMatrix, PackedGroups) {
  EXPECT_EQ(packed_group_size({8, 256, 4, 128}), 128);
  EXPECT_EQ(packed_group_size({8, 576, 4, 128}), 64);  // 576 = 9 * 64
  EXPECT_EQ(packed_group_size({8, 576, 4, 576}), 64);
  EXPECT_EQ(packed_group_size({8, 40, 4, 40}), 64);  // padded to 64
  EXPECT_EQ(packed_group_size({8, 192, 4, 48}), 16);
  EXPECT_EQ(packed_group_size({8, 192, 4, 24}), 0);
}

TEST(GroupedMatrix, UniformCodes) {
  const auto code = [](std::initializer_list<uint8_t> bytes, int bits) {
    return uniform_code(std::vector<uint8_t>(bytes), bits);
  };
  EXPECT_EQ(code({0x77, 0x77, 0x77, 0x77}, 4), 7);
  EXPECT_EQ(code({0x77, 0x77, 0x77, 0x77}, 8), 0x77);
  EXPECT_EQ(code({0x76, 0x76, 0x76, 0x76}, 4), std::nullopt);
  EXPECT_EQ(code({0x77, 0x77, 0x77, 0x76}, 8), std::nullopt);
  EXPECT_EQ(code({}, 4), std::nullopt);
}

}  // namespace
}  // namespace pagoda::model
