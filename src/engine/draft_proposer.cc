#include "engine/draft_proposer.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace pagoda::engine {
namespace {

// The first drafts of a sequence, and those after a miss: a step with so many rows costs little more than one
// with a single row.
constexpr int kFirstDrafts = 4;

// Tokens without a draft after the second miss in a row, twice as many after each further one. One miss may
// be the end of a copied passage; two say that the text only looks as if it repeated itself.
constexpr int64_t kFirstPause = 8, kLongestPause = 512;

// Places that are compared in a search: phrases that occur more often than this are too common to foretell
// much.
constexpr int kMostCandidates = 16;

// A copy with small edits goes on a few tokens behind each edit. There, near the place that was lost, fewer
// equal tokens are enough to go by than anywhere in the text.
constexpr size_t kEditMatch = 2;
constexpr int kEditTokens = 16;    // how long an edit may last
constexpr size_t kEditWindow = 8;  // tokens of the source that an edit may leave out

constexpr uint64_t kBase = 0x9E3779B97F4A7C15;  // odd, so that multiplication loses nothing

// Ids from 1 on: runs of id 0 would all hash alike.
uint64_t value_of(TokenId token) {
  return static_cast<uint64_t>(token.value) + 1;
}

// Equal tokens before places `a` and `b`, at most `most`.
size_t common_tail(const std::vector<TokenId>& tokens, size_t a, size_t b, size_t most) {
  size_t count = 0;
  while (count < most && count < a && tokens[a - 1 - count] == tokens[b - 1 - count]) ++count;
  return count;
}

}  // namespace

DraftProposer::DraftProposer(const SpeculationOptions& options)
    : min_match_(static_cast<size_t>(options.min_match)),
      max_match_(static_cast<size_t>(options.max_match)),
      most_drafts_(options.num_tokens),
      num_drafts_(std::min(kFirstDrafts, options.num_tokens)) {
  PAGODA_CHECK(options.num_tokens > 0 && options.min_match > 0 && options.max_match >= options.min_match,
               "{} drafts, match of {} to {}", options.num_tokens, options.min_match, options.max_match);
  for (size_t i = 0; i < min_match_; ++i) power_ *= kBase;
}

int DraftProposer::propose(const std::vector<TokenId>& tokens) {
  const size_t before = followed_;
  for (; followed_ < tokens.size(); ++followed_) follow(tokens, followed_);
  index(tokens);
  pause_ = std::max<int64_t>(0, pause_ - static_cast<int64_t>(tokens.size() - before));
  if (source_ == 0 && edit_left_ > 0) source_ = match_behind_edit(tokens);
  if (source_ == 0) source_ = longest_match(tokens);
  return source_ == 0 || pause_ > 0 ? 0 : num_drafts_;
}

void DraftProposer::append(int count, std::vector<TokenId>& tokens) const {
  PAGODA_CHECK(source_ > 0, "{} drafts of nothing", count);
  // The source may run into its own copy: text that goes round in a circle.
  for (size_t from = source_; from < source_ + static_cast<size_t>(count); ++from) {
    tokens.push_back(tokens[from]);
  }
}

void DraftProposer::note_result(int drafted, int accepted) {
  PAGODA_CHECK(0 <= accepted && accepted <= drafted && drafted > 0, "{} of {}", accepted, drafted);
  if (accepted == 0) {
    num_drafts_ = std::min(kFirstDrafts, most_drafts_);
    if (++misses_ >= 2) pause_ = std::min(kLongestPause, kFirstPause << std::min(misses_ - 2, 16));
    return;
  }
  misses_ = 0;
  if (accepted < drafted) {
    num_drafts_ = std::clamp(accepted, std::min(kFirstDrafts, most_drafts_), num_drafts_);
  } else if (drafted == num_drafts_) {  // fewer say nothing about so many
    num_drafts_ = std::min(2 * num_drafts_, most_drafts_);
  }
}

void DraftProposer::follow(const std::vector<TokenId>& tokens, size_t position) {
  if (source_ == 0) {
    if (edit_left_ > 0) --edit_left_;
  } else if (tokens[source_] == tokens[position]) {
    ++source_;
  } else {
    lost_ = source_;
    source_ = 0;
    edit_left_ = kEditTokens;
  }
}

void DraftProposer::index(const std::vector<TokenId>& tokens) {
  make_room(tokens);
  while (previous_.size() <= tokens.size()) insert(tokens, previous_.size());
}

// Up to the capacity of `tokens` without another allocation.
void DraftProposer::make_room(const std::vector<TokenId>& tokens) {
  if (tokens.size() < previous_.capacity() && !latest_.empty()) return;
  const size_t places = tokens.capacity() + 1;
  latest_.assign(std::bit_ceil(places), 0);
  previous_.clear();
  previous_.reserve(places);
  previous_.push_back(0);
  hash_ = 0;
}

// The run that ends before `end` becomes the latest of its hash.
void DraftProposer::insert(const std::vector<TokenId>& tokens, size_t end) {
  hash_ = hash_ * kBase + value_of(tokens[end - 1]);
  if (end > min_match_) hash_ -= power_ * value_of(tokens[end - 1 - min_match_]);
  if (end < min_match_) return previous_.push_back(0);
  // The upper bits of a product depend on all bits of the factor.
  const uint64_t mixed = (hash_ ^ (hash_ >> 32)) * 0xD6E8FEB86659FD93;
  int32_t& latest = latest_[(mixed >> 32) & (latest_.size() - 1)];
  previous_.push_back(latest);
  latest = static_cast<int32_t>(end);
}

// The earlier place with the longest equal tail; of several the latest. 0 when none reaches min_match_.
size_t DraftProposer::longest_match(const std::vector<TokenId>& tokens) const {
  size_t best = 0, longest = min_match_ - 1;
  auto place = static_cast<size_t>(previous_[tokens.size()]);
  for (int i = 0; i < kMostCandidates && place > 0 && longest < max_match_; ++i) {
    const size_t length = common_tail(tokens, place, tokens.size(), max_match_);
    if (length > longest) {
      best = place;
      longest = length;
    }
    place = static_cast<size_t>(previous_[place]);
  }
  return best;
}

// The first place from lost_ on whose tail is equal. 0 when there is none.
size_t DraftProposer::match_behind_edit(const std::vector<TokenId>& tokens) const {
  const size_t match = std::min(kEditMatch, min_match_);
  if (edit_left_ > kEditTokens - static_cast<int>(match)) return 0;  // part of the edit itself
  const size_t end = std::min(lost_ + match + kEditWindow, tokens.size() - 1);
  for (size_t place = lost_ + match; place <= end; ++place) {
    if (common_tail(tokens, place, tokens.size(), match) == match) return place;
  }
  return 0;
}

}  // namespace pagoda::engine
