#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace pagoda {
namespace {

Result<int> parse(bool good) {
  if (!good) return make_error(ErrorKind::kInvalidArgument, "not a number", "n");
  return 7;
}

Result<std::unique_ptr<int>> boxed(bool good) {
  return std::make_unique<int>(PAGODA_TRY(parse(good)) + 1);
}

Result<void> checked(bool good) {
  PAGODA_TRY(boxed(good));
  return {};
}

TEST(ResultTest, CarriesAValue) {
  auto result = boxed(true);
  ASSERT_TRUE(result);
  EXPECT_EQ(**result, 8);
  EXPECT_TRUE(checked(true).has_value());
}

TEST(ResultTest, TryReturnsTheErrorUnchanged) {
  auto result = boxed(false);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(result.error().message, "not a number");
  EXPECT_EQ(result.error().param, "n");
  EXPECT_FALSE(checked(false).has_value());
}

}  // namespace
}  // namespace pagoda
