//! `__main__` is the namespace: what is defined in cells works as if a file had defined it, and
//! files in the working directory are found as in plain Python.

use std::fs;

use crate::support::{Manager, assert_shows, on_each_python, pythons, run, shown_on_each_python};

#[tokio::test]
async fn things_defined_in_cells_are_at_home_in_main() {
    shown_on_each_python(&[
        ("import sys\nsys.modules['__main__'].__dict__ is globals(), __name__, __spec__, __doc__", "(True, '__main__', None, None)"),
        ("import pickle\nclass P:\n    def __init__(self, x): self.x = x\n    def __eq__(self, other): return self.x == other.x\ndef f(n): return n + 1\npickle.loads(pickle.dumps(P(5))) == P(5), pickle.loads(pickle.dumps(f))(1), P.__module__", "(True, 2, '__main__')"),
        ("import copy\ncopy.deepcopy(P([1])).x, repr(P).startswith(\"<class '__main__.P'>\")", "([1], True)"),
        ("from dataclasses import dataclass, field\n@dataclass(order=True)\nclass D:\n    n: int\n    names: list = field(default_factory=list)\npickle.loads(pickle.dumps(D(1))), D(1) < D(2)", "(D(n=1, names=[]), True)"),
        ("from __future__ import annotations\nimport typing\nclass Tree:\n    left: typing.Optional[Tree]\n    value: P\ntyping.get_type_hints(Tree) == {'left': typing.Optional[Tree], 'value': P}", "True"),
        ("@dataclass\nclass Node:\n    next: Node | None = None\n    n: typing.ClassVar[int] = 3\nNode().n, [f.name for f in __import__('dataclasses').fields(Node)]", "(3, ['next'])"),
        ("from collections import namedtuple\nPoint = namedtuple('Point', 'x y')\nimport enum\nclass Color(enum.Enum):\n    RED = 1\nPoint.__module__, pickle.loads(pickle.dumps([Point(1, 2), Color.RED]))", "('__main__', [Point(x=1, y=2), <Color.RED: 1>])"),
        ("import doctest\ndef twice(n):\n    '''\n    >>> twice(4)\n    8\n    >>> f(1)\n    2\n    '''\n    return 2 * n\ndoctest.testmod()", "TestResults(failed=0, attempted=2)"),
        ("import unittest, io\nclass T(unittest.TestCase):\n    def test_it(self): self.assertEqual(twice(2), 4)\nresult = unittest.main(argv=['x'], exit=False, testRunner=unittest.TextTestRunner(stream=io.StringIO())).result\nresult.testsRun, result.wasSuccessful()", "(1, True)"),
        ("from functools import singledispatch, lru_cache\n@singledispatch\ndef kind(x): return 'any'\n@kind.register\ndef _(x: int): return 'int'\nkind(1), kind('')", "('int', 'any')"),
        ("x = 10\ndef scope():\n    return [x * n for n in range(2)], eval('x'), {**globals()}['x']\nscope(), [x for _ in range(1)]", "(([0, 10], 10, 10), [10])"),
        ("class A:\n    y = 1\n    def __init__(self): super().__init__(); self.z = __class__.y\nA().z, locals() is globals()", "(1, True)"),
        ("note: int = 3\n__annotations__['note'] in (int, 'int')", "True"),
        ("import __main__\n__main__.added = 5\nadded", "5"),
    ])
    .await;
}

#[tokio::test]
async fn the_tools_are_in_the_namespace_until_the_cell_takes_their_names() {
    shown_on_each_python(&[
        ("import hermes_tools\nhermes_tools.read_file is read_file, callable(terminal), json_parse('[1]'), shell_quote('a b')", "(True, True, [1], \"'a b'\")"),
        ("from hermes_tools import retry, write_file\nread_file = 'mine'", ""),
        ("read_file, hermes_tools.read_file is not read_file", "('mine', True)"),
        ("del read_file\n'read_file' in globals()", "False"),
        ("try:\n    from hermes_tools import not_there\nexcept ImportError as error:\n    print(str(error)[:57])", "there is no tool 'not_there'; hermes_tools has json_parse\n"),
        ("import _warmcell\n_warmcell.__name__ in __import__('sys').modules", "True"),
    ])
    .await;
}

