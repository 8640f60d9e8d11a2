// The command line: names and defaults are vLLM's where vLLM has the flag (API.md, "Flags").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace pagoda::cli {

// What the commands share: how the model is loaded and run.
struct EngineFlags {
  std::string model;
  std::string dtype = "auto";                 // auto, float32
  std::string quantization = "auto";          // see model::open_checkpoint
  std::string head_dtype = "auto";            // auto, int8, bfloat16
  std::string kv_cache_dtype = "auto";        // auto, bfloat16, float16, float32, int8; see kv_dtype_of()
  std::string activation_precision = "auto";  // auto, int8, mixed, int16
  std::string max_model_len;                  // "32k" form; empty: the model's own
  std::string kv_cache_memory_bytes;          // "2G" form; empty: from the memory limit
  double memory_fraction = 0.9;
  int block_size = 16;
  int threads = 0;  // 0: all CPUs of the quota
  int max_num_seqs = 128;
  int64_t max_num_batched_tokens = 256;
  int64_t long_prefill_token_threshold = 0;
  int64_t itl_target_ms = 0;  // 0: no target
  bool enable_prefix_caching = true;
  std::string scheduling_policy = "fcfs";
  int64_t max_num_queued_reqs = 1024;
  int64_t max_num_queued_tokens = 4 << 20;
  std::string speculative_config = "ngram";  // vLLM's JSON, ngram, off
  std::string packed_cache = "off";          // off, auto, a folder
  std::string chat_template;                 // path; empty: the model's own
  std::string generation_config = "auto";    // auto, vllm
  std::string runner = "auto";               // auto, generate, pooling
  std::string task = "auto";                 // vLLM's older name: auto, generate, embed, embedding
  std::string pooling_type = "auto";         // auto, last, mean, cls
  std::string log_level = "info";
};

struct ServeFlags {
  EngineFlags engine;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string uds;
  std::vector<std::string> served_model_name;
  std::string allowed_origins;
  std::string tool_call_parser = "auto";  // a name of choose_output_format(), auto, none
  std::string reasoning_parser = "auto";
  bool strict_params = false;
  std::string fim_template;     // text with {prefix} and {suffix}; empty: the model's own
  int64_t seed = -1;            // for requests without one; -1: random
  int64_t stream_interval = 1;  // tokens
  int sse_ping_interval_s = 15;
  std::string batch_dir;  // of files and batches; empty: there are none
  int shutdown_timeout_s = 30;
  int64_t max_body_bytes = int64_t{32} << 20;
  int io_threads = 1;
  int text_threads = 2;
};

struct GenerateFlags {
  EngineFlags engine;
  std::string prompt;
  bool chat = false;
  int64_t max_tokens = 128;
  double temperature = -1;  // below 0: the model's own default
  double top_p = -1;
  int64_t top_k = -2;
  int64_t seed = -1;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

struct BatchFlags {
  EngineFlags engine;
  std::string input, output;  // files, or - for the standard ones
  std::vector<std::string> served_model_name;
  bool strict_params = false;
  int text_threads = 2;
};

struct InspectFlags {
  EngineFlags engine;
  bool tensors = false;
};

struct EvalFlags {
  std::vector<std::string> models;       // eval_spec.h
  std::string reference;                 // likewise; empty: none
  std::vector<std::string> engine_args;  // flags of the engine that are for every model, as "--name=value"
  std::string text = "builtin";          // a file, builtin, none
  int64_t window = 0;                    // tokens; 0: 1024, or what the models can take
  int64_t max_tokens = 4096;
  std::string multiple_choice;  // a file; empty: none
  std::string choice_scoring = "letters";
  std::string humaneval;  // likewise
  bool allow_code_execution = false;
  int code_timeout_s = 10;
  int64_t max_new_tokens = 512;
  int64_t limit = 0;  // of questions and of problems; 0: none
  bool speed = false;
  std::string format = "table";  // table, markdown, json
  std::string output, plot;      // files; empty: standard output, none
  std::string log_level = "warning";
};

struct QuantizeFlags {
  std::string model, out;
  std::string format = "hf";  // or gguf
  std::string type;           // of a GGUF file's matrices
  std::string method = "gptq";
  int bits = 0;  // 0: the method's own
  int64_t group_size = 128;
  bool sym = false, asym = false;
  bool desc_act = false;
  std::string rounding;                 // of awq: gptq or nearest; empty: gptq
  std::string calibration = "builtin";  // or a file
  int64_t samples = 128, sample_tokens = 512;
  std::vector<std::string> folder_flags;  // those that were given and mean nothing for a GGUF file
  int threads = 0;                        // 0: all CPUs of the quota
  std::string log_level = "info";
};

enum class Command { kServe, kGenerate, kBatch, kInspect, kEval, kEvalWorker, kQuantize, kExit };

struct CommandLine {
  Command command = Command::kExit;
  int exit_code = 0;  // for kExit: help and version are 0, usage errors 2 (already printed)
  ServeFlags serve;
  GenerateFlags generate;
  BatchFlags batch;
  InspectFlags inspect;
  EvalFlags eval;
  EngineFlags eval_worker;
  QuantizeFlags quantize;
  std::vector<std::string> warnings;  // accepted without effect
};

// Command line, then --config FILE (YAML, one level of `flag: value`), then PAGODA_* variables, then
// defaults. kInvalidArgument naming the flag for flags of other vLLM features, which are refused rather than
// ignored.
Result<CommandLine> parse_command_line(const std::vector<std::string>& args);

// Flags of the engine alone, as "--name=value". kInvalidArgument in one line.
Result<EngineFlags> parse_engine_args(const std::string& model, const std::vector<std::string>& args);

}  // namespace pagoda::cli
