#include "quantize/layer_coder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quantize/tests/tiny_model.h"
#include "quantize/working_source.h"

namespace pagoda::quantize {
namespace {

LayerHessians copy_of(const LayerHessians& hessians) {
  LayerHessians copies;
  for (size_t i = 0; i < hessians.size(); ++i) {
    const int64_t size = hessians[i].rows();
    copies[i] = Dense(size, size);
    for (int64_t row = 0; row < size; ++row) std::copy_n(hessians[i].row(row), size, copies[i].row(row));
  }
  return copies;
}

// By the same Hessians and from the same weights: GPTQ's rounding has the smaller error of the outputs.
TEST(LayerCoder, RoundsAsTheOptionsSay) {
  const auto checkpoint = model::open_checkpoint(test::make_tiny_model("coder"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ComputePool pool(2);
  Samples samples(1);
  for (int32_t i = 0; i < 240; ++i) samples[0].push_back(TokenId{(i * i * 7 + i) % 64});
  auto calibration = Calibration::create(*checkpoint, samples, pool);
  ASSERT_TRUE(calibration);
  WorkingSource working(*checkpoint->tensors);
  ASSERT_TRUE(calibration->load(0, working));
  auto statistics = calibration->collect([] { return Result<void>(); });
  ASSERT_TRUE(statistics);
  const LayerHessians hessians = hessians_of(*statistics);
  Options options{Method::kAwq, 4, 32, false};
  LayerCoder careful(copy_of(hessians), options, pool);
  Options nearest = options;
  nearest.rounding = Rounding::kNearest;
  LayerCoder plain(copy_of(hessians), nearest, pool);
  for (const Linear& linear : layer_linears(checkpoint->config, 0)) {
    const auto reader = checkpoint->tensors->matrix(linear.stem + ".weight", linear.rows, linear.depth);
    ASSERT_TRUE(reader);
    std::vector<float> values(static_cast<size_t>(linear.rows * linear.depth));
    (*reader)->read_values(0, linear.rows, values.data());
    const Dense& hessian = hessians[static_cast<size_t>(linear.input)];
    const auto loss = [&](const CodedMatrix& coded) {
      std::vector<float> errors(values.size());
      coded.dequantise(errors.data(), pool);
      for (size_t i = 0; i < errors.size(); ++i) errors[i] -= values[i];
      double sum = 0;
      for (int64_t row = 0; row < linear.rows; ++row) {
        const float* const error = errors.data() + row * linear.depth;
        for (int64_t i = 0; i < linear.depth; ++i) {
          for (int64_t j = 0; j < linear.depth; ++j) sum += double{error[i]} * hessian.at(i, j) * error[j];
        }
      }
      return sum;
    };
    EXPECT_LT(loss(careful.code(linear, values.data())), 0.9 * loss(plain.code(linear, values.data())))
        << linear.stem;
  }
}

}  // namespace
}  // namespace pagoda::quantize
