#include "text/gbnf.h"

#include <fmt/format.h>

#include <cctype>
#include <vector>

#include "text/gbnf_parser.h"

namespace pagoda::text {
namespace {

using internal::GbnfGrammar;
using internal::GbnfNode;
using Kind = GbnfNode::Kind;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

class LarkWriter {
 public:
  explicit LarkWriter(const GbnfGrammar& grammar)
      : grammar_(grammar), states_(grammar.rules.size(), State::kUnknown) {}

  std::string write() {
    for (size_t rule = 0; rule < grammar_.rules.size(); ++rule) visit(rule);
    std::string lark = fmt::format("start: {}\n", name(grammar_.root));
    for (size_t rule = 0; rule < grammar_.rules.size(); ++rule) {
      const GbnfNode& body = grammar_.rules[rule].body;
      lark += fmt::format("{}: {}\n", name(rule), is_terminal(rule) ? terminal(body) : choice(body));
    }
    return lark + hoisted_;
  }

 private:
  enum class State : uint8_t { kUnknown, kOpen, kTerminal, kRule };

  bool is_terminal(size_t rule) const { return states_[rule] == State::kTerminal; }

  // A rule is a terminal unless it can come back to itself or needs a rule or control token that is none.
  // The depth of the calls is bounded by the parser's limits.
  void visit(size_t rule) {
    if (states_[rule] != State::kUnknown) return;
    states_[rule] = State::kOpen;
    states_[rule] = can_be_terminal(grammar_.rules[rule].body) ? State::kTerminal : State::kRule;
  }
  bool can_be_terminal(const GbnfNode& node) {
    if (node.kind == Kind::kToken) return false;
    if (node.kind == Kind::kRule) {
      visit(node.rule);
      return is_terminal(node.rule);  // an open one is on its way back to itself
    }
    bool all = true;
    for (const GbnfNode& item : node.items) all = can_be_terminal(item) && all;
    return all;
  }
  bool is_regular(const GbnfNode& node) const {
    if (node.kind == Kind::kToken) return false;
    if (node.kind == Kind::kRule) return is_terminal(node.rule);
    for (const GbnfNode& item : node.items) {
      if (!is_regular(item)) return false;
    }
    return true;
  }

  // Lark tells rules from terminals by their case.
  std::string name(size_t rule) const {
    std::string name = fmt::format("r{}_{}", rule, grammar_.rules[rule].name);
    for (char& c : name) {
      if (c == '-') c = '_';
      const auto byte = static_cast<unsigned char>(c);
      c = static_cast<char>(is_terminal(rule) ? std::toupper(byte) : std::tolower(byte));
    }
    return name;
  }

  std::string leaf(const GbnfNode& node) const {
    if (node.kind == Kind::kRule) return name(node.rule);
    if (node.kind == Kind::kClass) return "/" + node.text + "/";
    return node.kind == Kind::kLiteral ? quoted(node.text) : node.text;
  }
  static std::string operator_of(const GbnfNode& repeat) {
    if (repeat.max < 0) return fmt::format("{{{},}}", repeat.min);
    return fmt::format("{{{},{}}}", repeat.min, repeat.max);
  }

  // Without the tokens and rules that a terminal cannot hold.
  std::string terminal(const GbnfNode& node) const {
    if (node.kind == Kind::kRepeat) return "(" + terminal(node.items.front()) + ")" + operator_of(node);
    if (node.kind != Kind::kSequence && node.kind != Kind::kChoice) return leaf(node);
    std::string out;
    for (const GbnfNode& item : node.items) {
      if (!out.empty()) out += node.kind == Kind::kChoice ? " | " : " ";
      out += item.kind == Kind::kChoice ? "(" + terminal(item) + ")" : terminal(item);
    }
    return out.empty() ? "\"\"" : out;
  }

  std::string choice(const GbnfNode& node) {
    if (node.kind != Kind::kChoice) return sequence(node);
    std::string out;
    for (const GbnfNode& item : node.items) out += (out.empty() ? "" : " | ") + sequence(item);
    return out;
  }

  // Neighbours that a terminal can hold become one.
  std::string sequence(const GbnfNode& node) {
    if (node.kind != Kind::kSequence) return item(node);
    std::string out;
    for (size_t i = 0; i < node.items.size();) {
      GbnfNode run{.kind = Kind::kSequence, .text = {}, .items = {}};
      while (i < node.items.size() && is_regular(node.items[i])) run.items.push_back(node.items[i++]);
      if (!out.empty()) out += ' ';
      out += run.items.empty() ? item(node.items[i++]) : hoist(run);
    }
    return out.empty() ? "\"\"" : out;
  }
  std::string item(const GbnfNode& node) {
    if (is_regular(node)) return hoist(node);
    if (node.kind == Kind::kRepeat) return "(" + choice(node.items.front()) + ")" + operator_of(node);
    if (node.kind == Kind::kChoice || node.kind == Kind::kSequence) return "(" + choice(node) + ")";
    return leaf(node);
  }
  std::string hoist(const GbnfNode& node) {
    if (node.items.empty() && node.kind != Kind::kSequence) return leaf(node);
    if (node.items.size() == 1 && node.kind == Kind::kSequence) return hoist(node.items.front());
    const std::string name = fmt::format("PART{}", num_parts_++);
    hoisted_ += fmt::format("{}: {}\n", name, terminal(node));
    return name;
  }

  const GbnfGrammar& grammar_;
  std::vector<State> states_;
  std::string hoisted_;
  int num_parts_ = 0;
};

}  // namespace

Result<std::string> gbnf_to_lark(std::string_view gbnf) {
  const GbnfGrammar grammar = PAGODA_TRY(internal::parse_gbnf(gbnf));
  return LarkWriter(grammar).write();
}

}  // namespace pagoda::text
