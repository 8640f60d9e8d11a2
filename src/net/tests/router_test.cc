#include "net/router.h"

#include <gtest/gtest.h>

namespace pagoda::net {
namespace {

class RouterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [method, path] : {std::pair{"GET", "/v1/models"},
                                       {"GET", "/v1/models/{id}"},
                                       {"POST", "/v1/x"},
                                       {"DELETE", "/v1/models/{id}"},
                                       {"GET", "/v1/models/all"}}) {
      router_.add(method, path, [this, name = std::string(path)](HttpRequest, auto) { called_ = name; });
    }
  }
  std::string call(std::string_view method, std::string_view path) {
    const auto match = router_.find(method, path);
    if (match.handler == nullptr) return match.pattern.empty() ? "404" : "405 " + match.allow;
    (*match.handler)({}, nullptr);
    EXPECT_EQ(match.pattern, called_);
    return called_;
  }
  Router router_;
  std::string called_;
};

TEST_F(RouterTest, ExactAndOneSegment) {
  EXPECT_EQ(call("GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(call("GET", "/v1/models/a%2Fb"), "/v1/models/{id}");
  EXPECT_EQ(call("DELETE", "/v1/models/a"), "/v1/models/{id}");
  EXPECT_EQ(call("GET", "/v1/models/all"), "/v1/models/all");
}

TEST_F(RouterTest, ASegmentInTheMiddle) {
  router_.add("GET", "/v1/files/{id}", [this](HttpRequest, auto) { called_ = "/v1/files/{id}"; });
  router_.add("GET", "/v1/files/{id}/content",
              [this](HttpRequest, auto) { called_ = "/v1/files/{id}/content"; });
  EXPECT_EQ(call("GET", "/v1/files/a/content"), "/v1/files/{id}/content");
  EXPECT_EQ(call("GET", "/v1/files/a"), "/v1/files/{id}");
  EXPECT_EQ(call("GET", "/v1/files/content"), "/v1/files/{id}");
  for (const char* path :
       {"/v1/files//content", "/v1/files/a/b/content", "/v1/files/a/content/", "/v1/files/"}) {
    EXPECT_EQ(call("GET", path), "404") << path;
  }
}

TEST_F(RouterTest, OneSpellingPerPath) {
  for (const char* path : {"//v1/x", "/v1/x/", "/V1/x", "/v1/%78", "/v1/./x", "/v1/y/../x", "/v1/x;a", "/v1",
                           "", "*", "/v1/models/", "/v1/models/a/b", "/v1/modelsx"}) {
    EXPECT_EQ(call("POST", path), "404") << path;
  }
}

TEST_F(RouterTest, MethodsOfAPath) {
  EXPECT_EQ(call("HEAD", "/v1/models"), "/v1/models");
  EXPECT_EQ(call("GET", "/v1/x"), "405 POST, OPTIONS");
  EXPECT_EQ(call("HEAD", "/v1/x"), "405 POST, OPTIONS");
  EXPECT_EQ(call("post", "/v1/x"), "405 POST, OPTIONS");
  EXPECT_EQ(call("PUT", "/v1/models/a"), "405 GET, DELETE, HEAD, OPTIONS");
}

TEST(SplitTarget, FormsOfTargets) {
  const auto split = [](std::string_view target) {
    const TargetParts parts = split_target(target);
    return std::string(parts.path) + "|" + std::string(parts.query);
  };
  EXPECT_EQ(split("/a/b"), "/a/b|");
  EXPECT_EQ(split("/a?b?c"), "/a|b?c");
  EXPECT_EQ(split("/a?"), "/a|");
  EXPECT_EQ(split("/?u=http://x/y"), "/|u=http://x/y");
  EXPECT_EQ(split("http://h:1/a?b"), "/a|b");
  EXPECT_EQ(split("https://h"), "/|");
  EXPECT_EQ(split("http://h?q"), "/|q");
  EXPECT_EQ(split("*"), "*|");
}

}  // namespace
}  // namespace pagoda::net
