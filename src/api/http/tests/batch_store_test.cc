#include "api/http/batch_store.h"

#include "api/http/error_table.h"
#include "api/http/tests/store_fixture.h"

namespace pagoda::http {
namespace {

using openai::BatchStatus;

// Of ids that a server could have made.
std::string id_with_stamp(const std::string& prefix, const std::string& stamp) {
  return prefix + stamp + std::string(32 - stamp.size(), 'a');
}

class BatchStoreTest : public StoreFixture {};

TEST_F(BatchStoreTest, FilesAreThereAfterARestart) {
  const auto file = add_file("line\n");
  EXPECT_EQ(file.bytes, 5);
  EXPECT_GT(file.created_at, 0);
  open();
  const auto found = store_->file(file.id);
  ASSERT_TRUE(found);
  EXPECT_EQ(openai::file_json(*found), openai::file_json(file));
  EXPECT_EQ(read(store_->content_path(file.id)), "line\n");
}

TEST_F(BatchStoreTest, TheFolderIsForItsUserAndForOneServer) {
  const auto mode = std::filesystem::status(dir_ / "files").permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_all);
  const auto second = BatchStore::open(dir_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(second.error().message.find("--batch-dir"), std::string::npos);
}

TEST_F(BatchStoreTest, AFolderThatCannotBeMadeIsAnErrorWithItsName) {
  write(path("plain"), "x");
  const auto store = BatchStore::open(path("plain"));
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("--batch-dir"), std::string::npos);
  EXPECT_NE(store.error().message.find(path("plain")), std::string::npos);
}

TEST_F(BatchStoreTest, WhatWasNotWrittenToItsEndIsRemovedAtTheStart) {
  const auto file = add_file("kept");
  const std::string orphan = id_with_stamp("file-", "000000000001");
  const std::string batch = id_with_stamp("batch_", "000000000001");
  for (const auto& name : {"files/" + orphan, "files/" + orphan + ".part", "files/" + orphan + ".json.part",
                           "batches/" + batch + ".json.part"}) {
    write(path(name), "part");
  }
  for (const char* name : {"files/notes.txt", "files/file-mine", "batches/notes.part"}) {
    write(path(name), "not ours");
  }
  open();
  EXPECT_EQ(names("files"), (std::set<std::string>{file.id, file.id + ".json", "notes.txt", "file-mine"}));
  EXPECT_EQ(names("batches"), std::set<std::string>{"notes.part"});
}

TEST_F(BatchStoreTest, DamagedDescriptionsAreLeftAloneAndDisturbNothing) {
  const auto good = add_file("good"), bad = add_file("bad"), other = add_file("other");
  const auto batch = add_batch(good.id), broken = add_batch(good.id), elsewhere = add_batch(good.id);
  write(store_->content_path(bad.id) + ".json", R"({"id":)");
  write(store_->content_path(other.id) + ".json", openai::file_json(good));  // another one's
  change(elsewhere.id, [](openai::BatchObject& object) { object.input_file_id = "../lock"; });
  write(path("batches/" + broken.id + ".json"), R"({"id":")" + broken.id + R"(","status":"lost"})");
  open();
  ASSERT_EQ(store_->files().size(), 1u);
  EXPECT_EQ(store_->files()[0].id, good.id);
  EXPECT_FALSE(store_->file(bad.id));
  ASSERT_EQ(store_->batches().size(), 1u);
  EXPECT_EQ(store_->batches()[0].id, batch.id);
  EXPECT_EQ(read(store_->content_path(bad.id)), "bad");
  EXPECT_NE(read(path("batches/" + broken.id + ".json")), "");
}

TEST_F(BatchStoreTest, IdsGrowAlsoWhenTheClockWasSetBack) {
  const std::string future = id_with_stamp("file-", "f00000000000");
  openai::FileObject file;
  file.id = future;
  file.filename = "x";
  file.purpose = "batch";
  write(path("files/" + future), "x");
  write(path("files/" + future + ".json"), openai::file_json(file));
  open();
  std::string last = future;
  for (int i = 0; i < 3; ++i) {
    const auto next = add_file("y").id;
    EXPECT_GT(next, last);
    last = next;
  }
  EXPECT_GT(add_batch(last).id.substr(6), last.substr(5));
}

TEST_F(BatchStoreTest, AFullDiskIsAnErrorOfItsOwnAndLeavesNothing) {
  {
    const FileSizeLimit limit(1000);
    const auto file = store_->add_file(std::string(5000, 'x'), "in.jsonl", "batch");
    ASSERT_FALSE(file);
    EXPECT_EQ(http_error(file.error()).status, 507);
    EXPECT_EQ(http_error(file.error()).body.code, "insufficient_storage");
    EXPECT_EQ(file.error().message.find(dir_.string()), std::string::npos) << "no path for clients";
  }
  EXPECT_TRUE(names("files").empty());
  EXPECT_TRUE(store_->files().empty());
  add_file(std::string(5000, 'x'));
}

TEST_F(BatchStoreTest, AChangeThatTheDiskRefusesIsNotSeen) {
  const auto batch = add_batch(add_file("x").id);
  {
    const FileSizeLimit limit(100);
    const auto changed = store_->update_batch(batch.id, [](openai::BatchObject& object) -> Result<void> {
      object.status = BatchStatus::kCancelling;
      return {};
    });
    EXPECT_FALSE(changed);
  }
  EXPECT_EQ(store_->batch(batch.id)->status, BatchStatus::kValidating);
  open();
  EXPECT_EQ(store_->batch(batch.id)->status, BatchStatus::kValidating);
}

TEST_F(BatchStoreTest, AFileThatABatchNeedsStays) {
  const auto file = add_file("x");
  const auto batch = add_batch(file.id);
  const auto refused = store_->remove_file(file.id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "file_in_use");
  EXPECT_NE(refused.error().message.find(batch.id), std::string::npos);
  set_status(batch.id, BatchStatus::kCompleted);
  EXPECT_TRUE(store_->remove_file(file.id));
  EXPECT_TRUE(names("files").empty());
  EXPECT_EQ(store_->remove_file(file.id).error().kind, ErrorKind::kNotFound);
}

TEST_F(BatchStoreTest, BatchesAreThereAfterARestartWithAllTheirFields) {
  const auto batch = add_batch(add_file("x").id);
  const auto changed = change(batch.id, [](openai::BatchObject& object) {
    object.status = BatchStatus::kFailed;
    object.failed_at = 7;
    object.total = 3;
    object.failed = 2;
    object.metadata = {{"a", "b"}, {"c", "d"}};
    object.errors = {{"invalid_line", "Line 3: no", "body", 3}, {"more_errors", "1 more", "", 0}};
  });
  const auto refused = store_->update_batch(batch.id, [](openai::BatchObject& object) -> Result<void> {
    object.total = 99;
    return make_error(ErrorKind::kInvalidArgument, "no");
  });
  EXPECT_FALSE(refused);
  open();
  ASSERT_TRUE(store_->batch(batch.id));
  EXPECT_EQ(openai::batch_json(*store_->batch(batch.id)), openai::batch_json(changed));
  EXPECT_TRUE(store_->unfinished_batches().empty());
}

TEST_F(BatchStoreTest, ABatchNeedsAFileThatIsThere) {
  openai::BatchObject batch;
  batch.input_file_id = "../../etc/passwd";
  const auto added = store_->add_batch(batch);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().param, "input_file_id");
  EXPECT_EQ(store_->batch("batch_x").error().kind, ErrorKind::kNotFound);
}

// A run that was killed between any two of its steps: the file was moved and not described, or both.
TEST_F(BatchStoreTest, TakingOverAFileCanBeDoneAgain) {
  const auto batch = add_batch(add_file("x").id);
  const std::string id = store_->new_file_id();
  change(batch.id, [&](openai::BatchObject& object) {
    object.status = BatchStatus::kFinalizing;
    object.output_file_id = id;
  });
  write(path("files/" + id), "answers");
  open();
  openai::FileObject file;
  file.id = id;
  file.filename = "o";
  file.purpose = "batch_output";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(store_->adopt_file(store_->output_path(batch.id), file));
    EXPECT_EQ(store_->file(id)->bytes, 7);
    open();
    EXPECT_EQ(read(store_->content_path(id)), "answers");
  }
}

}  // namespace
}  // namespace pagoda::http
