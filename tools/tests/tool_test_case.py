"""A small checkout in a temporary folder, and a tool of this folder that looks at it."""
import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class ToolTestCase(unittest.TestCase):
    tool = ""
    arguments = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def write(self, path, text=""):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def run_tool(self, *more):
        """(exit code, lines of the output)."""
        done = subprocess.run([sys.executable, os.path.join(TOOLS, self.tool), "--root", self.root,
                               *self.arguments, *more], capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def assert_clean(self):
        code, lines = self.run_tool()
        self.assertEqual((code, len(lines)), (0, 1), "\n".join(lines))

    def assert_problem(self, *parts):
        """Exactly one problem is found, and its line holds all parts."""
        code, lines = self.run_tool()
        self.assertEqual(code, 1)
        self.assertEqual(len(lines), 2, "\n".join(lines))
        for part in parts:
            self.assertIn(part, lines[0])
