// Random sequences over a tiny pool; after every operation each sequence reads back exactly its own tokens.

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "kv/kv_manager.h"
#include "kv/tests/kv_fixture.h"

namespace pagoda::kv {
namespace {

struct SimSequence {
  std::vector<TokenId> tokens;  // all filled
  BlockTable table;
};

class Simulator {
 public:
  Simulator(uint32_t seed, int num_blocks, int hash_bits)
      : random_(seed), storage_(make_test_storage(num_blocks)), kv_(storage_, {.hash_bits = hash_bits}) {}

  void step() {
    const int action = pick(10);
    if (sequences_.empty() || action < 2) {
      start();
    } else if (action < 7) {
      extend(any());
    } else if (action < 8 && sequences_.size() < 12) {
      fork(any());
    } else {
      end(static_cast<size_t>(pick(static_cast<int>(sequences_.size()))));
    }
    check();
  }

  int64_t hits() const { return hits_; }
  int evictable() const { return kv_.pool().num_cached(); }

 private:
  int pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  SimSequence& any() { return sequences_[static_cast<size_t>(pick(static_cast<int>(sequences_.size())))]; }
  // Two values and whole blocks of one value: most prefixes occur many times.
  void append_tokens(std::vector<TokenId>& tokens, int count) {
    while (count-- > 0) tokens.push_back({tokens.size() % 16 == 0 ? pick(2) : tokens.back().value});
  }

  void start() {
    SimSequence s{.tokens = {}, .table = kv_.make_table(pick(4) == 0 ? "salt" : "")};
    append_tokens(s.tokens, 1 + pick(70));
    const auto size = static_cast<int64_t>(s.tokens.size());
    const int64_t found = kv_.match(s.table, s.tokens, size - 1);
    hits_ += found;
    if (!fill(s, found)) return kv_.release(s.table);
    sequences_.push_back(std::move(s));
  }

  void extend(SimSequence& s) {
    const auto old = s.tokens.size();
    append_tokens(s.tokens, 1 + pick(20));
    if (!fill(s, static_cast<int64_t>(old))) s.tokens.resize(old);
  }

  bool fill(SimSequence& s, int64_t first) {
    const auto end = static_cast<int64_t>(s.tokens.size());
    if (!kv_.reserve(s.table, first, end)) return false;
    write_tokens(storage_, s.table, s.tokens, first);
    kv_.publish(s.table, s.tokens, end);
    return true;
  }

  void fork(SimSequence& s) {
    SimSequence copy{.tokens = s.tokens, .table = kv_.fork(s.table)};
    sequences_.push_back(std::move(copy));
  }

  void end(size_t index) {
    kv_.release(sequences_[index].table);
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void check() {
    std::vector<const BlockTable*> tables;
    for (const SimSequence& s : sequences_) {
      tables.push_back(&s.table);
      ASSERT_EQ(first_wrong_slot(storage_, s.table, s.tokens), std::nullopt);
    }
    kv_.check_integrity(tables);
  }

  std::mt19937 random_;
  KvStorage storage_;
  KvManager kv_;
  std::vector<SimSequence> sequences_;
  int64_t hits_ = 0;
};

void simulate(uint32_t seed, int num_blocks, int hash_bits) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << num_blocks << " blocks, " << hash_bits
                                    << " bits");
  Simulator simulator(seed, num_blocks, hash_bits);
  for (int i = 0; i < 4000 && !::testing::Test::HasFatalFailure(); ++i) simulator.step();
  EXPECT_GT(simulator.hits(), 1000);
}

TEST(KvSimulatorTest, EverySequenceReadsItsOwnTokens) {
  for (const uint32_t seed : {1u, 2u, 3u}) simulate(seed, 24, 128);
  for (const uint32_t seed : {4u, 5u}) simulate(seed, 64, 128);
}

TEST(KvSimulatorTest, OneBitHashesAreStillRight) {
  for (const uint32_t seed : {6u, 7u, 8u}) simulate(seed, 24, 1);
}

}  // namespace
}  // namespace pagoda::kv
