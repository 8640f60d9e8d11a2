"""tidy on small trees: each rule passes at its limit and fails one beyond."""
import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tool_test_case import ToolTestCase


def function(lines, head="int f(int a)"):
    """A C++ function of that many lines."""
    return head + " {\n" + "  a();\n" * (lines - 2) + "}\n"


class TidyTest(ToolTestCase):
    tool = "tidy"
    arguments = ("--no-format",)

    def setUp(self):
        super().setUp()
        self.write("src/base/README.md")
        self.write("src/base/CMakeLists.txt")
        self.write("src/base/tests/a_test.cc", "TEST(A, B) {}\n")

    def test_a_clean_tree(self):
        self.write("src/base/a.cc", "// Why.\nint f(int a) { return a; }\n")
        self.assert_clean()

    def test_file_length(self):
        self.write("src/base/a.cc", "int a;\n" * 800)
        self.assert_clean()
        self.write("src/base/a.cc", "int a;\n" * 801)
        self.assert_problem("src/base/a.cc:1:", "801 lines in a file", "limit 800")

    def test_line_length_counts_characters(self):
        self.write("src/base/a.cc", "int b;\n// " + "\u00e9" * 107 + "\n")
        self.assert_clean()
        self.write("src/base/a.cc", "int b;\n// " + "\u00e9" * 108 + "\n")
        self.assert_problem("src/base/a.cc:2:", "1 lines over 110 columns")

    def test_function_length(self):
        self.write("src/base/a.cc", "namespace pagoda {\n\n" + function(70) + "\n}\n")
        self.assert_clean()
        self.write("src/base/a.cc", "namespace pagoda {\n\n" + function(71) + "\n}\n")
        self.assert_problem("src/base/a.cc:3:", "71 lines in f")

    def test_heads_of_functions(self):
        heads = {
            "f": "static std::vector<int> f(int a)",
            "C::f": "std::map<int, std::function<void(int)>> C::f(int a) const noexcept",
            "C::C": "C::C(int a) : a_(a), b_{a}, c_({a, 2})",
            "C::~C": "C::~C()",
            "operator<": "template <class T>\nbool operator<(T a, T b)",
            "operator()": "[[nodiscard]] int operator()(int a) const",
            "g": "auto g(int a) -> std::vector<int>",
            "h": "struct stat h(int a = f({1, 2}))",
            "TEST_F(A, B)": "TEST_F(A, B)",
        }
        for name, head in heads.items():
            self.write("src/base/a.cc", function(72, head))
            self.assert_problem("src/base/a.cc:1:", f" lines in {name} ")

    def test_what_is_no_function(self):
        self.write("src/base/a.cc", "struct alignas(64) S : Base<int> {\n" + "  int a;\n" * 100 + "};\n"
                   "const int kTable[] = {\n" + "  1,\n" * 100 + "};\n"
                   "enum class E : int {\n" + "  kA,\n" * 100 + "};\n"
                   "std::atomic<const F<void(int, int)>*> body{\n" + "  1,\n" * 100 + "};\n")
        self.assert_clean()

    def test_braces_in_comments_and_literals(self):
        self.write("src/base/a.cc", "int f() {\n  a('{', \"{\\\"{\", R\"({{)\", 1'000);  // {\n  /* { */\n}\n"
                   + function(71))
        self.assert_problem("src/base/a.cc:5:", "71 lines in f")

    def test_methods_in_classes(self):
        self.write("src/base/a.h", "class C {\n public:\n  C() = default;\n  " + function(71)
                   + "\n private:\n};\n")
        self.assert_problem("src/base/a.h:4:", "71 lines in f")

    def test_micro_kernels_and_flat_tables_may_be_longer(self):
        self.write("src/kernels/README.md")
        self.write("src/kernels/CMakeLists.txt")
        self.write("src/kernels/tests/a_test.cc")
        self.write("src/kernels/avx2/a.cc", function(120))
        self.write("src/base/a.cc", "// A flat table, one line an entry.\n" + function(120))
        self.assert_clean()
        self.write("src/kernels/avx2/a.cc", function(121))
        self.assert_problem("src/kernels/avx2/a.cc:1:", "limit 120")
        self.write("src/kernels/avx2/a.cc", "")
        self.write("src/kernels/a.cc", function(71))
        self.assert_problem("src/kernels/a.cc:1:", "limit 70")

    def test_parameters(self):
        self.write("src/base/a.cc", "void f(std::map<int, int> a, int (*b)(int, int), int c, int d,\n"
                   "       int e = g(1, 2)) {}\n")
        self.assert_clean()
        self.write("src/base/a.cc", "void f(int a, int b, int c, int d, int e,\n       int g) {}\n")
        self.assert_problem("src/base/a.cc:1:", "6 parameters of f", "limit 5")

    def test_rust(self):
        self.write("rust/src/a.rs", "fn f<'a>(&self, a: &'a str, b: fn(u8) -> u8, c: u8, d: u8, e: u8) {\n"
                   "  let x = '{';\n}\n")
        self.assert_clean()
        self.write("rust/src/a.rs", "fn f(a: u8, b: u8, c: u8, d: u8, e: u8, g: u8) {}\n")
        self.assert_problem("rust/src/a.rs:1:", "6 parameters of f")
        self.write("rust/src/a.rs", "\nfn f() {\n" + "  a();\n" * 69 + "}\n")
        self.assert_problem("rust/src/a.rs:2:", "71 lines in f")

    def test_python_with_and_without_a_suffix(self):
        self.write("tools/x", "#!/usr/bin/env python3\ndef f(a, b, c, d, e, *, g):\n    pass\n")
        self.assert_problem("tools/x:2:", "6 parameters of f")
        self.write("tools/x", "#!/bin/bash\n" + "# " + "x" * 200 + "\n")
        self.write("tests/e2e/a.py", "class C:\n    def f(self, a, b, c, d, e):\n" + "        pass\n" * 70)
        self.assert_problem("tests/e2e/a.py:2:", "71 lines in f")

    def test_unfinished_words(self):
        for text in ("// TODO: more", "// FIXME", "// a placeholder", "// Not implemented yet", "// for now"):
            self.write("src/base/a.cc", "int a;\n" + text + "\n")
            self.assert_problem("src/base/a.cc:2:", "unfinished")
        self.write("src/base/a.cc", "// TODO(#12): more\nauto a = ErrorKind::kUnimplemented;\n"
                   'case 501: return "Not Implemented";\n')
        self.write("tests/a.cc", "// FIXME is a word that this test looks for\n")
        self.assert_clean()

    def test_banners(self):
        self.write("src/base/a.cc", "int a;\n// ------------ helpers\n")
        self.assert_problem("src/base/a.cc:2:", "banner")

    def test_anatomy(self):
        self.write("src/kv/a.cc")
        code, lines = self.run_tool()
        self.assertEqual(code, 1)
        self.assertEqual(lines[:-1], ["src/kv: no README.md", "src/kv: no CMakeLists.txt",
                                      "src/kv: no tests/*_test.cc"])
        for path in ("README.md", "CMakeLists.txt", "tests/a_test.cc"):
            self.write("src/kv/" + path)
        self.assert_clean()
        self.write("src/stray.cc")
        self.assert_problem("src/stray.cc", "outside of the modules")

    def test_built_files_are_not_looked_at(self):
        self.write("rust/target/debug/a.rs", "x" * 200)
        self.write("src/base/build/a.cc", "x" * 200)
        self.assert_clean()


