//! Tools do not hang on the environment of the kernel, which is the cell's to change.

use serde_json::json;

use warmcell::session::Cell;

use crate::support::{on_each_python, run, run_cell};
use crate::tools_kit::{assert_fails, json_of};

/// What a program that the cell starts gets of a call, in the environment as it is.
const PROGRAM: &str = r#"
import json, os, subprocess, sys
program = "import json, sys; sys.path.append(sys.argv[1]); import hermes_tools as h; print(json.dumps(h.read_file('/proc/sys/kernel/ostype')))"
import hermes_tools
folder = os.path.dirname(hermes_tools.__file__)
print(subprocess.run([sys.executable, "-c", program, folder], stdout=subprocess.PIPE).stdout.decode())
"#;
const ASK: &str = "import json\nprint(json.dumps(read_file('/proc/sys/kernel/ostype')['content']))";

#[tokio::test]
async fn tools_work_whatever_a_cell_does_to_the_environment() {
    let changes = [
        "del os.environ['HERMES_RPC_TOKEN']",
        "os.environ['HERMES_RPC_TOKEN'] = 'another'",
        "os.environ['HERMES_RPC_SOCKET'] = '/not/there'",
        "os.environ['HERMES_RPC_CELL'] = 'no number'",
        "os.environ.pop('HERMES_RPC_SOCKET', None); os.environ.pop('HERMES_RPC_CELL', None)",
        "os.unsetenv('HERMES_RPC_TOKEN'); os.environ = {}",
        "os.environ.clear()",
    ];
    on_each_python(async |session, version| {
        // The first call, with a connection to be made, comes after the change; so in threads and
        // in children that are forked.
        for change in changes {
            let what = format!("{version}: {change}");
            run_cell(session, Cell::new("import os").reset()).await;
            let cell = format!("{change}\n{ASK}");
            assert_eq!(json_of(session, &cell).await, json!("Linux\n"), "{what}");
            let thread = "import threading\nt = threading.Thread(target=lambda: print(json.dumps(read_file('/proc/sys/kernel/ostype')['content'])))\nt.start(); t.join()";
            assert_eq!(json_of(session, thread).await, json!("Linux\n"), "{what}");
            let fork = "pid = os.fork()\nif not pid:\n    print(json.dumps(read_file('/proc/sys/kernel/ostype')['content']), flush=True)\n    os._exit(0)\nos.waitpid(pid, 0)[1] or None";
            assert_eq!(json_of(session, fork).await, json!("Linux\n"), "{what}");
        }
    })
    .await;
}

#[tokio::test]
async fn programs_find_the_variables_that_the_cells_have_left_there() {
    on_each_python(async |session, version| {
        let value = json_of(session, PROGRAM).await;
        assert_eq!(value["content"], "Linux\n", "{version}: {value}");
        // A later cell's number is told too.
        let value = json_of(session, PROGRAM).await;
        assert_eq!(value["content"], "Linux\n", "{version}: {value}");
        run(session, "os.environ.clear()").await;
        let left = run(session, "dict(os.environ)").await;
        assert_eq!(left.result.as_deref(), Some("{}"), "{version}");
        let value = json_of(session, PROGRAM).await;
        assert_fails(&value, "refused", "belongs to no cell");
        // What is gone stays gone in later cells, and what is put back is found.
        run(session, "os.environ['HERMES_RPC_CELL'] = '7'").await;
        let value = json_of(session, PROGRAM).await;
        assert_fails(&value, "unavailable", "are not set");
    })
    .await;
}
