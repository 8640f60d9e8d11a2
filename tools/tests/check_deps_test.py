"""check_deps on small trees: it passes what the table allows and names what it forbids."""
import importlib.machinery
import importlib.util
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tool_test_case import TOOLS, ToolTestCase


def load_tool(name):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(TOOLS, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class TableTest(unittest.TestCase):
    def setUp(self):
        self.tool = load_tool("check_deps")

    def test_the_table_has_no_cycle_and_no_unknown_module(self):
        table = {module: set(allowed or ()) for module, allowed in self.tool.ALLOWED.items()}
        self.assertIsNone(self.tool.find_cycle(table))
        self.assertLessEqual(set().union(*table.values()), set(table))

    def test_the_table_equals_the_one_in_the_documentation_string(self):
        rows = [line.strip("| ").split(" | ") for line in self.tool.__doc__.splitlines() if line[:2] == "| "]
        stated = {module: allowed for module, allowed in rows[1:]}
        expected = {}
        for module, allowed in self.tool.ALLOWED.items():
            expected[module] = ", ".join(allowed or ())
        expected["base"], expected["cli"] = "std and fmt/spdlog only", "anything"
        self.assertEqual(stated, expected)

    def test_find_cycle(self):
        self.assertIsNone(self.tool.find_cycle({"a": "bc", "b": "d", "c": "d"}))
        self.assertEqual(self.tool.find_cycle({"a": "b", "b": "c", "c": "b"}), ["b", "c", "b"])
        self.assertEqual(self.tool.find_cycle({"a": "a"}), ["a", "a"])


class CheckDepsTest(ToolTestCase):
    tool = "check_deps"

    def test_what_the_table_allows(self):
        self.write("src/base/log.cc", '#include "base/log.h"\n#include <fmt/format.h>\n#include <vector>\n'
                   "#include <sys/mman.h>\n#include <unistd.h>\n")
        self.write("src/kv/pool.h", '#include "tensor/view.h"\n#include "kv/table.h"\n')
        self.write("src/api/http/routes.cc", '#include "api/openai/wire.h"\n#include "net/server.h"\n')
        self.write("src/cli/serve.cc", '#include "api/http/routes.h"\n#include "engine/engine.h"\n')
        self.write("src/net/session.cc", "#include <boost/beast.hpp>\n#include <sys/socket.h>\n")
        self.write("src/cli/main.cc", "#include <boost/asio/io_context.hpp>\n")
        self.write("src/kernels/avx2/norm.cc", "#include <immintrin.h>\n"
                   '#include "kernels/bodies.h"\n#include "kernels/avx2/exp.h"\n')
        self.write("src/kernels/norm.cc", "#include <algorithm>\n")
        self.write("src/kv/tests/pool_test.cc", '#include "kv/pool.h"\n#include "support/npz.h"\n'
                   "#include <nlohmann/json.hpp>\n")
        self.assert_clean()

    def test_an_upward_include(self):
        self.write("src/kv/pool.cc", '#include <vector>\n\n#include "engine/engine.h"\n')
        self.assert_problem('src/kv/pool.cc:3: "engine/engine.h": kv may include tensor, telemetry, base')

    def test_a_sideways_include(self):
        self.write("src/sampling/sampler.cc", '#include "model/model.h"\n')
        self.assert_problem("src/sampling/sampler.cc:1:", "not model")

    def test_base_includes_no_module_and_no_other_library(self):
        self.write("src/base/clock.cc", '  #  include "tensor/view.h"\n')
        self.assert_problem("src/base/clock.cc:1:", "no other module")
        self.write("src/base/clock.cc", "#include <nlohmann/json.hpp>\n")
        self.assert_problem("src/base/clock.cc:1:", "JSON")
        self.write("src/base/clock.cc", "#include <yaml-cpp/yaml.h>\n")
        self.assert_problem("src/base/clock.cc:1:", "std and fmt/spdlog only")

    def test_api_folders_are_modules_of_their_own(self):
        self.write("src/api/openai/wire.cc", '#include "service/service.h"\n')
        self.assert_problem("src/api/openai/wire.cc:1:", "api/openai may include base, not service")
        self.write("src/api/openai/wire.cc", "")
        self.write("src/api/grpc/server.cc", '#include "api/openai/wire.h"\n')
        self.assert_problem("src/api/grpc/server.cc:1:", "not api/openai")

    def test_tests_are_bound_too(self):
        self.write("src/kv/tests/pool_test.cc", '#include "engine/engine.h"\n')
        self.assert_problem("src/kv/tests/pool_test.cc:1:", "not engine")

    def test_code_includes_no_tests(self):
        self.write("src/kv/pool.cc", '#include "kv/tests/fake.h"\n')
        self.assert_problem("src/kv/pool.cc:1:", "code may not include tests")
        self.write("src/kv/pool.cc", '#include "support/npz.h"\n')
        self.assert_problem("src/kv/pool.cc:1:", "tests/support is for tests")

    def test_relative_includes(self):
        self.write("src/kv/pool.cc", '#include "../engine/engine.h"\n')
        self.assert_problem("src/kv/pool.cc:1:", "from src/")
        self.write("src/kv/pool.cc", '#include "kv/../engine/engine.h"\n')
        self.assert_problem("src/kv/pool.cc:1:", "not engine")

    def test_a_module_outside_the_table(self):
        self.write("src/utils/strings.cc", "#include <string>\n")
        self.assert_problem("src/utils/strings.cc:1:", "not in the table")
        self.write("src/utils/strings.cc", "")
        self.write("src/api/rest/routes.cc", "#include <string>\n")
        self.assert_problem("src/api/rest/routes.cc:1:", "not in the table")

    def test_beast_and_asio_stay_in_net(self):
        for header in ("boost/asio.hpp", "boost/asio/ip/tcp.hpp", "boost/beast/http.hpp"):
            self.write("src/service/service.cc", f"#include <{header}>\n")
            self.assert_problem("src/service/service.cc:1:", header, "belongs to net")
        self.write("src/service/service.cc", "")
        self.write("src/cli/serve.cc", "#include <boost/asio.hpp>\n")
        self.assert_problem("src/cli/serve.cc:1:", "belongs to net")

    def test_the_engine_sees_neither_json_nor_sockets(self):
        self.write("src/engine/engine.cc", "#include <nlohmann/json.hpp>\n")
        self.assert_problem("src/engine/engine.cc:1:", "JSON")
        self.write("src/engine/engine.cc", "#include <sys/socket.h>\n")
        self.assert_problem("src/engine/engine.cc:1:", "sockets")

    def test_instruction_set_folders(self):
        for line in ("#include <algorithm>", "#include <vector>", '#include "base/check.h"',
                     '#include "kernels/matmul.h"', '#include "kernels/avx512/exp.h"'):
            self.write("src/kernels/avx2/matmul.cc", line + "\n")
            self.assert_problem("src/kernels/avx2/matmul.cc:1:", "its own flags")

    def test_files_that_include_each_other(self):
        self.write("src/kv/a.h", '#include "kv/b.h"\n')
        self.write("src/kv/b.h", '#include "kv/c.h"\n')
        self.write("src/kv/c.h", '#include "kv/a.h"\n')
        self.assert_problem("files include each other: kv/a.h -> kv/b.h -> kv/c.h -> kv/a.h")

    def test_modules_that_include_each_other(self):
        self.write("src/kernels/a.cc", '#include "tensor/view.h"\n')
        self.write("src/tensor/b.cc", '#include "kernels/a.h"\n')
        code, lines = self.run_tool()
        self.assertEqual(code, 1)
        self.assertTrue(any("kernels -> tensor -> kernels" in line for line in lines), lines)

    def test_a_tree_without_sources_is_an_error(self):
        code, _ = self.run_tool()
        self.assertEqual(code, 1)


if __name__ == "__main__":
    unittest.main()