class BaselineTest(ToolTestCase):
    tool = "tidy"
    arguments = ("--no-format",)

    def setUp(self):
        super().setUp()
        for path in ("README.md", "CMakeLists.txt", "tests/a_test.cc"):
            self.write("src/base/" + path)
        self.write("src/base/a.cc", function(90))

    def set_baseline(self, entries):
        self.write("tools/tidy_baseline.json", json.dumps(entries))

    def test_an_old_offender_may_stay(self):
        self.set_baseline({"src/base/a.cc: f: lines": 90})
        self.assert_clean()

    def test_it_may_not_grow(self):
        self.set_baseline({"src/base/a.cc: f: lines": 89})
        self.assert_problem("src/base/a.cc:1:", "90 lines in f", "baseline allows 89")

    def test_the_baseline_follows_it_down(self):
        self.set_baseline({"src/base/a.cc: f: lines": 95})
        self.assert_problem("tools/tidy_baseline.json", "allows 95 but is 90")
        self.assertEqual(self.run_tool("--lower")[0], 0)
        self.assertEqual(json.loads(self.read("tools/tidy_baseline.json")), {"src/base/a.cc: f: lines": 90})
        self.assert_clean()

    def test_an_entry_goes_with_its_offender(self):
        self.write("src/base/a.cc", function(60))
        self.set_baseline({"src/base/a.cc: f: lines": 90})
        self.assert_problem("tools/tidy_baseline.json", "within its limit")
        self.run_tool("--lower")
        self.assertEqual(json.loads(self.read("tools/tidy_baseline.json")), {})

    def test_lowering_adds_and_raises_nothing(self):
        for entries in ({}, {"src/base/a.cc: f: lines": 80}):
            self.set_baseline(entries)
            self.assertEqual(self.run_tool("--lower")[0], 1)
            self.assertEqual(json.loads(self.read("tools/tidy_baseline.json")), entries)


class FormatTest(ToolTestCase):
    tool = "tidy"

    def setUp(self):
        super().setUp()
        for path in ("README.md", "CMakeLists.txt", "tests/a_test.cc"):
            self.write("src/base/" + path)
        self.write("src/base/a.cc", "int a;\nint  b ;\n")
        self.write(".clang-format", "BasedOnStyle: Google\n")

    @unittest.skipUnless(shutil.which("clang-format"), "clang-format is not installed")
    def test_a_file_that_is_formatted_otherwise(self):
        _, lines = self.run_tool()
        if any("is not version" in line for line in lines):
            self.skipTest(lines[0])
        self.assert_problem("src/base/a.cc:2:", "clang-format would change 2 places")

    def test_without_clang_format_a_message_is_printed(self):
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = self.root
        code, lines = self.run_tool()
        self.assertEqual(code, 0)
        self.assertIn("clang-format is not installed", lines[0])


if __name__ == "__main__":
    unittest.main()
