//! Forks, pools and programs that a cell starts: one working kernel is left.

use warmcell::execution::ErrorClass;

use crate::support::{assert_shows, on_each_python, run, shown_on_each_python};

#[tokio::test]
async fn a_fork_without_an_exit_leaves_one_kernel() {
    on_each_python(async |session, version| {
        let code = "import os\nprint('once')\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    os.waitpid(pid, 0)\n    print('parent')\n'value' if pid else None";
        assert_shows(&run(session, code).await, "once\nchild\nparent\n'value'", version);
        let code = "pid = os.fork()\nif not pid:\n    import sys; sys.exit(7)\nos.waitpid(pid, 0)[1] >> 8";
        assert_shows(&run(session, code).await, "7", version);
        let code = "pid = os.fork()\nif not pid:\n    1/0\nos.waitpid(pid, 0)[1] >> 8";
        let outcome = run(session, code).await;
        assert_eq!(outcome.result.as_deref(), Some("1"), "{version}");
        assert!(outcome.output.contains("    1/0\n"), "{version}: {}", outcome.output);
        assert!(!outcome.output.contains("_warmcell"), "{version}: {}", outcome.output);
        // The child's own last expression is not shown, nor does it answer for the cell.
        let code = "pid = os.fork()\nif pid: os.waitpid(pid, 0)\n'shown once'";
        assert_shows(&run(session, code).await, "'shown once'", version);
        let code = "import asyncio\nasync def f():\n    pid = os.fork()\n    if pid: os.waitpid(pid, 0)\n    else: print('in child')\nawait f()";
        assert_shows(&run(session, code).await, "in child\n", version);
        // In a flood, what is pending is written once.
        let code = "for n in range(8_000): print('.' * 9)\npid = os.fork()\nif not pid:\n    print('child'); os._exit(0)\nos.waitpid(pid, 0)\nprint('parent')";
        let outcome = run(session, code).await;
        assert_eq!(outcome.stdout_bytes_total, 80_000 + 6 + 7, "{version}");
        assert!(outcome.output.contains("\nchild\nparent\n[the whole output is in "), "{version}");
        assert_shows(&run(session, "os.getpid() == os.getpgid(0), len(os.listdir('/proc/self/task'))").await, "(True, 1)", version);
    })
    .await;
}

#[tokio::test]
async fn a_fork_while_another_thread_prints() {
    on_each_python(async |session, version| {
        let code = "import os, threading, warnings
warnings.simplefilter('ignore')
stop = False
count = 0
def say():
    global count
    while not stop:
        print('thread ' + '-' * 63)
        count += 1
thread = threading.Thread(target=say)
thread.start()
for n in range(20):
    pid = os.fork()
    if not pid:
        print('child')
        os._exit(0)
    os.waitpid(pid, 0)
stop = True
thread.join()
count * 71 + 20 * 6";
        let outcome = run(session, code).await;
        assert_eq!(
            outcome.result,
            Some(outcome.stdout_bytes_total.to_string()),
            "{version}: {}",
            outcome.output.get(..200).unwrap_or_default()
        );
    })
    .await;
}

#[tokio::test]
async fn children_of_a_cell_can_be_waited_for_later() {
    on_each_python(async |session, version| {
        for _ in 0..2 {
            let code = "import subprocess, os\nchildren = [subprocess.Popen(['sh', '-c', f'exit {n}']) for n in range(4)]\nforked = os.fork()\nif not forked: os._exit(9)\nspawned = os.posix_spawn('/bin/sh', ['sh', '-c', 'exit 8'], os.environ)";
            assert_shows(&run(session, code).await, "", version);
            // They are zombies by now, or soon; each cell end passes them over.
            for _ in 0..3 {
                run(session, "pass").await;
            }
            let code = "[c.wait() for c in children], os.waitpid(forked, 0)[1] >> 8, os.waitpid(spawned, 0)[1] >> 8";
            assert_shows(&run(session, code).await, "([0, 1, 2, 3], 9, 8)", version);
        }
        // A daemon that falls to the kernel is reaped at a later cell's end.
        let daemon = "r, w = os.pipe()\npid = os.fork()\nif not pid:\n    if os.fork() == 0:\n        os.write(w, b'%d' % os.getpid())\n    os._exit(0)\nos.waitpid(pid, 0)\ndaemon = int(os.read(r, 20))\nos.waitid(os.P_PID, daemon, os.WEXITED | os.WNOWAIT) is not None";
        assert_shows(&run(session, daemon).await, "True", version);
        assert_shows(&run(session, "os.path.exists(f'/proc/{daemon}')").await, "False", version);
    })
    .await;
}

