#include "scripted/script_table.h"

#include <nlohmann/json.hpp>

namespace pagoda::scripted {
namespace {

using Json = nlohmann::json;

TokenId byte_token(unsigned char byte) {
  return TokenId{kFirstByte + byte};
}

TokenId parse_piece(const Json& piece, ScriptTable* table) {
  if (piece.is_object()) return TokenId{piece.at("id").get<int32_t>()};
  if (piece.is_string()) return table->intern(piece.get<std::string>());
  std::string bytes;
  for (const Json& byte : piece) bytes.push_back(static_cast<char>(byte.get<unsigned>()));
  return table->intern(bytes);
}

std::vector<TokenId> parse_step(const Json& step, ScriptTable* table) {
  if (!step.is_object() || !step.contains("choose")) return {parse_piece(step, table)};
  std::vector<TokenId> candidates;
  for (const Json& piece : step.at("choose")) candidates.push_back(parse_piece(piece, table));
  return candidates;
}

}  // namespace

ScriptTable::ScriptTable() {
  tokens_ = {"<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|assistant|>", "<fault>", "<throw>"};
  for (int byte = 0; byte < 256; ++byte) tokens_.push_back(std::string(1, static_cast<char>(byte)));
  default_.steps = {{byte_token('x')}};
  default_.repeat = true;
}

Result<ScriptTable> ScriptTable::parse(std::string_view json) {
  try {
    ScriptTable table;
    const Json file = Json::parse(json);
    for (const auto& [name, entry] : file.at("scripts").items()) {
      Script script;
      for (const Json& step : entry.at("pieces")) script.steps.push_back(parse_step(step, &table));
      script.repeat = entry.value("repeat", false);
      script.delay_ms = entry.value("delay_ms", 0);
      table.add(name, std::move(script));
    }
    return table;
  } catch (const Json::exception& failure) {
    return make_error(ErrorKind::kInvalidArgument, std::string("scripts: ") + failure.what());
  }
}

void ScriptTable::add(const std::string& name, Script script) {
  scripts_[intern("script:" + name)] = std::move(script);
}

TokenId ScriptTable::intern(const std::string& bytes) {
  if (bytes.size() == 1) return byte_token(static_cast<unsigned char>(bytes.front()));
  const auto [found, is_new] = ids_.try_emplace(bytes, TokenId{static_cast<int32_t>(tokens_.size())});
  if (is_new) tokens_.push_back(bytes);
  return found->second;
}

ScriptTable::Position ScriptTable::locate(std::span<const TokenId> context) const {
  // The output starts behind the generation prompt of a chat, or else behind the script's name.
  size_t start = context.size();
  while (start > 0 && !scripts_.contains(context[start - 1])) --start;
  if (start == 0) return {&default_, 0};
  const Script* script = &scripts_.at(context[start - 1]);
  for (size_t i = start; i < context.size(); ++i) {
    if (context[i] == kAssistant) start = i + 1;
  }
  return {script, context.size() - start};
}

std::vector<TokenId> ScriptTable::next(std::span<const TokenId> context) const {
  const auto [script, step] = locate(context);
  if (script->repeat && !script->steps.empty()) return script->steps[step % script->steps.size()];
  return step < script->steps.size() ? script->steps[step] : std::vector<TokenId>{kEos};
}

int ScriptTable::delay_ms(std::span<const TokenId> context) const {
  return locate(context).script->delay_ms;
}

TokenId ScriptTable::script_token_at(std::string_view text) const {
  TokenId best;
  for (const auto& [id, script] : scripts_) {
    if (text.starts_with(bytes(id)) && (best.value < 0 || bytes(id).size() > bytes(best).size())) best = id;
  }
  return best;
}

}  // namespace pagoda::scripted
