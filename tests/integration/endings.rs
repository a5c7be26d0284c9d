//! The normal end of a kernel is the end of a Python program: what was not closed is written out,
//! what waits to be finalized is, and what was temporary is gone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{Manager, Place, finish, pythons, run, text};

/// What each leaves at its end is compared with what plain Python leaves.
const PROGRAMS: &[(&str, &str)] = &[
    ("a global", "f = open('f', 'w'); f.write('data')"),
    ("only a value", "[open('f', 'w')][0].write('data')"),
    (
        "a list",
        "files = [open(f'f{n}', 'w') for n in range(3)]\nfor f in files: f.write('data')\ndel f",
    ),
    (
        "a cycle",
        "class A: pass\na = A(); a.self = a; a.file = open('f', 'w'); a.file.write('data')\ndel a\nb = A(); b.self = b; b.file = open('g', 'w'); b.file.write('data')",
    ),
    (
        "a module attribute",
        "import json, sys, types\njson.file = open('f', 'w'); json.file.write('data')\nsys.file = open('g', 'w'); sys.file.write('data')\nmine = types.ModuleType('mine'); sys.modules['mine'] = mine\nmine.file = open('h', 'w'); mine.file.write('data')",
    ),
    (
        "a class of the library",
        "import json\njson.JSONEncoder.file = open('f', 'w'); json.JSONEncoder.file.write('data')",
    ),
    (
        "a default and a closure",
        "def f(file=open('f', 'w')): file.write('data')\nf()\ndef outer():\n    g = open('g', 'w')\n    g.write('data')\n    return lambda: g\nkept = outer()",
    ),
    (
        "a generator",
        "def lines():\n    f = open('f', 'w')\n    try:\n        while True: f.write((yield))\n    finally:\n        print('left')\ng = lines(); next(g); g.send('data')",
    ),
    (
        "binary and raw",
        "f = open('f', 'wb'); f.write(b'\\x00data'); g = open('g', 'wb', 0); g.write(b'raw')",
    ),
    (
        "gzip and zip",
        "import gzip, zipfile\nf = gzip.GzipFile('f', 'wb', mtime=0); f.write(b'data' * 9)\nz = zipfile.ZipFile('z', 'w'); z.writestr(zipfile.ZipInfo('m'), 'data')",
    ),
    (
        "csv",
        "import csv\nw = csv.writer(open('f', 'w', newline='')); w.writerow([1, 'two'])",
    ),
    (
        "logging",
        "import logging, logging.handlers\nfile = logging.FileHandler('f', delay=True)\nmemory = logging.handlers.MemoryHandler(100, target=file)\nlog = logging.getLogger('x'); log.addHandler(memory); log.setLevel('INFO'); log.info('data')",
    ),
    (
        "sqlite",
        "import sqlite3\nd = sqlite3.connect('d'); d.execute('create table t (n)'); d.commit()\nd.execute('insert into t values (5)')\nprint(sqlite3.connect('d').execute('select count(*) from t').fetchall())",
    ),
    (
        "__del__ that prints",
        "class A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print('gone', self.n, helper())\ndef helper(): return len(__name__)\n_private = A('_private'); first = A('first'); second = A('second')\ncycle = A('cycle'); cycle.me = cycle",
    ),
    (
        "__del__ that writes",
        "import os\nclass A:\n    def __del__(self):\n        with open('f', 'a') as f: f.write('data')\n        os.mkdir('made')\na = A()",
    ),
    (
        "__del__ that fails",
        "class A:\n    def __del__(self): print('one'); raise SystemExit(3)\nclass B:\n    def __del__(self): print('two')\na = A(); b = B(); f = open('f', 'w'); f.write('data')",
    ),
    (
        "finalize and atexit in order",
        "import atexit, weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'finalize')\natexit.register(print, 'atexit')\nw = weakref.ref(a, lambda _: print('callback'))\nA.__del__ = lambda self: print('del')",
    ),
    (
        "atexit that opens",
        "import atexit\nfiles = []\n@atexit.register\ndef late():\n    files.append(open('f', 'w')); files[0].write('data')",
    ),
    (
        "temporary",
        "import tempfile, os\nt = tempfile.TemporaryDirectory(dir='.'); open(os.path.join(t.name, 'x'), 'w').write('1')\nn = tempfile.NamedTemporaryFile(dir='.'); n.write(b'1')",
    ),
    (
        "threads",
        "import threading, time\ngo = threading.Event()\ndef late():\n    go.wait(5); f = open('f', 'w'); f.write('data'); print('thread'); kept.append(f)\nkept = []\nthreading.Thread(target=late).start()\nthreading.Timer(0.05, go.set).start()",
    ),
    (
        "a daemon thread",
        "import threading\nready = threading.Event()\ndef work():\n    f = open('f', 'w'); f.write('data'); f.flush(); ready.set(); threading.Event().wait()\nthreading.Thread(target=work, daemon=True).start(); ready.wait()\ng = open('g', 'w'); g.write('data')",
    ),
    (
        "thread locals and contexts",
        "import threading, contextvars\nl = threading.local(); l.f = open('f', 'w'); l.f.write('data')\nv = contextvars.ContextVar('v'); v.set(open('g', 'w')); v.get().write('data')",
    ),
    (
        "an executor",
        "from concurrent.futures import ThreadPoolExecutor\nimport time\ndef task(n): time.sleep(0.02); open(f'f{n}', 'w').write('data')\npool = ThreadPoolExecutor(1)\nfor n in range(3): pool.submit(task, n)",
    ),
    (
        "processes",
        "import multiprocessing\ndef task():\n    import time; time.sleep(0.1); print('child', flush=True)\n    with open('f', 'w') as f: f.write('data')\nif __name__ == '__main__':\n    context = multiprocessing.get_context('fork')\n    context.Process(target=task).start()\n    q = context.Queue(); q.put(1)",
    ),
    (
        "a stream of its own",
        "import sys, io\nsys.stdout = open('f', 'w'); print('data')",
    ),
    (
        "a buffered stdout",
        "import sys, io\nout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, 'w', closefd=False)), write_through=False)\nout.write('late')",
    ),
    (
        "stdout closed",
        "import sys\nf = open('f', 'w'); f.write('data')\nprint('before')\nsys.stdout.close()",
    ),
    (
        "an await",
        "import asyncio\nfiles = []\nasync def f():\n    files.append(open('f', 'w')); files[0].write('data')\nasyncio.run(f())",
    ),
    (
        "C code",
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.fopen.restype = ctypes.c_void_p\nf = libc.fopen(b'f', b'w')\nlibc.fputs(b'data', ctypes.c_void_p(f))",
    ),
    (
        "an exit hook that is a method",
        "import atexit\nclass A:\n    def end(self): print('end', self.f.name); self.f.write('more')\n    def __init__(self): self.f = open('f', 'w'); self.f.write('data'); atexit.register(self.end)\nA()",
    ),
];

