// CASES B057-B075: what templates use of Jinja2 and Python. The values come from transformers.
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "pagoda_text.h"
#include "text/tests/text_fixtures.h"

namespace pagoda::text {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kConversation =
    R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "u1"},
                     {"role": "assistant", "content": "a1"}, {"role": "user", "content": "u2"}]})";

Result<std::string> render(const std::string& source, const std::string& context = "{}") {
  const ChatTemplate compiled = PAGODA_TRY(ChatTemplate::compile(source));
  return compiled.render(context);
}

void expect_output(const std::string& source, const std::string& output, const std::string& context = "{}") {
  auto rendered = render(source, context);
  ASSERT_TRUE(rendered.has_value()) << source << "\n" << rendered.error().message;
  EXPECT_EQ(*rendered, output) << source;
}

void expect_error(const std::string& source, const std::string& context = "{}",
                  const std::string& message = "") {
  auto rendered = render(source, context);
  ASSERT_FALSE(rendered.has_value()) << source << " gave " << rendered->substr(0, 200);
  EXPECT_THAT(rendered.error().message, HasSubstr(message)) << source;
}

// B057
TEST(ChatTemplate, namespaces_and_scopes) {
  expect_output(
      "{%- set ns = namespace(last=-1) -%}{%- for m in messages[::-1] -%}{%- set i = (messages|length - 1) - "
      "loop.index0 -%}{%- if ns.last < 0 and m.role == 'user' -%}{%- set ns.last = i -%}{%- endif -%}{%- "
      "endfor "
      "-%}{{ ns.last }}",
      "3", kConversation);
  expect_output("{% set x = 0 %}{% for i in [1,2,3] %}{% set x = x + i %}{% endfor %}{{ x }}", "0");
  expect_output(
      "{% set n = namespace(x=0) %}{% for i in [1,2,3] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}", "6");
  expect_output(
      "{% set ns = namespace(found=false, items=[]) %}{% for i in [1,2] %}{% set ns.found = true %}"
      "{% set ns.items = ns.items + [i] %}{% endfor %}{{ ns.found }}{{ ns['items'] }}",
      "True[1, 2]");
}

// B058
TEST(ChatTemplate, slices) {
  expect_output("{{ items[:-n] | string }}|{{ items[-n:] | string }}", "['a', 'b']|['c']",
                R"({"items": ["a", "b", "c"], "n": 1})");
  expect_output("{{ [1,2,3,4][::2] }}{{ [1,2,3][-2:] }}{{ 'abc'[1:] }}{{ (1,2)[::-1] }}",
                "[1, 3][2, 3]bc(2, 1)");
  expect_output("{{ 'hello'[1:-1] }}|{{ 'hello'[::-1] }}|{{ 'hello'[-1] }}", "ell|olleh|o");
  expect_output(
      "{{ messages[-1].content }}|{{ messages[1:][0].content }}|{{ messages[99] is defined }}|[{{ "
      "messages[99] }}]",
      "u2|u1|False|[]", kConversation);
}

// B060
TEST(ChatTemplate, tojson_is_python_json) {
  const std::string tool =
      R"({"name": "f", "description": "a < b & c > 'd' é 😀", "parameters": {"type": "object", "properties": )"
      R"({"z": {"type": "string"}, "a": {"type": "integer"}}}})";
  expect_output("{{ t | tojson }}", tool, "{\"t\": " + tool + "}");
  expect_output("{{ t | tojson(separators=(',', ':')) }}", R"({"b":[1,2],"a":"x/y"})",
                R"({"t": {"b": [1, 2], "a": "x/y"}})");
  expect_output("{{ t | tojson(indent=2) }}",
                "{\n  \"b\": [\n    1,\n    2.0,\n    true,\n    null\n  ],\n  \"a\": {},\n  \"e\": []\n}",
                R"({"t": {"b": [1, 2.0, true, null], "a": {}, "e": []}})");
  expect_output("{{ {'a':'é'} | tojson(ensure_ascii=true) }}", R"({"a": "\u00e9"})");
  expect_output("{{ {'b':1,'a':2} | tojson(sort_keys=true) }}", R"({"a": 2, "b": 1})");
  expect_output("{{ x | tojson }}", "\"\\u0001\x7F\u2028</script>\"",
                R"({"x": "\u0001\u007f\u2028</script>"})");
  expect_output("{{ {}|tojson }}{{ []|tojson }}{{ none|tojson }}{{ 'x'|tojson }}", R"({}[]null"x")");
}

