#include "cli/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>

#include "cli/flag_compat.h"
#include "cli/version.h"

namespace pagoda::cli {
namespace {

// With short forms, and vLLM's name for int8.
const std::vector<std::string> kKvCacheDtypes = {"auto", "bfloat16", "bf16", "float16",
                                                 "fp16", "float32",  "int8", "int8_per_token_head"};

// "--max-model-len" -> "PAGODA_MAX_MODEL_LEN".
std::string env_name(const std::string& flag) {
  std::string name = "PAGODA_" + flag.substr(2);
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

template <class T>
CLI::Option* add(CLI::App& app, const std::string& flag, T& value, const std::string& help) {
  return app.add_option(flag, value, help)
      ->envname(env_name(flag))
      ->capture_default_str()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

// --name / --no-name, as vLLM has it.
void add_switch(CLI::App& app, const std::string& name, bool& value, const std::string& help) {
  app.add_flag(fmt::format("--{0},!--no-{0}", name), value, help)
      ->envname(env_name("--" + name))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void add_model_flag(CLI::App& app, EngineFlags& flags) {
  app.add_option("model,--model", flags.model, "GGUF file or Hugging Face folder")->required();
}

// How numbers are kept and multiplied.
void add_number_flags(CLI::App& app, EngineFlags& flags) {
  add(app, "--dtype", flags.dtype,
      "auto: weights as the file has them, activations int8 or bf16; float32: exact")
      ->check(CLI::IsMember({"auto", "float32"}));
  add(app, "--quantization", flags.quantization,
      "int8 or int4: round the weights of a checkpoint of floats while it is loaded; gptq, awq, "
      "compressed-tensors, bitsandbytes or gguf: what the checkpoint has to be quantised with; bf16 (or "
      "fp16): "
      "it has to be of floats, which run as bf16; auto: as it is");
  add(app, "--head-dtype", flags.head_dtype,
      "token embedding and output head, where they are floats: int8 rounds them while they are loaded; "
      "bfloat16 leaves them; auto: int8 in a folder whose layers are quantised")
      ->check(CLI::IsMember({"auto", "int8", "bfloat16"}));
  add(app, "--kv-cache-dtype", flags.kv_cache_dtype,
      "of keys and values; int8: half of bfloat16's memory; auto: bfloat16, float32 with --dtype float32")
      ->check(CLI::IsMember(kKvCacheDtypes));
  add(app, "--activation-precision", flags.activation_precision,
      "what 4- and 8-bit weights multiply with: int8 is fast, int16 is all but exact, mixed takes 16 bits "
      "where "
      "it matters; auto: mixed for small models, else int8")
      ->check(CLI::IsMember({"auto", "int8", "mixed", "int16"}));
  add(app, "--packed-cache", flags.packed_cache,
      "where to keep the weights as they lie in memory, for starts in a fraction of the time; auto: a file "
      "beside the "
      "model; else a folder; off: nowhere");
}

void add_engine_flags(CLI::App& app, EngineFlags& flags) {
  add_number_flags(app, flags);
  add(app, "--max-model-len", flags.max_model_len,
      "longest prompt + output in tokens (32k form too); default: the model's");
  add(app, "--kv-cache-memory-bytes", flags.kv_cache_memory_bytes,
      "size of the KV cache (2G form too); default: from the memory limit")
      ->envname("PAGODA_KV_CACHE_MEMORY_BYTES");
  add(app, "--gpu-memory-utilization", flags.memory_fraction, "fraction of the memory limit that may be used")
      ->check(CLI::Range(0.01, 1.0));
  add(app, "--block-size", flags.block_size, "tokens in a KV block; 16 is the only size")
      ->check(CLI::IsMember({16}));
  add(app, "--threads", flags.threads, "compute threads; 0: all CPUs of the quota")
      ->check(CLI::Range(0, 1024));
  add(app, "--max-num-seqs", flags.max_num_seqs, "sequences that run at once")->check(CLI::Range(1, 4096));
  add(app, "--max-num-batched-tokens", flags.max_num_batched_tokens, "token budget of one step")
      ->check(CLI::Range(1, 65536));
  add(app, "--long-prefill-token-threshold", flags.long_prefill_token_threshold,
      "cap of one prompt chunk in a step; 0: the budget")
      ->check(CLI::Range(0, 65536));
  add(app, "--itl-target-ms", flags.itl_target_ms,
      "inter-token latency to aim at: prompts get fewer tokens of a step that others decode in, so that it "
      "takes this long; 0: the whole budget")
      ->check(CLI::Range(0, 60000));
  add_switch(app, "enable-prefix-caching", flags.enable_prefix_caching,
             "reuse the KV blocks of equal prompt prefixes");
  add(app, "--speculative-config", flags.speculative_config,
      "ngram, off, or vLLM's JSON for the method ngram: drafts from what the text said before, for text that "
      "copies from its prompt; the same tokens, sooner");
  add(app, "--scheduling-policy", flags.scheduling_policy, "order of waiting requests")
      ->check(CLI::IsMember({"fcfs", "priority"}));
  add(app, "--max-num-queued-reqs", flags.max_num_queued_reqs, "requests that may wait; beyond: 503")
      ->check(CLI::PositiveNumber);
  add(app, "--max-num-queued-tokens", flags.max_num_queued_tokens, "prompt tokens that may wait; beyond: 503")
      ->check(CLI::PositiveNumber);
  add(app, "--chat-template", flags.chat_template, "Jinja file to use instead of the model's own template");
  add(app, "--generation-config", flags.generation_config,
      "auto: sampling defaults of the model; vllm: the API's own")
      ->check(CLI::IsMember({"auto", "vllm"}));
  add(app, "--runner", flags.runner,
      "generate: text; pooling: embeddings; auto: what the model is made for, text where it can make both")
      ->check(CLI::IsMember({"auto", "generate", "pooling"}));
  add(app, "--task", flags.task, "embed is --runner pooling, generate is --runner generate")
      ->check(CLI::IsMember({"auto", "generate", "embed", "embedding"}));
  add(app, "--pooling-type", flags.pooling_type,
      "which rows of the last layer make the vector; auto: what the model's files say, else the mean for "
      "encoders and the last token for others")
      ->transform(CLI::IsMember({"auto", "last", "mean", "cls"}, CLI::ignore_case));
  add(app, "--log-level", flags.log_level, "trace, debug, info, warning, error, off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
  app.add_option("--config", "YAML file with `flag: value` lines")->type_name("FILE");
}

void add_serve_flags(CLI::App& app, ServeFlags& flags) {
  add_model_flag(app, flags.engine);
  add_engine_flags(app, flags.engine);
  add(app, "--host", flags.host, "address to listen on; 0.0.0.0 for all");
  add(app, "--port", flags.port, "port; 0: any free one")->check(CLI::Range(0, 65535));
  add(app, "--uds", flags.uds, "listen on a Unix socket instead");
  app.add_option("--served-model-name", flags.served_model_name, "name(s) in the API; default: the file's")
      ->envname("PAGODA_SERVED_MODEL_NAME");
  add(app, "--allowed-origins", flags.allowed_origins,
      "origins for CORS, comma-separated, or *; default: CORS off");
  add(app, "--tool-call-parser", flags.tool_call_parser,
      "how the model writes tool calls: auto (from the chat template), none, or a name as vLLM has it, such "
      "as "
      "hermes");
  add(app, "--reasoning-parser", flags.reasoning_parser,
      "how the model marks its reasoning: auto (from the chat template), none, or a name such as qwen3");
  add_switch(app, "strict-params", flags.strict_params, "unknown request fields are errors");
  add(app, "--fim-template", flags.fim_template,
      "how the model is asked to fill a gap, as a text with {prefix} and {suffix} in it; default: by the "
      "tokens "
      "that its vocabulary has for that");
  add(app, "--seed", flags.seed, "makes the seeds of requests without one, by their order; -1: random")
      ->check(CLI::Range(int64_t{-1}, INT64_MAX));
  add(app, "--stream-interval", flags.stream_interval,
      "tokens of a choice that a stream sends together, but for the first and the last")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  add(app, "--sse-ping-interval", flags.sse_ping_interval_s,
      "seconds without a token after which a stream gets its head and a comment, so that no client or proxy "
      "gives up on a long prompt; 0: never")
      ->check(CLI::Range(0, 86400));
  add(app, "--batch-dir", flags.batch_dir,
      "folder in which the files and batches of /v1/files and /v1/batches are kept; default: the server has "
      "none");
  add(app, "--shutdown-timeout", flags.shutdown_timeout_s, "seconds that running requests get after SIGTERM")
      ->check(CLI::Range(0, 86400));
  add(app, "--max-body-bytes", flags.max_body_bytes, "largest request body")->check(CLI::PositiveNumber);
  add(app, "--io-threads", flags.io_threads, "threads for sockets")->check(CLI::Range(1, 64));
  add(app, "--text-threads", flags.text_threads, "threads for tokenizing and templates")
      ->check(CLI::Range(1, 64));
}

void add_generate_flags(CLI::App& app, GenerateFlags& flags) {
  add_model_flag(app, flags.engine);
  add_engine_flags(app, flags.engine);
  app.add_option("-p,--prompt", flags.prompt, "prompt; - reads standard input")->required();
  app.add_flag("--chat", flags.chat, "send the prompt as a user message through the chat template");
  app.add_option("-n,--max-tokens", flags.max_tokens, "tokens to generate")->check(CLI::Range(1, 1 << 30));
  app.add_option("--temperature", flags.temperature, "0: greedy; default: the model's")
      ->check(CLI::Range(0.0, 2.0));
  app.add_option("--top-p", flags.top_p, "nucleus sampling")->check(CLI::Range(1e-9, 1.0));
  app.add_option("--top-k", flags.top_k, "0: off")->check(CLI::Range(0, 1 << 30));
  app.add_option("--seed", flags.seed, "default: random")->check(CLI::NonNegativeNumber);
  app.add_option("--stop", flags.stop, "stop string; may be given several times");
  app.add_flag("--ignore-eos", flags.ignore_eos, "go on after the end token");
}

void add_batch_flags(CLI::App& app, BatchFlags& flags) {
  add_model_flag(app, flags.engine);
  add_engine_flags(app, flags.engine);
  app.add_option("-i,--input", flags.input, "file of requests, a line each; - reads standard input")
      ->required();
  app.add_option("-o,--output", flags.output,
                 "file of answers; what it has already is not computed again; - is standard output")
      ->required();
  app.add_option("--served-model-name", flags.served_model_name,
                 "name(s) that the lines may use; default: the file's")
      ->envname("PAGODA_SERVED_MODEL_NAME");
  add_switch(app, "strict-params", flags.strict_params, "unknown request fields are errors");
  add(app, "--text-threads", flags.text_threads, "threads for tokenizing and templates")
      ->check(CLI::Range(1, 64));
}

void add_eval_flags(CLI::App& app, EvalFlags& flags) {
  app.add_option(
         "models", flags.models,
         "GGUF files and Hugging Face folders, a line of the table each; MODEL::quantization=int4,name=x "
         "gives one its own flags and a name")
      ->required();
  app.add_option("--reference", flags.reference,
                 "model that the others are held against, in float32 unless its own ::dtype says otherwise");
  add(app, "--text", flags.text, "file to predict; builtin: a short one that comes along; none");
  app.add_option("--window", flags.window,
                 "tokens of the text that see each other; default: 1024, or what all models can take")
      ->check(CLI::Range(2, 1 << 20));
  add(app, "--max-tokens", flags.max_tokens, "tokens of the text that are read")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30));
  app.add_option("--multiple-choice", flags.multiple_choice,
                 "JSONL of {question, choices, answer}, as MMLU has it; the most likely choice counts");
  add(app, "--choice-scoring", flags.choice_scoring,
      "letters: the choices are shown, and their letters scored; texts: each choice is scored as the "
      "continuation of the question, also by its length")
      ->check(CLI::IsMember({"letters", "texts"}));
  app.add_option("--humaneval", flags.humaneval,
                 "JSONL of {task_id, prompt, entry_point, test}: runs what the model writes; see "
                 "--allow-code-execution");
  app.add_flag(
      "--allow-code-execution", flags.allow_code_execution,
      "run code that a model wrote, with python3, as you, limited in time and memory but not in what "
      "it may do");
  add(app, "--code-timeout", flags.code_timeout_s, "seconds for one program")->check(CLI::Range(1, 3600));
  add(app, "--max-new-tokens", flags.max_new_tokens, "tokens of one program")->check(CLI::Range(1, 32768));
  add(app, "--limit", flags.limit, "only the first so many questions and problems; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--speed", flags.speed, "measure tokens/s of one stream");
  add(app, "--format", flags.format, "table, markdown or json")
      ->check(CLI::IsMember({"table", "markdown", "json"}));
  app.add_option("-o,--out", flags.output, "file for the table; default: standard output");
  app.add_option("--plot", flags.plot, "SVG of accuracy, KL or perplexity against size");
}

// The flags of the engine that were given, by the command line or the environment, as arguments: each model
// has a process of its own, whose command line they become.
std::vector<std::string> given_engine_args(const CLI::App& app) {
  CLI::App engine;
  EngineFlags flags;
  add_engine_flags(engine, flags);
  std::vector<std::string> args;
  for (const CLI::Option* option : app.get_options()) {
    if (option->empty() || engine.get_option_no_throw(option->get_name()) == nullptr) continue;
    args.push_back(option->get_name() + "=" + option->results().back());
  }
  return args;
}

void add_quantize_flags(CLI::App& app, QuantizeFlags& flags) {
  app.add_option("model,--model", flags.model, "GGUF file or Hugging Face folder")->required();
  app.add_option("out,--out", flags.out, "folder or file to write; it must not be there yet")->required();
  app.add_option("--format", flags.format,
                 "hf: a Hugging Face folder; gguf: a file for llama.cpp and its kin")
      ->capture_default_str()
      ->check(CLI::IsMember({"hf", "gguf"}));
  app.add_option("--type", flags.type, "with --format gguf, of the matrices: q4_0, q8_0, q4_k, f16 or f32");
  const auto of_folders = [&flags](CLI::Option* option) {
    option->each([&flags, option](const std::string&) { flags.folder_flags.push_back(option->get_name()); });
    return option;
  };
  of_folders(
      app.add_option("--method", flags.method,
                     "gptq: each column makes up for what those before it lost (GPTQ folder); awq: finer "
                     "steps for inputs with large activations (AWQ folder); rtn: round to nearest (GPTQ "
                     "folder); int8: W8A8 with a scale for each output (compressed-tensors folder)"))
      ->capture_default_str()
      ->check(CLI::IsMember({"gptq", "awq", "rtn", "int8"}));
  of_folders(app.add_option("--bits", flags.bits, "4 or 8; default: 4, with int8 8"));
  of_folders(app.add_option("--group-size", flags.group_size,
                            "columns that share a scale: 32, 64, 128, or -1 for all of a row"))
      ->capture_default_str();
  CLI::Option* const sym = of_folders(
      app.add_flag("--sym", flags.sym, "without zero points: what gptq and rtn do anyway, and int8 always"));
  of_folders(app.add_flag(
                 "--asym", flags.asym,
                 "gptq and rtn with zero points, which lose less: format gptq_v2, which GPTQModel loads and "
                 "vLLM does not; awq has them always"))
      ->excludes(sym);
  of_folders(app.add_flag("--desc-act", flags.desc_act, "with gptq: the most active inputs first"));
  of_folders(app.add_option("--rounding", flags.rounding,
                            "of awq's scaled weights: gptq, the default, or nearest, which loses more, as in "
                            "the paper"))
      ->check(CLI::IsMember({"gptq", "nearest"}));
  of_folders(app.add_option(
                 "--calibration", flags.calibration,
                 "text to run the model on, a file like what the model will read; builtin: docs and code"))
      ->capture_default_str();
  of_folders(app.add_option("--samples", flags.samples, "pieces of that text"))
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  of_folders(app.add_option("--sample-tokens", flags.sample_tokens, "tokens of a piece"))
      ->capture_default_str()
      ->check(CLI::Range(int64_t{8}, int64_t{1} << 20));
  app.add_option("--threads", flags.threads, "compute threads; 0: all CPUs of the quota")
      ->check(CLI::Range(0, 1024));
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warning, error, off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
  app.add_option("--config", "YAML file with `flag: value` lines")->type_name("FILE");
}

// vLLM's environment names for the same settings.
void apply_vllm_aliases(EngineFlags& flags) {
  const char* space = std::getenv("VLLM_CPU_KVCACHE_SPACE");  // GiB
  if (space != nullptr && *space != '\0' && flags.kv_cache_memory_bytes.empty()) {
    flags.kv_cache_memory_bytes = std::string(space) + "G";
  }
  // "0-3" or "0,2": only the number of CPUs matters; pinning is left to taskset and cpusets.
  const char* bind = std::getenv("VLLM_CPU_OMP_THREADS_BIND");
  if (bind == nullptr || flags.threads != 0) return;
  int count = 0;
  for (const auto& part : CLI::detail::split(bind, ',')) {
    const auto dash = part.find('-');
    const int first = std::atoi(part.c_str());
    const int last = dash == std::string::npos ? first : std::atoi(part.c_str() + dash + 1);
    count += std::max(0, last - first + 1);
  }
  if (std::isdigit(static_cast<unsigned char>(bind[0]))) flags.threads = count;
}

}  // namespace

Result<EngineFlags> parse_engine_args(const std::string& model, const std::vector<std::string>& args) {
  EngineFlags flags;
  flags.model = model;
  CLI::App app;
  add_engine_flags(app, flags);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 takes a stack
  } catch (const CLI::ParseError& error) {
    return make_error(ErrorKind::kInvalidArgument, error.what());
  }
  apply_vllm_aliases(flags);
  return flags;
}

Result<CommandLine> parse_command_line(const std::vector<std::string>& args) {
  CommandLine line;
  static constexpr std::array<std::string_view, 7> kCommands = {"serve", "generate",    "batch",   "inspect",
                                                                "eval",  "eval-worker", "quantize"};
  if (!args.empty() && !args[0].starts_with('-') && std::ranges::count(kCommands, args[0]) == 0) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("unknown command '{}': serve, generate, batch, inspect, eval and quantize are known",
                    args[0]));
  }
  auto rest = PAGODA_TRY(expand_config_file(args));
  rest = PAGODA_TRY(drop_foreign_flags(rest, line.warnings));

