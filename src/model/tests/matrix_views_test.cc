#include "model/loader/matrix_views.h"

#include <gtest/gtest.h>

#include <numeric>

#include "model/loader/float_matrix.h"
#include "model/loader/view_source.h"

namespace pagoda::model {
namespace {

// element (r, c) of a matrix of floats is 100 r + c.
std::shared_ptr<const MatrixReader> numbered(int64_t rows, int64_t depth) {
  const auto values = std::make_shared<std::vector<float>>();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < depth; ++c) values->push_back(static_cast<float>(100 * r + c));
  }
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values->data()), values->size() * 4);
  return std::make_shared<FloatMatrix>(DType::kF32, MatrixPlace{values, bytes, rows, depth, 0, "numbered"});
}

TEST(MatrixViews, RowsOfAFusedMatrix) {
  const RowSlice slice(numbered(9, 3), 4, 3);
  EXPECT_EQ(slice.rows(), 3);
  EXPECT_EQ(slice.depth(), 3);
  std::vector<float> values(6);
  slice.read_values(1, 2, values.data());
  EXPECT_EQ(values, (std::vector<float>{500, 501, 502, 600, 601, 602}));
}

TEST(MatrixViews, InputsFirst) {
  const auto transposed = std::make_shared<Transposed>(numbered(3, 9));
  EXPECT_EQ(transposed->rows(), 9);
  EXPECT_EQ(transposed->depth(), 3);
  std::vector<float> values(6);
  transposed->read_values(5, 2, values.data());
  EXPECT_EQ(values, (std::vector<float>{5, 105, 205, 6, 106, 206}));
  // A view of a view reads rows through columns, the slow way.
  const Transposed twice(transposed);
  std::vector<float> row(9);
  twice.read_values(2, 1, row.data());
  EXPECT_EQ(row[8], 208);
}

// Two tensors: a fused matrix [8, 2] and a vector of 8.
class TwoTensors final : public TensorSource {
 public:
  std::vector<TensorInfo> list() const override {
    return {{"a.weight", {8, 2}, "F32", 64}, {"a.bias", {8}, "F32", 32}};
  }
  bool contains(const std::string& name) const override { return name == "a.weight" || name == "a.bias"; }
  Result<std::unique_ptr<MatrixReader>> matrix(const std::string& name, int64_t rows,
                                               int64_t depth) const override {
    if (name != "a.weight" || rows != 8 || depth != 2) return make_error(ErrorKind::kCorruptFile, name);
    return std::unique_ptr<MatrixReader>(std::make_unique<RowSlice>(numbered(8, 2), 0, 8));
  }
  Result<std::vector<float>> vector(const std::string& name, int64_t size) const override {
    if (name != "a.bias" || size != 8) return make_error(ErrorKind::kCorruptFile, name);
    return std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7};
  }
};

TEST(ViewSource, GivesPartsUnderTheirOwnNames) {
  const ViewSource source(std::make_unique<TwoTensors>(), {{"q.weight", "a.weight", 0, 6, 8},
                                                           {"k.weight", "a.weight", 6, 2, 8},
                                                           {"q.bias", "a.bias", 0, 6, 8},
                                                           {"k.bias", "a.bias", 6, 2, 8}});
  const auto infos = source.list();
  ASSERT_EQ(infos.size(), 4u);
  EXPECT_EQ(infos[1].name, "k.weight");
  EXPECT_EQ(infos[1].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(infos[1].bytes, 16u);
  EXPECT_TRUE(source.contains("k.weight"));
  EXPECT_FALSE(source.contains("a.weight")) << "hidden behind its parts";
  std::vector<float> row(2);
  (*source.matrix("k.weight", 2, 2))->read_values(1, 1, row.data());
  EXPECT_EQ(row, (std::vector<float>{700, 701}));
  EXPECT_EQ(*source.vector("k.bias", 2), (std::vector<float>{6, 7}));
  EXPECT_FALSE(source.matrix("k.weight", 3, 2)) << "another number of rows";
  EXPECT_FALSE(source.matrix("k.weight", 2, 3)) << "another depth";
  EXPECT_FALSE(source.vector("k.bias", 3)) << "another size";
}

}  // namespace
}  // namespace pagoda::model
