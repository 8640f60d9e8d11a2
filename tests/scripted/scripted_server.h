// The whole server over the scripted model: everything of `pagoda serve` but the loader and the kernels.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "scripted/script_table.h"

namespace pagoda::scripted {

struct ScriptedServerOptions {
  uint16_t port = 0;
  int64_t max_model_len = 512;
  int num_blocks = 256;
  int max_num_seqs = 16;
  int64_t max_num_queued_reqs = 64;
  int text_threads = 2;
  bool add_bos = false;
  bool faults = true;  // false: no request can reach the tokens that fail on purpose
  bool strict_params = false;
  bool stay_loading = false;  // set_ready() is never called
  int max_logprobs = 20;
  size_t max_body_bytes = size_t{32} << 20;
  std::string fim_template;  // empty: the model can't fill in the middle
  std::string batch_dir;     // of files and batches; empty: there are none
  int64_t seed = -1, stream_interval = 1;
  std::chrono::milliseconds sse_ping_interval{0};
  std::string
      chat_template;  // empty: turns between <|im_start|> and <|im_end|>, role "reject" raises an error
};

class ScriptedServer {
 public:
  static Result<std::unique_ptr<ScriptedServer>> start(ScriptTable table,
                                                       const ScriptedServerOptions& options);
  ~ScriptedServer();

  uint16_t port() const;
  // As on SIGTERM: new work is refused, running streams go on until `seconds` have passed, then end with an
  // error.
  void drain_and_stop(double seconds);

 private:
  ScriptedServer();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pagoda::scripted
