// How byte-level BPE vocabularies split text into words before merging, by the names of tokenizer.ggml.pre.
//
// The patterns are those of the models' own tokenizer.json files. llama.cpp uses rewritten ones where its
// regex engine lacks something; the pieces are the same.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace pagoda::model {

struct GgufPreTokenizer {
  std::array<std::string_view, 4>
      splits;                     // applied one after the other, matches isolated; unused ones are empty
  bool byte_level_regex = false;  // GPT-2's own pattern comes after them
  bool ignore_merges = false;     // a word that is a token is that token, whatever the merges say
  bool add_bos = false;           // when tokenizer.ggml.add_bos_token is absent
  bool nfc = false;               // the family's tokenizer.json normalises; GGUF has no field for it
};

namespace gguf_patterns {

// Source: gpt-2's encoder.py and the tokenizer.json of each family.
inline constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
inline constexpr std::string_view kMiniCpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
inline constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kHanAndKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
inline constexpr std::string_view kDigit = R"(\p{N})";
inline constexpr std::string_view kUpToThreeDigits = R"(\p{N}{1,3})";

inline constexpr GgufPreTokenizer kGpt2Words{{}, true, false, false, false};
inline constexpr GgufPreTokenizer kDigitsAndGpt2Words{{kDigit}, true, false, false, false};
inline constexpr GgufPreTokenizer kLlama3Words{{kLlama3}, false, true, true, false};
inline constexpr GgufPreTokenizer kLlama3WordsMerged{{kLlama3}, false, false, false, false};
inline constexpr GgufPreTokenizer kQwen2Words{{kQwen2}, false, false, false, false};
inline constexpr GgufPreTokenizer kGpt4oWords{{kGpt4o}, false, false, false, false};
inline constexpr GgufPreTokenizer kDeepSeek3Words{
    {kUpToThreeDigits, kHanAndKana, kDeepSeek3}, false, false, false, false};

}  // namespace gguf_patterns

struct NamedGgufPreTokenizer {
  std::string_view name;
  GgufPreTokenizer value;
};

// Source: llama.cpp's table of names. Left out: those of models whose original pattern is not known for
// certain (deepseek-llm), that need special code (kimi-k2, afmoe), or whose architecture this program can't
// run.
inline constexpr std::array kGgufPreTokenizers = {
    NamedGgufPreTokenizer{"gpt-2", gguf_patterns::kGpt2Words},
    NamedGgufPreTokenizer{"phi-2", gguf_patterns::kGpt2Words},
    NamedGgufPreTokenizer{"mpt", gguf_patterns::kGpt2Words},
    NamedGgufPreTokenizer{"olmo", gguf_patterns::kGpt2Words},
    NamedGgufPreTokenizer{"jais", gguf_patterns::kGpt2Words},
    NamedGgufPreTokenizer{"trillion", gguf_patterns::kGpt2Words},
    NamedGgufPreTokenizer{"exaone4", gguf_patterns::kGpt2Words},
    NamedGgufPreTokenizer{"gigachat", gguf_patterns::kGpt2Words},
    NamedGgufPreTokenizer{"mellum", gguf_patterns::kGpt2Words},
    NamedGgufPreTokenizer{"smollm", gguf_patterns::kDigitsAndGpt2Words},
    NamedGgufPreTokenizer{"starcoder", gguf_patterns::kDigitsAndGpt2Words},
    NamedGgufPreTokenizer{"refact", gguf_patterns::kDigitsAndGpt2Words},
    NamedGgufPreTokenizer{"command-r", gguf_patterns::kDigitsAndGpt2Words},
    NamedGgufPreTokenizer{"codeshell", gguf_patterns::kDigitsAndGpt2Words},
    NamedGgufPreTokenizer{"exaone", gguf_patterns::kDigitsAndGpt2Words},
    NamedGgufPreTokenizer{"minerva-7b", gguf_patterns::kDigitsAndGpt2Words},
    NamedGgufPreTokenizer{"llama-bpe", gguf_patterns::kLlama3Words},
    NamedGgufPreTokenizer{"llama3", gguf_patterns::kLlama3Words},
    NamedGgufPreTokenizer{"llama-v3", gguf_patterns::kLlama3Words},
    NamedGgufPreTokenizer{"falcon3", gguf_patterns::kLlama3Words},
    NamedGgufPreTokenizer{"pixtral", gguf_patterns::kLlama3Words},
    NamedGgufPreTokenizer{"midm-2.0", gguf_patterns::kLlama3Words},
    NamedGgufPreTokenizer{"lfm2", gguf_patterns::kLlama3Words},
    NamedGgufPreTokenizer{"dbrx", gguf_patterns::kLlama3WordsMerged},
    NamedGgufPreTokenizer{"smaug-bpe", gguf_patterns::kLlama3WordsMerged},
    NamedGgufPreTokenizer{"glm4", gguf_patterns::kLlama3WordsMerged},
    NamedGgufPreTokenizer{"chatglm-bpe", gguf_patterns::kLlama3WordsMerged},
    NamedGgufPreTokenizer{
        "minicpm5", {{gguf_patterns::kUpToThreeDigits, gguf_patterns::kMiniCpm5}, false, true, false, false}},
    NamedGgufPreTokenizer{"qwen2", {{gguf_patterns::kQwen2}, false, false, false, true}},
    NamedGgufPreTokenizer{"qwen35", {{gguf_patterns::kQwen35}, false, false, false, true}},
    NamedGgufPreTokenizer{"deepseek-r1-qwen", gguf_patterns::kQwen2Words},
    NamedGgufPreTokenizer{"megrez", gguf_patterns::kQwen2Words},
    NamedGgufPreTokenizer{"stablelm2", gguf_patterns::kQwen2Words},
    NamedGgufPreTokenizer{"hunyuan", gguf_patterns::kQwen2Words},
    NamedGgufPreTokenizer{"solar-open", gguf_patterns::kQwen2Words},
    NamedGgufPreTokenizer{"seed-coder", {{gguf_patterns::kSeedCoder}, false, false, false, false}},
    NamedGgufPreTokenizer{"tekken", {{gguf_patterns::kTekken}, false, true, true, false}},
    NamedGgufPreTokenizer{"gpt-4o", gguf_patterns::kGpt4oWords},
    NamedGgufPreTokenizer{"llama4", gguf_patterns::kGpt4oWords},
    NamedGgufPreTokenizer{"deepseek-v3", gguf_patterns::kDeepSeek3Words},
    NamedGgufPreTokenizer{"hunyuan-dense", gguf_patterns::kDeepSeek3Words},
    NamedGgufPreTokenizer{"deepseek-coder",
                          {{R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                            R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+|\p{N})"},
                           false,
                           false,
                           false,
                           false}},
    // What llama.cpp does for files that name none, which all come from before there were names.
    NamedGgufPreTokenizer{"default",
                          {{R"([\p{P}\$\+<=>\^~\|]+)",
                            R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
                            R"(\p{N}+)", R"([0-9][0-9][0-9])"},
                           false,
                           false,
                           false,
                           false}},
};

}  // namespace pagoda::model