#[tokio::test]
async fn pools_work_with_functions_of_cells() {
    shown_on_each_python(&[
        ("import multiprocessing as mp\ndef square(n): return n * n\nwith mp.Pool(2) as pool:\n    print(pool.map(square, range(5)), pool.apply(square, (7,)), list(pool.imap(square, [1, 2])))", "[0, 1, 4, 9, 16] 49 [1, 4]\n"),
        ("with mp.Pool(2) as pool:\n    print(sorted(pool.imap_unordered(square, range(4), chunksize=2)), pool.starmap(pow, [(2, 3)]), pool.map_async(square, [3]).get())", "[0, 1, 4, 9] [8] [9]\n"),
        ("mp.get_start_method(), mp.get_context().get_start_method()", "('fork', 'fork')"),
        ("def work(queue, n):\n    print('in process', n)\n    queue.put(n * 2)\nqueue = mp.Queue()\np = mp.Process(target=work, args=(queue, 4))\np.start(); value = queue.get(); p.join()\nvalue, p.exitcode", "in process 4\n(8, 0)"),
        ("from multiprocessing.pool import ThreadPool\nwith ThreadPool(3) as pool:\n    print(pool.map(lambda n: n + 1, range(3)))", "[1, 2, 3]\n"),
        ("from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as pool:\n    print(list(pool.map(square, range(4))))", "[0, 1, 4, 9]\n"),
        ("with ThreadPoolExecutor(2) as pool:\n    print(list(pool.map(square, range(4))), pool.submit(pow, 2, 5).result(), pool.submit(fn=square, n=3).result() if False else 9)", "[0, 1, 4, 9] 32 9\n"),
        ("import asyncio\nawait asyncio.get_running_loop().run_in_executor(None, square, 6)", "36"),
        ("kept = ThreadPoolExecutor(1)\nkept.submit(square, 2).result()", "4"),
        ("kept.submit(square, 3).result()", "9"),
        // A pool of an earlier cell, and a decimal context that an initializer sets.
        ("import decimal\npool = ThreadPool(1, initializer=lambda: decimal.getcontext().__setattr__('prec', 3))\npool.apply(lambda: str(decimal.Decimal(1) / 3))", "'0.333'"),
        ("pool.apply(lambda: str(decimal.Decimal(2) / 3))", "'0.667'"),
        ("pool.terminate()", ""),
    ])
    .await;
}

#[tokio::test]
async fn spawn_works_for_what_can_be_imported_and_says_what_cannot() {
    on_each_python(async |session, version| {
        let code = format!("import os\nos.mkdir('{version}')\nos.chdir('{version}')\nwith open('there.py', 'w') as f:\n    f.write('def square(n): return n * n\\ndef say(text): print(text)\\n')");
        run(session, &code).await;
        let code = "import multiprocessing, there\nspawn = multiprocessing.get_context('spawn')\np = spawn.Process(target=there.say, args=('from a fresh one',))\np.start(); p.join()\np.exitcode";
        assert_shows(&run(session, code).await, "from a fresh one\n0", version);
        let code = "with spawn.Pool(1) as pool:\n    print(pool.map(there.square, range(3)))";
        assert_shows(&run(session, code).await, "[0, 1, 4]\n", version);
        let code = "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(1, mp_context=spawn) as pool:\n    print(pool.submit(there.square, 5).result())";
        assert_shows(&run(session, code).await, "25\n", version);
        run(session, "import functools\ndef own(n=1): return n\nclass Own: pass").await;
        for (method, code) in [
            ("spawn", "spawn.Process(target=own).start()"),
            ("spawn", "spawn.Process(target=there.say, args=(own,)).start()"),
            ("spawn", "spawn.Process(target=functools.partial(there.say, Own())).start()"),
            ("spawn", "class P(spawn.Process): pass\nP().start()"),
            ("spawn", "spawn.Pool(1, initializer=own)"),
            ("forkserver", "multiprocessing.get_context('forkserver').Process(target=own).start()"),
            ("spawn", "with spawn.Pool(1) as pool:\n    pool.map(own, [1])"),
            ("spawn", "with spawn.Pool(1) as pool:\n    pool.apply_async(functools.partial(own)).get()"),
            ("spawn", "with spawn.Pool(1) as pool:\n    list(pool.imap(there.say, [Own()]))"),
            ("spawn", "with ProcessPoolExecutor(1, mp_context=spawn) as pool:\n    pool.submit(own).result()"),
        ] {
            let outcome = run(session, code).await;
            let what = format!("{version}: {code}: {}", outcome.output);
            assert_eq!(outcome.error_class, Some(ErrorClass::Exception), "{what}");
            let error = outcome.error.unwrap();
            let hint = format!("RuntimeError: multiprocessing's start method '{method}' starts a fresh interpreter, which cannot see ");
            assert!(error.starts_with(&hint), "{what}");
            assert!(error.contains("Use the default start method 'fork', or put it into a module file and import it"), "{what}");
        }
        assert_shows(&run(session, "multiprocessing.active_children()").await, "[]", version);
    })
    .await;
}

#[tokio::test]
async fn too_many_processes_are_a_limit() {
    on_each_python(async |session, version| {
        // As a user who is not root, or the limit does not count.
        let code = "import os, resource, threading\npid = os.fork()\nif not pid:\n    os.setuid(65534)\n    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n    os.fork()\nos.waitpid(pid, 0)\n";
        let outcome = run(session, code).await;
        assert!(outcome.output.contains("BlockingIOError: [Errno 11]"), "{version}: {}", outcome.output);
        let code = "raise RuntimeError(\"can't start new thread\")";
        assert_eq!(run(session, code).await.error_class, Some(ErrorClass::Limit), "{version}");
        let code = "os.fork = None\nimport _posixsubprocess\nraise BlockingIOError(11, 'not from a fork')";
        assert_eq!(run(session, code).await.error_class, Some(ErrorClass::Exception), "{version}");
    })
    .await;
}
