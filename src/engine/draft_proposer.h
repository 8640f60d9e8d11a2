// Guesses how a sequence goes on from what it said before: prompt lookup, for text that copies from itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "engine/engine.h"

namespace pagoda::engine {

// Finds an earlier place of the sequence that ends like it does now, and proposes the tokens that came next
// there. Once found, the place moves along with the sequence for as long as it foretells every token, so that
// a copy stays with its source where a phrase occurs more than once.
//
// The index is that of LZ77 (Ziv and Lempel 1977): a hash table of the last place of each run of `min_match`
// tokens, and a chain from each place to the one before with the same hash. Time: constant for each token and
// each question. Memory: 12 bytes at most for each token that the sequence has room for.
//
// How much it proposes follows its luck: few tokens at first, twice as many after each step in which all were
// right, and nothing for a while after steps in which none was. Not thread-safe.
class DraftProposer {
 public:
  explicit DraftProposer(const SpeculationOptions& options);

  // How many tokens to draft behind `tokens`, which only ever grow between calls; 0 when there is nothing to
  // go by. Allocates only when `tokens` has a larger capacity than ever before.
  int propose(const std::vector<TokenId>& tokens);
  // Appends `count` drafts to the tokens of the last propose(), which returned at least 1.
  void append(int count, std::vector<TokenId>& tokens) const;
  // Of `drafted` tokens the first `accepted` turned out to be right.
  void note_result(int drafted, int accepted);

  size_t memory_bytes() const { return (latest_.capacity() + previous_.capacity()) * sizeof(int32_t); }

 private:
  void index(const std::vector<TokenId>& tokens);
  void make_room(const std::vector<TokenId>& tokens);
  void insert(const std::vector<TokenId>& tokens, size_t end);
  void follow(const std::vector<TokenId>& tokens, size_t position);
  size_t longest_match(const std::vector<TokenId>& tokens) const;
  size_t match_behind_edit(const std::vector<TokenId>& tokens) const;

  const size_t min_match_, max_match_;
  const int most_drafts_;

  // Places are the ends of runs, so that 0 means none.
  std::vector<int32_t> latest_;    // by hash; a power of two
  std::vector<int32_t> previous_;  // by place
  uint64_t hash_ = 0;              // of the last min_match_ tokens that are indexed
  uint64_t power_ = 1;             // kBase to the min_match_

  size_t followed_ = 0;  // tokens that follow() has seen
  size_t source_ = 0;    // the place whose next token comes next here; 0: none
  size_t lost_ = 0;      // where the source last foretold something else
  int edit_left_ = 0;    // tokens during which the copy may go on behind an edit at lost_

  int num_drafts_;
  int misses_ = 0;
  int64_t pause_ = 0;  // tokens until the next draft
};

}  // namespace pagoda::engine