/// The files of a folder, and what is in them.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // The log of a database that was not closed has a time in it.
            let bytes = if path.is_dir() || name == "d" || name == "d-journal" {
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            (name, bytes)
        })
        .collect()
}

#[test]
fn a_kernel_leaves_at_its_end_what_plain_python_leaves() {
    std::thread::scope(|scope| {
        for (version, python) in pythons() {
            scope.spawn(move || {
                for (name, code) in PROGRAMS {
                    let place = Place::new();
                    let (plain, ours) = (place.work().join("plain"), place.work().join("ours"));
                    for folder in [&plain, &ours] {
                        fs::create_dir(folder).unwrap();
                    }
                    let mut command = place.command(python.to_str().unwrap());
                    let expected = finish(command.args(["-c", code]).current_dir(&plain));
                    let mut command = place.warmcell(&["exec", "--python"]);
                    // A value as the last thing would be shown.
                    let cell = format!("{code}\npass");
                    let got = finish(command.arg(python).arg(&cell).current_dir(&ours));
                    let what = format!("{version}: {name}: {}", text(&got.stderr));
                    assert_eq!(text(&got.stdout), text(&expected.stdout), "{what}");
                    assert_eq!(files(&ours), files(&plain), "{what}");
                    assert!(got.status.success(), "{what}");
                }
            });
        }
    });
}

#[tokio::test]
async fn what_was_not_closed_is_written_out_at_a_close_and_a_reset() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let file = manager.place.work().join(format!("f-{version}"));
        for (round, end) in ["reset", "close"].into_iter().enumerate() {
            run(&session, "files = []").await;
            let code = format!("files += [open({file:?}, 'w')]\nfiles[0].write('data {round}')");
            assert_eq!(run(&session, &code).await.exit_code, 0, "{version}");
            run(&session, "1/0").await;
            if end == "reset" {
                session.reset().await;
            } else {
                session.close().await;
            }
            let written = fs::read_to_string(&file).unwrap();
            assert_eq!(written, format!("data {round}"), "{version}: {end}");
        }
    }
    manager.end().await;
}
