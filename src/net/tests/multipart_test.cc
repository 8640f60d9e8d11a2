#include "net/multipart.h"

#include <gtest/gtest.h>

#include <random>

namespace pagoda::net {
namespace {

constexpr const char* kForm =
    "--XX\r\n"
    "Content-Disposition: form-data; name=\"purpose\"\r\n"
    "\r\n"
    "batch\r\n"
    "--XX\r\n"
    "content-disposition: FORM-DATA; name=\"file\"; filename=\"a \\\"b\\\" ..\\c.jsonl\"\r\n"
    "Content-Type: application/json\r\n"
    "\r\n"
    "line\r\n--X\r\n--XY-\n\r\n"
    "--XX--\r\n";

std::string part(const std::string& headers, const std::string& content) {
  return "--XX\r\n" + headers + "\r\n\r\n" + content + "\r\n";
}

TEST(MultipartTest, BoundaryOfTheContentType) {
  EXPECT_EQ(*multipart_boundary("multipart/form-data; boundary=XX"), "XX");
  EXPECT_EQ(*multipart_boundary("Multipart/Form-Data ; charset=utf-8; Boundary=\"a b:c\""), "a b:c");
  for (const std::string bad :
       {"", "application/json", "multipart/mixed; boundary=XX", "multipart/form-data",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"a", "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=a; boundary=b", "multipart/form-data; boundary=a b",
        "multipart/form-data boundary=a", "multipart/form-data; boundary=\"a\x01\""}) {
    EXPECT_FALSE(multipart_boundary(bad).has_value()) << bad;
  }
  EXPECT_TRUE(multipart_boundary("multipart/form-data; boundary=" + std::string(70, 'b')).has_value());
  EXPECT_FALSE(multipart_boundary("multipart/form-data; boundary=" + std::string(71, 'b')).has_value());
}

TEST(MultipartTest, FieldsAndFiles) {
  const auto parts = parse_multipart(kForm, "XX");
  ASSERT_TRUE(parts.has_value()) << parts.error().message;
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "purpose");
  EXPECT_EQ((*parts)[0].content, "batch");
  EXPECT_FALSE((*parts)[0].filename.has_value());
  EXPECT_EQ((*parts)[1].name, "file");
  EXPECT_EQ(*(*parts)[1].filename, "a \"b\" ..\\c.jsonl");
  EXPECT_EQ((*parts)[1].content_type, "application/json");
}

TEST(MultipartTest, ContentIsKeptByteForByte) {
  for (const std::string& content :
       {std::string(), std::string("\r\n"), std::string("\r\n\r\n"), std::string("\0\xff\r", 3),
        std::string("--XX"), std::string("\n--XX--"), std::string("a\r\n--X"), std::string(100000, '\r')}) {
    const std::string body = part("Content-Disposition: form-data; name=file", content) + "--XX--";
    if (content == "--XX") {
      // Directly behind the headers this is the next boundary, which nothing valid follows here.
      EXPECT_FALSE(parse_multipart(body, "XX").has_value());
      continue;
    }
    const auto parts = parse_multipart(body, "XX");
    ASSERT_TRUE(parts.has_value()) << parts.error().message;
    EXPECT_EQ(parts->at(0).content, content);
  }
}

TEST(MultipartTest, APartWithoutContentOrLineBreak) {
  const auto parts = parse_multipart("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n--XX--", "XX");
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->at(0).content, "");
}

TEST(MultipartTest, RefusesWhatIsNoForm) {
  const std::string good = "Content-Disposition: form-data; name=\"a\"";
  const std::vector<std::string> bad = {
      "",
      "XX",
      "--XX",
      "--XY\r\n",
      "junk\r\n" + part(good, "x") + "--XX--",
      part(good, "x"),
      part(good, "x") + "--XX-",
      part(good, "x") + "--XX--junk",
      part(good, "x") + "--XXjunk\r\n",
      part("Content-Type: text/plain", "x") + "--XX--",
      part("Content-Disposition: attachment; name=\"a\"", "x") + "--XX--",
      part("Content-Disposition: form-data", "x") + "--XX--",
      part("Content-Disposition: form-data; filename=\"a\"", "x") + "--XX--",
      part("Content-Disposition: form-data; name=\"a", "x") + "--XX--",
      part("Content-Disposition: form-data; name=\"a\"; name=\"b\"", "x") + "--XX--",
      part("Content-Disposition: form-data; name=\"a\x01\"", "x") + "--XX--",
      part(good + "\r\n" + good, "x") + "--XX--",
      part(good + "\r\nContent-Transfer-Encoding: base64", "x") + "--XX--",
      part(good + "\r\nno header", "x") + "--XX--",
      part(good + "\r\n: empty", "x") + "--XX--",
      part(good + "\r\nX: " + std::string(kMaxPartHeaderBytes, 'x'), "x") + "--XX--",
      "--XX\r\n" + good + "\r\n",
  };
  for (const std::string& body : bad) {
    const auto parts = parse_multipart(body, "XX");
    ASSERT_FALSE(parts.has_value()) << body;
    EXPECT_EQ(parts.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(MultipartTest, TheNumberOfPartsIsLimited) {
  std::string body;
  for (size_t i = 0; i < kMaxFormParts; ++i) body += part("Content-Disposition: form-data; name=a", "x");
  EXPECT_EQ(parse_multipart(body + "--XX--", "XX")->size(), kMaxFormParts);
  body += part("Content-Disposition: form-data; name=a", "x");
  EXPECT_FALSE(parse_multipart(body + "--XX--", "XX").has_value());
}

// Whatever happens to the bytes, the contents stay inside the body.
TEST(MultipartTest, DamagedForms) {
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string body = kForm;
    for (auto i = random() % 3; i > 0; --i) {
      const size_t at = random() % body.size();
      switch (random() % 3) {
        case 0:
          body[at] = "\r\n-X\":;=\0a"[random() % 10];
          break;
        case 1:
          body.erase(at, random() % 5);
          break;
        default:
          body.insert(at, body.substr(random() % body.size(), random() % 30));
      }
      if (body.empty()) break;
    }
    const auto parts = parse_multipart(body, "XX");
    if (!parts) continue;
    ++accepted;
    for (const FormPart& p : *parts) {
      ASSERT_TRUE(p.content.empty() || (p.content.data() >= body.data() &&
                                        p.content.data() + p.content.size() <= body.data() + body.size()));
      ASSERT_EQ(p.content.find("\r\n--XX"), std::string_view::npos);
    }
  }
  EXPECT_GT(accepted, 5000);
  EXPECT_LT(accepted, 19000);
}

}  // namespace
}  // namespace pagoda::net
