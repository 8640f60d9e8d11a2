#include "api/http/query.h"

#include <gtest/gtest.h>

#include "api/http/file_thread.h"
#include "api/http/stored_routes.h"

namespace pagoda::http {
namespace {

TEST(Query, EscapesAndSeparators) {
  const Query query("a=1&b=x%20y+z&empty=&flag&a=2&=nameless&c=%zz%4&d=a=b&&");
  EXPECT_EQ(query.text("a"), "1");
  EXPECT_EQ(query.text("b"), "x y z");
  EXPECT_EQ(query.text("empty"), "");
  EXPECT_EQ(query.text("flag"), "");
  EXPECT_EQ(query.text("c"), "%zz%4");
  EXPECT_EQ(query.text("d"), "a=b");
  EXPECT_FALSE(query.text("e"));
  EXPECT_FALSE(Query("").text("a"));
  EXPECT_EQ(percent_decoded("a+%2B%c3%a4%"), "a++ä%");
}

TEST(Query, IntegersHaveLimits) {
  const Query query("a=7&b=0&c=x&d=7.5&e=&f=99999999999999999999&g=%207");
  EXPECT_EQ(*query.integer("a", 1, 9, 3), 7);
  EXPECT_EQ(*query.integer("none", 1, 9, 3), 3);
  for (const char* name : {"b", "c", "d", "e", "f", "g"}) {
    const auto value = query.integer(name, 1, 9, 3);
    ASSERT_FALSE(value) << name;
    EXPECT_EQ(value.error().param, name);
  }
}

struct Item {
  std::string id;
};

Result<openai::ListPage> page(const std::string& query, int count = 5) {
  std::vector<Item> items;
  for (int i = 1; i <= count; ++i) items.push_back({"i-" + std::to_string(i)});
  return page_of(std::move(items), Query(query), {"i-", 4, 2}, [](const Item& item) { return item.id; });
}

TEST(Pages, EveryItemIsOnOnePageInBothOrders) {
  for (const auto& [order, expected] :
       {std::pair<std::string, std::vector<std::string>>{"asc", {"i-1", "i-2", "i-3", "i-4", "i-5"}},
        {"desc", {"i-5", "i-4", "i-3", "i-2", "i-1"}}}) {
    std::vector<std::string> seen;
    std::string after;
    for (bool more = true; more;) {
      const auto part = page("order=" + order + after);
      ASSERT_TRUE(part);
      EXPECT_EQ(part->first_id, part->items.front());
      EXPECT_EQ(part->last_id, part->items.back());
      seen.insert(seen.end(), part->items.begin(), part->items.end());
      after = "&after=" + part->last_id;
      more = part->has_more;
    }
    EXPECT_EQ(seen, expected);
  }
}

TEST(Pages, EdgesAndErrors) {
  EXPECT_EQ(page("")->items, (std::vector<std::string>{"i-5", "i-4"}));
  EXPECT_FALSE(page("limit=4", 4)->has_more);
  const auto none = page("after=i-1");
  EXPECT_TRUE(none->items.empty());
  EXPECT_EQ(openai::list_json(*none),
            R"({"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false})");
  // One that was removed since the page before.
  EXPECT_EQ(page("order=asc&after=i-20")->items.front(), "i-3");
  for (const auto& [query, param] :
       {std::pair("order=up", "order"), {"limit=5", "limit"}, {"limit=0", "limit"}, {"after=x", "after"}}) {
    ASSERT_FALSE(page(query)) << query;
    EXPECT_EQ(page(query).error().param, param);
  }
}

TEST(FileThreadTest, WorkIsRepeatedUntilItIsOverAndFailuresEndOnlyTheirOwn) {
  std::vector<std::string> order;
  {
    FileThread thread;
    auto left = std::make_shared<int>(3);
    std::mutex mutex;
    std::condition_variable changed;
    thread.post([]() -> bool { throw std::runtime_error("on purpose"); });
    thread.post([&, left] {
      const std::lock_guard lock(mutex);
      order.push_back("again");
      if (--*left == 0) changed.notify_all();
      return *left == 0;
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return *left == 0; });
    thread.post([&] {
      order.push_back("last");
      return true;
    });
  }
  EXPECT_EQ(order, (std::vector<std::string>{"again", "again", "again", "last"}));
}

}  // namespace
}  // namespace pagoda::http