  CLI::App app("pagoda: an LLM server in one binary", "pagoda");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  CLI::App* serve = app.add_subcommand("serve", "serve a model over an OpenAI-compatible API");
  CLI::App* generate = app.add_subcommand("generate", "complete one prompt and print the text as it comes");
  CLI::App* batch = app.add_subcommand("batch", "answer a file of requests");
  CLI::App* inspect = app.add_subcommand("inspect", "show a model's architecture, formats and memory plan");
  CLI::App* eval = app.add_subcommand("eval", "measure models: perplexity, KL, accuracy, speed, memory");
  CLI::App* eval_worker = app.add_subcommand("eval-worker")->group("");  // what `eval` starts: not for people
  CLI::App* quantize = app.add_subcommand("quantize", "write a quantised copy of a model");
  add_serve_flags(*serve, line.serve);
  add_generate_flags(*generate, line.generate);
  add_batch_flags(*batch, line.batch);
  add_model_flag(*inspect, line.inspect.engine);
  add_engine_flags(*inspect, line.inspect.engine);
  inspect->add_flag("--tensors", line.inspect.tensors, "list every tensor");
  add_eval_flags(*eval, line.eval);
  EngineFlags for_all;
  for_all.log_level = line.eval.log_level;
  add_engine_flags(*eval, for_all);
  add_model_flag(*eval_worker, line.eval_worker);
  add_engine_flags(*eval_worker, line.eval_worker);
  add_quantize_flags(*quantize, line.quantize);
  try {
    std::reverse(rest.begin(), rest.end());  // CLI11 takes a stack
    app.parse(rest);
  } catch (const CLI::ParseError& error) {
    line.exit_code = app.exit(error) == 0 ? 0 : 2;
    return line;
  }
  line.command = *serve      ? Command::kServe
                 : *generate ? Command::kGenerate
                 : *batch    ? Command::kBatch
                 : *inspect  ? Command::kInspect
                 : *eval     ? Command::kEval
                 : *quantize ? Command::kQuantize
                             : Command::kEvalWorker;
  line.eval.log_level = for_all.log_level;
  line.eval.engine_args = given_engine_args(*eval);
  for (EngineFlags* flags : {&line.serve.engine, &line.generate.engine, &line.batch.engine,
                             &line.inspect.engine, &line.eval_worker}) {
    apply_vllm_aliases(*flags);
  }
  return line;
}

}  // namespace pagoda::cli
