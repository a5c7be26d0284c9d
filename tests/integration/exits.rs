//! `sys.exit`, and reading where nobody types.

use warmcell::execution::{ErrorClass, Status};

use crate::support::{Manager, Place, assert_shows, on_each_python, run, shown_on_each_python};

#[tokio::test]
async fn sys_exit_ends_the_cell_and_not_the_kernel() {
    let cells: &[(&str, i64, &str)] = &[
        (
            "sys.exit(3)",
            3,
            "[the cell called sys.exit(3); state is kept]",
        ),
        (
            "sys.exit(-5)",
            -5,
            "[the cell called sys.exit(-5); state is kept]",
        ),
        (
            "sys.exit(True)",
            1,
            "[the cell called sys.exit(1); state is kept]",
        ),
        (
            "sys.exit(2 ** 40)",
            1 << 40,
            "[the cell called sys.exit(1099511627776); state is kept]",
        ),
        (
            "sys.exit(10 ** 20 + 7)",
            7,
            "[the cell called sys.exit(100000000000000000007); state is kept]",
        ),
        (
            "sys.exit(10 ** 400)",
            1,
            "[the cell called sys.exit(an int of 1329 bits); state is kept]",
        ),
        (
            "sys.exit(-10 ** 30)",
            1,
            "[the cell called sys.exit(-1000000000000000000000000000000); state is kept]",
        ),
        (
            "sys.exit(2 ** 63)",
            1,
            "[the cell called sys.exit(9223372036854775808); state is kept]",
        ),
        (
            "sys.exit(-2 ** 63)",
            i64::MIN,
            "[the cell called sys.exit(-9223372036854775808); state is kept]",
        ),
        (
            "class N(int): __index__ = __int__ = __str__ = __repr__ = lambda self: 1/0\nsys.exit(N(5))",
            5,
            "[the cell called sys.exit(5); state is kept]",
        ),
        (
            "class T(str):\n    def __str__(self): raise KeyboardInterrupt\nsys.exit(T('x'))",
            1,
            "--- stderr ---\n\n[the cell called sys.exit(\"\"); state is kept]",
        ),
        (
            "class E(SystemExit): code = property(lambda self: 1/0)\nraise E('told')",
            1,
            "--- stderr ---\ntold\n[the cell called sys.exit(\"told\"); state is kept]",
        ),
        (
            "class E(SystemExit):\n    def __getattribute__(self, name): raise SystemExit(0)\nraise E(0)",
            1,
            "--- stderr ---\n0\n[the cell called sys.exit(\"0\"); state is kept]",
        ),
        (
            "e = SystemExit(4); e.code = 5\nraise e",
            5,
            "[the cell called sys.exit(5); state is kept]",
        ),
        (
            "sys.exit(1.5)",
            1,
            "--- stderr ---\n1.5\n[the cell called sys.exit(\"1.5\"); state is kept]",
        ),
        (
            "sys.exit('text')",
            1,
            "--- stderr ---\ntext\n[the cell called sys.exit(\"text\"); state is kept]",
        ),
        (
            "sys.exit((1, 'é'))",
            1,
            "--- stderr ---\n(1, 'é')\n[the cell called sys.exit(\"(1, 'é')\"); state is kept]",
        ),
        (
            "raise SystemExit(4)",
            4,
            "[the cell called sys.exit(4); state is kept]",
        ),
        (
            "print('before'); exit(6)",
            6,
            "before\n[the cell called sys.exit(6); state is kept]",
        ),
        ("quit(7)", 7, "[the cell called sys.exit(7); state is kept]"),
        (
            "try:\n    sys.exit(8)\nfinally:\n    print('cleaned')",
            8,
            "cleaned\n[the cell called sys.exit(8); state is kept]",
        ),
        (
            "await_ = 1\nasync def f(): sys.exit(9)\nawait f()",
            9,
            "[the cell called sys.exit(9); state is kept]",
        ),
    ];
    let quiet = [
        "sys.exit()",
        "sys.exit(None)",
        "sys.exit(0)",
        "sys.exit(False)",
        "exit()",
        "quit()",
        "raise SystemExit",
        "import threading\nt = threading.Thread(target=sys.exit, args=(3,))\nt.start()\nt.join()",
    ];
    on_each_python(async |session, version| {
        run(session, "import sys\nx = 0").await;
        for (code, exit_code, output) in cells {
            let outcome = run(session, &format!("x += 1\n{code}")).await;
            let what = format!("{version}: {code}");
            assert_eq!(outcome.status, Status::Error, "{what}");
            assert_eq!(outcome.error_class, Some(ErrorClass::Exit), "{what}");
            assert_eq!(
                (outcome.exit_code, outcome.output.as_str()),
                (*exit_code, *output),
                "{what}"
            );
            assert!(
                outcome
                    .error
                    .unwrap()
                    .starts_with("the cell called sys.exit("),
                "{what}"
            );
        }
        for code in quiet {
            let outcome = run(session, &format!("x += 1\n{code}")).await;
            assert_eq!(outcome.status, Status::Success, "{version}: {code}");
            assert_shows(&outcome, "", code);
        }
        let count = (cells.len() + quiet.len()).to_string();
        assert_shows(&run(session, "x").await, &count, version);
    })
    .await;
}

