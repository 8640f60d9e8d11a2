#include "cli/eval_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/flags.h"

namespace pagoda::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(EvalSpecTest, AModelWithFlagsAndAName) {
  const auto plain = parse_eval_spec("a/b:c.gguf");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->model, "a/b:c.gguf");
  EXPECT_TRUE(plain->args.empty());
  const auto spec = parse_eval_spec("m::quantization=int4,name=INT 4,--activation-precision=int16");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->model, "m");
  EXPECT_EQ(spec->name, "INT 4");
  EXPECT_EQ(spec->flags, "quantization=int4,activation-precision=int16");
  EXPECT_THAT(spec->args, ElementsAre("--quantization=int4", "--activation-precision=int16"));
}

TEST(EvalSpecTest, AKvCacheOfItsOwn) {
  const auto spec = parse_eval_spec("m::kv-cache-dtype=int8,name=KV8");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->name, "KV8");
  const auto engine =
      parse_engine_args(spec->model, engine_args_of(*spec, {"--kv-cache-dtype=float16"}, false));
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->kv_cache_dtype, "int8");
  const auto bad = parse_engine_args("m", {"--kv-cache-dtype=int3"});
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("int8"));
}

TEST(EvalSpecTest, WrongFormsAreNamed) {
  for (const char* text : {"::quantization=int4", "m::int4", "m::=int4", "m::quantization=", "m::,"}) {
    const auto spec = parse_eval_spec(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_THAT(spec.error().message, HasSubstr(text));
  }
}

TEST(EvalSpecTest, AReferenceIsExactUnlessItsOwnFlagsSayOtherwise) {
  const std::vector<std::string> for_all = {"--threads=2", "--dtype=auto", "--quantization=int4",
                                            "--kv-cache-dtype=bfloat16", "--activation-precision=int8"};
  const auto own = *parse_eval_spec("m::dtype=auto");
  EXPECT_THAT(engine_args_of(own, for_all, false),
              ElementsAre(for_all[0], for_all[1], for_all[2], for_all[3], for_all[4], "--dtype=auto"));
  EXPECT_THAT(engine_args_of(own, for_all, true),
              ElementsAre("--threads=2", "--dtype=float32", "--dtype=auto"));
}

TEST(EvalSpecTest, FlagsOfTheEngineAreCheckedInOneLine) {
  const auto good = parse_engine_args("m", {"--dtype=float32", "--threads=1", "--threads=2"});
  ASSERT_TRUE(good);
  EXPECT_EQ(good->model, "m");
  EXPECT_EQ(good->dtype, "float32");
  EXPECT_EQ(good->threads, 2);
  for (const char* arg : {"--dtype=int3", "--no-such-flag=1", "--threads=many", "--port=80"}) {
    const auto bad = parse_engine_args("m", {arg});
    ASSERT_FALSE(bad) << arg;
    EXPECT_EQ(bad.error().message.find('\n'), std::string::npos) << bad.error().message;
  }
}

TEST(EvalSpecTest, FlagsForAllModelsAreKeptAsArguments) {
  const auto line = parse_command_line({"eval", "a", "b::name=x", "--threads", "1",
                                        "--no-enable-prefix-caching", "--window", "64", "--speed"});
  ASSERT_TRUE(line);
  ASSERT_EQ(line->command, Command::kEval);
  EXPECT_THAT(line->eval.models, ElementsAre("a", "b::name=x"));
  EXPECT_EQ(line->eval.window, 64);
  EXPECT_TRUE(line->eval.speed);
  EXPECT_EQ(line->eval.log_level, "warning");
  EXPECT_THAT(line->eval.engine_args,
              testing::UnorderedElementsAre("--threads=1", "--enable-prefix-caching=false"));
  const auto engine = parse_engine_args("a", line->eval.engine_args);
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->threads, 1);
  EXPECT_FALSE(engine->enable_prefix_caching);
}

}  // namespace
}  // namespace pagoda::cli