#[tokio::test]
async fn files_in_the_working_directory_shadow_modules_as_in_plain_python() {
    const NAMES: [&str; 12] = [
        "json",
        "socket",
        "random",
        "threading",
        "subprocess",
        "traceback",
        "linecache",
        "ast",
        "asyncio",
        "hermes_tools",
        "getpass",
        "resource",
    ];
    let manager = Manager::start().await;
    for name in NAMES {
        let text = format!(
            "print(\"the user's {name}\")\nmine = '{name}'\ndef getpass(): return 'typed'\n"
        );
        fs::write(manager.place.work().join(format!("{name}.py")), text).unwrap();
    }
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        assert_shows(&run(&session, "1 + 1").await, "2", version);
        let failed = run(&session, "1/0").await;
        assert!(
            failed
                .output
                .ends_with("    1/0\nZeroDivisionError: division by zero")
                || failed.output.contains("~^~"),
            "{version}: {}",
            failed.output
        );
        for name in NAMES.into_iter().filter(|name| *name != "hermes_tools") {
            // What a bare interpreter has loaded stays what it is.
            let code = format!(
                "import sys\nloaded = '{name}' in sys.modules\nimport {name}\nloaded or {name}.mine"
            );
            let output = run(&session, &code).await.output;
            let theirs = format!("the user's {name}\n'{name}'");
            assert!(
                output == theirs || output == "True",
                "{version}: {name}: {output}"
            );
        }
        assert_shows(
            &run(&session, "getpass.getpass()").await,
            "'typed'",
            version,
        );
        let ours = run(&session, "import hermes_tools\nhasattr(hermes_tools, 'mine'), hermes_tools.json_parse is json_parse").await;
        assert_shows(&ours, "(False, True)", version);
        let awaited = run(&session, "async def f(): return 3\nawait f()").await;
        assert_shows(&awaited, "3", version);
        assert_shows(
            &run(&session, "try:\n    1/0\nexcept Exception as e: print(e)").await,
            "division by zero\n",
            version,
        );
        // Code of ours that needs what is shadowed finds the real one, or says what is wrong.
        let call = run(&session, "read_file('json.py').get('content', '')[:5]").await;
        assert!(call.exit_code == 0, "{version}: {}", call.output);
    }
    manager.end().await;
}

#[tokio::test]
async fn a_file_that_comes_later_shadows_what_the_cell_has_not_imported() {
    on_each_python(async |session, version| {
        let begin = format!("import os, sys\nos.makedirs('{version}/deep')\nos.chdir('{version}')");
        run(session, &begin).await;
        let write = "def module(path, text):\n    with open(path, 'w') as f: f.write(text)\nmodule('json.py', 'mine = 1')\nmodule('fresh.py', 'n = 1')";
        assert_shows(&run(session, write).await, "", version);
        assert_shows(&run(session, "import json, fresh\njson.mine, fresh.n").await, "(1, 1)", version);
        // One that is imported already stays as it was until it is reloaded.
        let code = "import ast\nast.parse('1')\nmodule('ast.py', 'mine = 2')\nmodule('fresh.py', 'n = 2 + 0')\nmodule('newer.py', 'n = 3')";
        run(session, code).await;
        let code = "import ast, fresh, newer\nhasattr(ast, 'mine'), fresh.n, newer.n";
        assert_shows(&run(session, code).await, "(False, 1, 3)", version);
        let code = "import importlib\nimportlib.reload(fresh).n";
        assert_shows(&run(session, code).await, "2", version);
        // Another directory, by chdir.
        let code = "module('deep/socket.py', 'mine = 4')\nos.mkdir('deep/decimal')\nmodule('deep/decimal/__init__.py', 'mine = 5')\nos.mkdir('deep/string')\nos.chdir('deep')";
        run(session, code).await;
        let code = "import socket, decimal, string\nsocket.mine, decimal.mine, string.digits";
        assert_shows(&run(session, code).await, "(4, 5, '0123456789')", version);
        run(session, "os.chdir('..')").await;
        assert_shows(&run(session, "module('last.py', 'n = 6')\nimport last\nlast.n").await, "6", version);
        let gone = run(session, "os.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n1").await;
        assert_shows(&gone, "1", version);
        assert_shows(&run(session, "import bisect\n2").await, "2", version);
    })
    .await;
}
