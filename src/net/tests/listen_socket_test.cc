#include "net/listen_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "raw_client.h"

namespace pagoda::net {
namespace {

using testing::RawClient;

TEST(ListenTcp, PicksAFreePortAndTakesConnections) {
  auto sockets = listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(sockets) << sockets.error().message;
  ASSERT_EQ(sockets->size(), 1U);
  EXPECT_GT(sockets->front().port, 0);
  EXPECT_TRUE(RawClient(sockets->front().port).connected());
}

TEST(ListenTcp, AnUsedPortIsAnErrorWithAddressAndReason) {
  auto first = listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(first);
  const uint16_t port = first->front().port;
  auto second = listen_tcp("127.0.0.1", port);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::kIo);
  EXPECT_EQ(second.error().message,
            "cannot listen on 127.0.0.1:" + std::to_string(port) + ": Address already in use");
}

TEST(ListenTcp, AForeignAddressIsAnError) {
  auto sockets = listen_tcp("192.0.2.1", 0);  // reserved for documentation: no machine has it
  ASSERT_FALSE(sockets);
  EXPECT_EQ(sockets.error().message, "cannot listen on 192.0.2.1:0: Cannot assign requested address");
  EXPECT_FALSE(listen_tcp("", 0));
}

TEST(ListenTcp, NamesAndWildcards) {
  for (const char* host : {"localhost", "0.0.0.0"}) {
    auto sockets = listen_tcp(host, 0);
    ASSERT_TRUE(sockets) << sockets.error().message;
    for (const auto& socket : *sockets) EXPECT_EQ(socket.port, sockets->front().port);
    EXPECT_TRUE(RawClient(sockets->front().port).connected()) << host;
  }
}

TEST(ListenTcp, Ipv6) {
  auto loopback = listen_tcp("[::1]", 0);
  if (!loopback) GTEST_SKIP() << "this machine has no IPv6: " << loopback.error().message;
  EXPECT_EQ(loopback->front().family, AF_INET6);
  auto any = listen_tcp("::", 0);
  ASSERT_TRUE(any) << any.error().message;
  EXPECT_TRUE(RawClient(any->front().port).connected()) << "\"::\" takes IPv4 connections too";
}

class ListenUnix : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "pagoda-net-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = (directory_ / "socket").string();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path directory_;
  std::string path_;
};

TEST_F(ListenUnix, ReplacesAStaleSocketAndRefusesALiveOne) {
  {
    auto first = listen_unix(path_);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_TRUE(RawClient(path_).connected());
    auto second = listen_unix(path_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().message, "cannot listen on " + path_ + ": another server listens there");
  }
  EXPECT_TRUE(std::filesystem::exists(path_)) << "the stale file of this test";
  auto third = listen_unix(path_);
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_TRUE(RawClient(path_).connected());
}

TEST_F(ListenUnix, KeepsOtherFiles) {
  std::ofstream(path_) << "precious";
  auto socket = listen_unix(path_);
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().message, "cannot listen on " + path_ + ": it exists and is no socket");
  EXPECT_EQ(std::filesystem::file_size(path_), 8U);
}

TEST_F(ListenUnix, LimitsThePath) {
  EXPECT_FALSE(listen_unix(""));
  auto socket = listen_unix(std::string(200, 'p'));
  ASSERT_FALSE(socket);
  EXPECT_NE(socket.error().message.find("1 to 107 bytes, this one 200"), std::string::npos);
}

}  // namespace
}  // namespace pagoda::net