#[tokio::test]
async fn what_would_read_a_keyboard_fails_at_once() {
    let sentence = |name: &str| {
        format!(
            "EOFError: {name}() cannot be answered: nobody is at the keyboard of this cell. Put the value into \
             the code, or read it from a file or an environment variable (<cell "
        )
    };
    on_each_python(async |session, version| {
        for (code, name) in [
            ("input()", "input"),
            ("input('name? ')", "input"),
            ("import getpass\ngetpass.getpass()", "getpass"),
            ("from getpass import getpass\ngetpass('Password: ')", "getpass"),
            ("def ask():\n    return [input(n) for n in range(2)]\nask()", "input"),
        ] {
            let outcome = run(session, code).await;
            let error = outcome.error.unwrap();
            assert!(error.starts_with(&sentence(name)), "{version}: {code}: {error}");
        }
        let empty = "import sys\nsys.stdin.read(), sys.stdin.readline(), list(sys.stdin), sys.stdin.isatty()";
        assert_shows(&run(session, empty).await, "('', '', [], False)", version);
        let debugger = run(session, "import pdb\npdb.set_trace()\n1").await;
        assert_ne!(debugger.error_class, Some(ErrorClass::KernelDied), "{version}");
        assert_shows(&run(session, "import subprocess\nsubprocess.run(['cat']).returncode").await, "0", version);
    })
    .await;
}

#[tokio::test]
async fn editors_and_pagers_end() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let has_git = run(&session, "import shutil, subprocess\nshutil.which('git')").await;
    if has_git.result.is_none() {
        eprintln!("NOT TESTED: git is not installed");
        manager.end().await;
        return;
    }
    let begin = "def git(*words):
    done = subprocess.run(['git', '-c', 'user.name=n', '-c', 'user.email=e@x', *words],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout
git('init', '-q', '.')
open('f', 'w').write('1')
git('add', 'f')
git('commit', '-q', '-m', 'first')";
    assert_shows(&run(&session, begin).await, "(0, '')", "commit");
    let amend = run(
        &session,
        "code, text = git('commit', '--amend')\ncode != 0, 'editor' in text",
    )
    .await;
    assert_shows(&amend, "(True, True)", "amend");
    let rebase = run(
        &session,
        "git('rebase', '-i', '--root')[0] != 0, git('rebase', '--abort')[0]",
    )
    .await;
    assert!(rebase.output.starts_with("(True, "), "{}", rebase.output);
    let log = run(&session, "git('--paginate', 'log', '--format=%s')").await;
    assert_shows(&log, "(0, 'first\\n')", "log");
    let help = run(&session, "help(len)").await;
    assert!(
        help.output.starts_with("Help on built-in function len"),
        "{}",
        help.output
    );
    let pager = "import os\n[os.environ[n] for n in ('PAGER', 'GIT_PAGER', 'EDITOR', 'VISUAL')]";
    assert_shows(
        &run(&session, pager).await,
        "['cat', 'cat', 'false', 'false']",
        "pager",
    );
    manager.end().await;
}

#[tokio::test]
async fn an_orderly_end_survives_what_atexit_does() {
    let place = Place::new();
    for (code, stdout) in [
        (
            "import atexit, sys\natexit.register(print, 'bye')\natexit.register(sys.exit, 5)\nprint('hi')",
            "hi\nbye\n",
        ),
        (
            "import atexit\natexit.register(print, 'bye')\natexit.register(lambda: 1/0)\nprint('hi')",
            "hi\nbye\n",
        ),
        ("import sys\nsys.exit(0)", ""),
        (
            "import threading\ndef late():\n    threading.main_thread().join()\n    print('late')\nthreading.Thread(target=late).start()\nprint('hi')",
            "hi\nlate\n",
        ),
        (
            "import tempfile, os\nd = tempfile.TemporaryDirectory(dir='.')\nimport atexit\natexit.register(lambda: print(os.listdir('.')))",
            "['link-to-nothing']\n",
        ),
    ] {
        let work = place.work();
        let link = work.join("link-to-nothing");
        if !link.is_symlink() {
            std::os::unix::fs::symlink("nothing", link).unwrap();
        }
        let output = crate::support::finish(&mut place.exec(&[code]));
        let shown = crate::support::text(&output.stdout);
        if code.contains("tempfile") {
            let folders = std::fs::read_dir(work).unwrap().count();
            assert_eq!(folders, 1, "the temporary folder is gone");
        } else {
            assert_eq!(
                shown,
                stdout,
                "{code}: {}",
                crate::support::text(&output.stderr)
            );
        }
        assert_eq!(
            output.status.code(),
            Some(0),
            "{code}: {}",
            crate::support::text(&output.stderr)
        );
    }
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn the_argument_and_file_of_a_program_are_as_in_a_repl() {
    shown_on_each_python(&[
        (
            "import sys\nsys.argv, sys.path[0], '__file__' in globals()",
            "([''], '', False)",
        ),
        (
            "sys.flags.isolated, sys.flags.no_site, hasattr(sys, 'ps1')",
            "(0, 0, False)",
        ),
    ])
    .await;
}