TEST(ChatTemplate, numbers_print_as_in_python) {
  const std::string context =
      R"({"x": [1.0, 1e100, 0.1, true, null, "q'\"\n", -0.0, 100000000000000000000]})";
  expect_output("{{ x | tojson }}",
                R"([1.0, 1e+100, 0.1, true, null, "q'\"\n", -0.0, 100000000000000000000])", context);
  expect_output("{{ x }}", R"([1.0, 1e+100, 0.1, True, None, 'q\'"\n', -0.0, 100000000000000000000])",
                context);
  expect_output("{{ 1e-7 }} {{ 1e16 }} {{ 123456789.5 }} {{ {'a': [1e-7]} }}",
                "1e-07 1e+16 123456789.5 {'a': [1e-07]}");
}

// B061
TEST(ChatTemplate, whitespace_control) {
  expect_output("A\n  {% if true %}\nB\n  {% endif %}\nC\n", "A\nB\nC");
  expect_output("  {%+ if true %}\nB{% endif %}\nC", "  BC");
  expect_output("a\n  {# c #}\nb", "a\nb");
  expect_output("a {#- c -#} b", "ab");
  expect_output("x\n", "x");
  expect_output("{% if true -%}\n  x\n{%- endif %}\n\ny", "x\ny");
  expect_output("{{ 'a' }}\n{{ 'b' }}\n", "a\nb");
  expect_output("  {{ 'a' }}\n  {%- if true %} b{% endif %}", "  a b");
  expect_output(
      "{%- for m in messages %}\n<{{ m.role }}>\n  {{- m.content }}\n{%- endfor %}\n{{ 'END' }}\n",
      "<user>u1<assistant>a1END",
      R"({"messages": [{"role": "user", "content": "u1"}, {"role": "assistant", "content": "a1"}]})");
  expect_output("a\r\n{% if true %}\r\nb{% endif %}\r\n", "a\nb");
}

// B062
TEST(ChatTemplate, defined_none_and_undefined) {
  expect_output("{{ tools is defined }}|{{ tools is none }}|{{ 'y' if tools else 'n' }}", "True|True|n",
                R"({"tools": null})");
  expect_output(
      "{{ tools is defined }}|{{ 'y' if tools else 'n' }}|[{{ tools }}]|{{ tools | default('d') }}|{{ m.x is "
      "defined }}|[{{ m.x }}]",
      "False|n|[]|d|False|[]", R"({"m": {}})");
  expect_error("{{ tools.x }}");
  expect_output("{{ none|default('d') }}|{{ none|default('d', true) }}|{{ ''|default('d', true) }}",
                "None|d|d");
  expect_output("[{{ 'x' if false }}]", "[]");
  expect_output("{% if m.content is not none and m.content is defined %}Y{% else %}N{% endif %}", "N",
                R"({"m": {"role": "a"}})");
  expect_output("{% if not g is defined %}{% set g = false %}{% endif %}{{ g }}", "False");
  expect_error("{% for x in none %}{% endfor %}", "{}", "not iterable");
  expect_output("{% for x in nothing %}{% else %}empty{% endfor %}", "empty");
}

// B063
TEST(ChatTemplate, none_and_concatenation) {
  const std::string context = R"({"m": {"content": null}})";
  expect_error("{{ 'a' + m.content }}", context);
  expect_output("{{ 'a' ~ m.content ~ m.nope ~ 1 ~ 2.50 ~ true }}", "aNone12.5True", context);
  expect_output("{{ none }}|{{ true }}|{{ [none, true, 1.5, 'q'] }}|{{ {'a': none} }}|{{ ['it\\'s'] }}",
                "None|True|[None, True, 1.5, 'q']|{'a': None}|[\"it's\"]");
}

// B065
TEST(ChatTemplate, string_methods) {
  expect_output(
      "{{ '<think>x</think>ans'.split('</think>')[-1] }}|{{ ' a b '.strip() }}|{{ '\\n\\nx\\n'.lstrip('\\n') "
      "}}|"
      "{{ 'abc'.startswith('ab') }}|{{ 'aXbX'.replace('X','',1) }}|{{ 'a,b'.split(',',1) }}|{{ 'Ab'.upper() "
      "}}|"
      "{{ 'x'.endswith(('y','x')) }}|{{ 'a b'.title() }}|{{'xay'.find('a')}}",
      "ans|a b|x\n|True|abX|['a', 'b']|AB|True|A B|1");
  expect_output("{{ 'a/b/c'.rsplit('/',1)[0] }}|{{ 'h'*3 }}|{{ '{}-{}'.format('a', 1) }}", "a/b|hhh|a-1");
  expect_output("{{ '😀é'|length }}|{{ '😀é'[0] }}|{{ '😀é'|upper }}", "2|😀|😀É");
  expect_output(
      "{{ ' a  b '.rsplit() }}{{ 'a b c'.rsplit(none, 1) }}{{ 'a-b'.partition('-') }}{{ "
      "'ab'.removeprefix('a') }}",
      "['a', 'b']['a b', 'c']('a', '-', 'b')b");
  expect_output(
      "{{ 'a'.center(4, '*') }}|{{ '-7'.zfill(4) }}|{{ 'aB'.swapcase() }}|{{ 'abcd'.startswith('c', 2) }}",
      "*a**|-007|Ab|True");
}

// B065 asks for Python's % on strings as well, which the template engine does not have: an error and no wrong
// text.
TEST(ChatTemplate, percent_formatting_is_an_error) {
  expect_error("{{ '%s-%d' % ('a', 3) }}");
}

// B066
TEST(ChatTemplate, macros) {
  expect_output(
      "{% macro f(a, b='B') -%}[{{ a }}-{{ b }}{% if caller %}-{{ caller() }}{% endif %}]{%- endmacro %}"
      "{{ f(1) }}{{ f(1, b=2) }}{{ f(b=3, a=4) }}{% call f('x') %}Q{% endcall %}",
      "[1-B][1-2][4-3][x-B-Q]");
  expect_output(
      "{% macro ty(p) %}{% if p.type == 'array' %}{{ ty(p['items']) }}[]{% elif p.type is string %}{{ p.type "
      "}}"
      "{% else %}any{% endif %}{% endmacro %}"
      "{{ ty({'type':'array','items':{'type':'array','items':{'type':'string'}}}) }}",
      "string[][]");
}

// B068
TEST(ChatTemplate, filters_and_arithmetic) {
  expect_output(
      "{{ messages | selectattr('role','equalto','user') | map(attribute='content') | join('|') }};"
      "{{ messages | rejectattr('role','equalto','user') | list | length }};{{ [3,1,2]|sort|first }};{{ 7 // "
      "2 }};"
      "{{ 7 % 3 }};{{ 7 / 2 }};{{ 2 ** 3 }};{{ [1,[2]] + [3] }}",
      "u1|u2;2;1;3;1;3.5;8;[1, [2], 3]", kConversation);
  expect_output(
      "{{ 10/2 }} {{ -7 // 2 }}|{{ -7 % 3 }} {{ -1|abs }} {{ 2.5|round }} {{ 3.7|int }} {{ 'x'|int(9) }}",
      "5.0 -4|2 1 2.0 3 9");
  expect_output("{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1 < 2 < 3 }} {{ 'a' 'b' }} {{ 'a' + 'b' ~ 1 }}",
                "64 4 True ab ab1");
  expect_error("{{ 'a' ~ 1 + 2 }}");
  expect_output(
      "{{ ['b','a','b']|unique|list }}|{{ 'a\\nb'|indent(2) }}|{{ '{\\n'|indent(4, first=true) }}|{{ "
      "'a\\n\\nb'|indent }}",
      "['b', 'a']|a\n  b|    {\n|a\n\n    b");
  expect_output("{{ \"a'b\" ~ 'c\"d' ~ '\\t\\u00e9\\x41' }}", "a'bc\"d\téA");
}

// B069
TEST(ChatTemplate, tests) {
  const std::string context = R"({"x": "s", "y": {"a": 1}})";
  for (const std::string name : {"x", "y"}) {
    expect_output("{{ " + name + " is string }} {{ " + name + " is mapping }} {{ " + name +
                      " is iterable }} {{ " + name + " is sequence }}",
                  name == "x" ? "True False True True" : "False True True True", context);
  }
  expect_output(
      "{{ 1 is number }} {{ true is number }} {{ true is boolean }} {{ 1 is integer }} {{ 1.0 is float }} {{ "
      "not x is "
      "defined }} {{ none is iterable }}",
      "True True True True True False False", context);
}

// B070
TEST(ChatTemplate, blocks) {
  expect_output("{% set c %}  hi\n there {% endset %}[{{ c | trim }}]", "[hi\n there]");
  expect_output("{% filter upper %}a{{ 'b' }}{% endfilter %}", "AB");
  expect_output("{% raw %}{{ x }}{% generation %}{% for a in b %}{% endraw %}",
                "{{ x }}{% generation %}{% for a in b %}");
  expect_output("{% generation %}abc{% endgeneration %}", "abc");
  expect_output("a {%- generation -%} b {% endgeneration %}", "ab ");
  EXPECT_FALSE(ChatTemplate::compile("{% do l.append(1) %}").has_value());
  expect_error("{% set _ = l.append(1) %}", R"({"l": []})");
  expect_error("{% set _ = {'a':1}.update({}) %}");
  for (const char* unknown :
       {"{% frobnicate %}", "{{ x | frobnicate }}", "{{ x is frobnicate }}", "{{ 'x'.frobnicate() }}"}) {
    expect_error(unknown, R"({"x": 1})");
  }
  expect_output(
      "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 3 %}{% break %}{% endif %}{{ i }}{% "
      "endfor %}",
      "02");
}

// The rewritten tags: loops over anything, with all that a for tag can have.
TEST(ChatTemplate, for_loops_of_every_form) {
  expect_output("{% for k, v in d.items() if v > 1 %}{{ k }}{{ v }}{% endfor %}", "b2c3",
                R"({"d": {"a": 1, "b": 2, "c": 3}})");
  expect_output("{%- for x in [' if ', \"in\", '%}'] -%}{{ loop.index }}{{ x }}{%- endfor -%}",
                "1 if 2in3%}");
  expect_output("{% for x in t recursive %}{{ x.n }}{% if x.c %}({{ loop(x.c) }}){% endif %}{% endfor %}",
                "1(2)3", R"({"t": [{"n": 1, "c": [{"n": 2}]}, {"n": 3}]})");
  expect_output("{% for x in {'a': [1, 2]}['a'] + [3] %}{{ x }}{% endfor %}", "123");
  expect_output("{% for x in 1, 2 %}{{ x }}{% endfor %}", "12");
  expect_output("{# {% for x in none %} #}{{ '{% for x in none %}' }}", "{% for x in none %}");
}

// B071: the message and nothing else.
TEST(ChatTemplate, raise_exception_ends_the_rendering_with_its_message) {
  auto rendered =
      render("{% macro f() %}{{ raise_exception('roles must alternate: ' ~ 1) }}{% endmacro %}text{{ f() }}");
  ASSERT_FALSE(rendered.has_value());
  EXPECT_EQ(rendered.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(rendered.error().message, "roles must alternate: 1");
}

// B072
TEST(ChatTemplate, whole_small_templates) {
  expect_output(
      "{%- if messages[0]['role'] == 'system' -%}{%- set system_message = messages[0]['content'] -%}{%- set "
      "loop_messages = "
      "messages[1:] -%}{%- else -%}{%- set loop_messages = messages -%}{%- endif -%}{%- for m in "
      "loop_messages -%}{%- if "
      "(m.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('alt') }}{%- endif -%}{%- if "
      "m.role == 'user' "
      "-%}[INST] {% if loop.last and system_message is defined %}{{ system_message ~ '\\n\\n' }}{% endif "
      "%}{{ m.content | "
      "trim }} [/INST]{%- else -%}{{ ' ' ~ m.content | trim ~ eos_token }}{%- endif -%}{%- endfor -%}",
      "[INST] a [/INST] b</s>[INST] S\n\nc [/INST]",
      R"({"eos_token": "</s>", "messages": [{"role": "system", "content": "S"}, 
          {"role": "user", "content": " a "},
          {"role": "assistant", "content": " b "}, {"role": "user", "content": "c"}]})");
  expect_output(
      "{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {%- for t in tools %}\n        {{- \"\\n\" "
      "}}\n        {{- t | "
      "tojson }}\n    {%- endfor %}\n    {{- '<|im_end|>\\n' }}\n{%- endif %}\n{%- for m in messages %}\n    "
      "{{- "
      "'<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}\n{%- endfor %}\n{%- if "
      "add_generation_prompt %}\n    "
      "{{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n",
      "<|im_start|>system\n\n{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
      "{\"type\": \"object\", "
      "\"properties\": {}}}}<|im_end|>\n<|im_start|>user\nhi <b> & 'q'<|im_end|>\n<|im_start|>assistant\n",
      R"({"add_generation_prompt": true, "messages": [{"role": "user", "content": "hi <b> & 'q'"}],
          "tools": [{"type":
          "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]})");
  expect_output("{{ '<b>&' }}|{{ '<b>&'|e }}", "<b>&|&lt;b&gt;&amp;");
  expect_output("{{ 'a<'|safe + '<b>' + '\"' }}|{{ '<' + '>' }}", "a<&lt;b&gt;&#34;|<>");
}

// B073
TEST(ChatTemplate, strftime_now_has_a_clock_of_its_own_in_tests) {
  pt_set_clock_for_tests(1741338304);
  expect_output("{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%A %H:%M:%S') }}|{{ strftime_now('') }}",
                "07 Mar 2025|Friday 09:05:04|");
  expect_error("{{ strftime_now() }}");
}

// B074: a template that wants too much is an error, soon, and the process lives on.
TEST(ChatTemplate, work_memory_and_recursion_are_bounded) {
  for (const char* greedy : {
           "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
           "{{ 'x' * 10**9 }}",
           "{% for i in range(10**9) %}{% endfor %}",
           "{{ range(10**9) | list | length }}",
           "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
           "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('xx') }}",
           "{% set n = namespace(s='xxxxxxxx') %}{% for i in range(64) %}{% set n.s = n.s + n.s %}{% endfor "
           "%}{{ n.s }}",
           "{% for i in range(90) %}{{ 'x' * 1000000 }}{% endfor %}",
           "{{ ('x' * 1000000) | replace('x', 'y' * 1000) }}",
           "{{ 'x'.ljust(10**18) ~ 'x' * 10**12 }}",
           "{{ ['x' * 1000000] | join | indent(10**9) * 1000 }}",
       }) {
    expect_error(greedy);
  }
}

// Values nested by the thousand must not exhaust the stack when they are printed, compared, dumped or freed.
TEST(ChatTemplate, deeply_nested_values_are_no_danger) {
  const std::string nested =
      "{% set n = namespace(x=[]) %}{% for i in range(90000) %}{% set n.x = [n.x] %}{% endfor %}";
  for (const char* use :
       {"done", "{{ n.x }}", "{{ n.x | tojson }}", "{{ n.x == n.x }}", "{{ n.x | string | length }}"}) {
    auto rendered = render(nested + use);
    if (std::string(use) == "done") {
      ASSERT_TRUE(rendered.has_value()) << rendered.error().message;
    }
  }
  const std::string parentheses(100000, '(');
  EXPECT_FALSE(ChatTemplate::compile("{{ " + parentheses).has_value());
  EXPECT_FALSE(render("{{ x }}", "{\"x\": " + std::string(100000, '[')).has_value());
  std::string ifs;
  for (int i = 0; i < 100000; ++i) ifs += "{% if x %}";
  EXPECT_FALSE(ChatTemplate::compile(ifs).has_value());
}

// B075
TEST(ChatTemplate, has_no_way_into_the_host) {
  for (const char* escape :
       {"{{ ''.__class__.__mro__ }}", "{{ self.__init__.__globals__ }}", "{{ cycler.__init__.x }}",
        "{% include '/etc/passwd' %}", "{% import 'os' as o %}", "{{ debug() }}"}) {
    expect_error(escape);
  }
}

TEST(ChatTemplate, errors_name_the_line) {
  auto compiled = ChatTemplate::compile("a\n{{ b }}\n{% if %}\n");
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().kind, ErrorKind::kCorruptFile);
  EXPECT_THAT(compiled.error().message, HasSubstr("line 3"));
  auto rendered = render("a\n\n{{ 1 + 'x' }}");
  ASSERT_FALSE(rendered.has_value());
  EXPECT_EQ(rendered.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(rendered.error().message, HasSubstr("line 3"));
  EXPECT_THAT(rendered.error().message, Not(HasSubstr("\n")));
  for (const char* context : {"", "[]", "{", "3", "{\"a\": 1} x"})
    EXPECT_FALSE(render("x", context).has_value()) << context;
  EXPECT_FALSE(ChatTemplate::compile("\xFF").has_value());
}

TEST(ChatTemplate, knows_whether_it_wants_content_parts) {
  const auto wants = [](const std::string& source) {
    return ChatTemplate::compile(source)->wants_content_parts();
  };
  EXPECT_FALSE(wants("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_FALSE(wants("{% for m in messages %}{{ m.role + m.content }}{% endfor %}"));
  EXPECT_FALSE(wants("{% for m in messages %}{{ m.content | tojson }}{% endfor %}"));
  EXPECT_FALSE(wants("no messages at all"));
  EXPECT_TRUE(wants("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(wants(
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
      "{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}"));
  EXPECT_TRUE(
      wants("{% if messages[0].role != 'system' %}{{ raise_exception('system first') }}{% endif %}"
            "{% for m in messages[1:] %}{{ m.content[0].text }}{% endfor %}"));
}

TEST(ChatTemplate, is_shared_by_threads) {
  auto compiled = ChatTemplate::compile("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  ASSERT_TRUE(compiled.has_value());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        auto output = compiled->render(kConversation);
        wrong[t] += !output || *output != "<system>S<user>u1<assistant>a1<user>u2";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace pagoda::text
