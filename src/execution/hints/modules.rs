//! What could not be imported.

use super::rules::Case;
use crate::jupyter::MissingModule;

/// Packages whose names are not those of their modules.
const PACKAGES: &[(&str, &str)] = &[
    ("Bio", "biopython"),
    ("Crypto", "pycryptodome"),
    ("Levenshtein", "python-Levenshtein"),
    ("MySQLdb", "mysqlclient"),
    ("OpenSSL", "pyOpenSSL"),
    ("PIL", "pillow"),
    ("absl", "absl-py"),
    ("attr", "attrs"),
    ("bs4", "beautifulsoup4"),
    ("cairo", "pycairo"),
    ("cv2", "opencv-python"),
    ("dateutil", "python-dateutil"),
    ("discord", "discord.py"),
    ("distutils", "setuptools"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("faiss", "faiss-cpu"),
    ("fitz", "PyMuPDF"),
    ("gi", "PyGObject"),
    ("git", "GitPython"),
    ("github", "PyGithub"),
    ("google.auth", "google-auth"),
    ("google.oauth2", "google-auth"),
    ("google.protobuf", "protobuf"),
    ("googleapiclient", "google-api-python-client"),
    ("igraph", "python-igraph"),
    ("jose", "python-jose"),
    ("jwt", "PyJWT"),
    ("kafka", "kafka-python"),
    ("ldap", "python-ldap"),
    ("magic", "python-magic"),
    ("mpl_toolkits", "matplotlib"),
    ("nacl", "PyNaCl"),
    ("pkg_resources", "setuptools"),
    ("pptx", "python-pptx"),
    ("psycopg2", "psycopg2-binary"),
    ("pylab", "matplotlib"),
    ("rest_framework", "djangorestframework"),
    ("ruamel", "ruamel.yaml"),
    ("serial", "pyserial"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("slugify", "python-slugify"),
    ("snappy", "python-snappy"),
    ("socks", "PySocks"),
    ("telegram", "python-telegram-bot"),
    ("umap", "umap-learn"),
    ("usb", "pyusb"),
    ("websocket", "websocket-client"),
    ("wx", "wxPython"),
    ("yaml", "PyYAML"),
    ("zmq", "pyzmq"),
];

/// Standard modules that are gone from newer Pythons, and what to do instead.
const GONE: &[(&str, &str)] = &[
    ("asynchat", "asyncio does the same"),
    ("asyncore", "asyncio does the same"),
    ("cgi", "urllib.parse and email.message do the same"),
    ("crypt", "hashlib does the same"),
    ("imp", "importlib does the same"),
    ("imghdr", "the first bytes of a file tell what it is"),
    ("pipes", "shlex.quote and subprocess do the same"),
    ("telnetlib", "socket does the same"),
];

/// Standard modules that a Python may have been built without.
const BUILT_WITHOUT: &[&str] = &[
    "_bz2", "_ctypes", "_curses", "_lzma", "_sqlite3", "_ssl", "_tkinter", "bz2", "ctypes",
    "curses", "lzma", "readline", "sqlite3", "ssl", "tkinter",
];

/// A module that is not there.
pub(super) fn missing(case: &Case<'_>) -> Option<String> {
    if !case.exception.is(&["ModuleNotFoundError"]) {
        return None;
    }
    let name = case.exception.quoted("No module named ", "")?;
    let top = name.split('.').next().unwrap_or(name);
    let is_plain = |c: char| c.is_alphanumeric() || c == '_';
    if !top.chars().all(is_plain) || top.is_empty() || top == "__main__" {
        return None;
    }
    let setting = case.setting;
    if setting.is_ours(top) {
        return Some(format!(
            "{top} is no module: it is in the namespace already, and `from hermes_tools import {top}` \
             imports it"
        ));
    }
    if setting.is_tool_elsewhere(top) {
        return Some(no_such_tool(case, top));
    }
    let known = case.missing.filter(|it| it.module == name);
    if top == "hermes_tools" {
        return Some(
            "the functions of hermes_tools are in the namespace of cells already; a program needs the \
             PYTHONPATH that the kernel has"
                .to_owned(),
        );
    }
    if let Some((_, instead)) = GONE.iter().find(|(gone, _)| *gone == top) {
        return Some(format!(
            "{top} is not in the standard library of this Python any more: {instead}"
        ));
    }
    if BUILT_WITHOUT.contains(&top) {
        let python = known.map_or_else(String::new, |it| format!(" ({})", it.python));
        return Some(format!(
            "{top} is part of Python, and this one{python} was built without it: use another Python \
             (exec --python PATH), or install it with the packages of the system; pip does not have it"
        ));
    }
    if let Some(known) = known {
        if let Some(file) = &known.file {
            return Some(in_the_project(top, file));
        }
        if let Some(file) = &known.package {
            return Some(format!(
                "{top} is there ({file}), and has no {name}: another version of it, or a file of that \
                 name that is in the way of the package that was meant"
            ));
        }
    }
    let package = package_of(name, setting.code)?;
    let spoken = if package == name {
        String::new()
    } else {
        format!(" (its package is called {package})")
    };
    if setting.foreign.is_some() {
        return Some(format!(
            "{name} is not installed for the Python of this kernel{spoken}: `%pip install {package}` in \
             a cell of its own installs it"
        ));
    }
    Some(match known {
        Some(known) => format!(
            "{name} is not installed for {}, the Python of this kernel{spoken}: {}",
            known.python,
            install(known, &package, setting.shell())
        ),
        None => format!(
            "{name} is not installed for the Python of this kernel{spoken}: `python -m pip install \
             {package}` with that Python installs it"
        ),
    })
}

/// The import of something that the tool module does not have, or of a module that is not ours.
pub(super) fn wrong_tool(case: &Case<'_>) -> Option<String> {
    let exception = case.exception;
    if !exception.is(&["ImportError", "AttributeError"]) {
        return None;
    }
    if let Some(name) = exception.quoted("there is no tool ", "; hermes_tools has") {
        return Some(no_such_tool(case, name));
    }
    let text = exception.text;
    let is_other = text.contains("from 'hermes_tools'")
        || text.contains("partially initialized module 'hermes_tools'")
        || text.starts_with("module 'hermes_tools' has no attribute");
    if !is_other {
        return None;
    }
    let name = exception
        .quoted("cannot import name ", "")
        .unwrap_or_default();
    if !name.is_empty() && !case.setting.is_ours(name) {
        return Some(no_such_tool(case, name));
    }
    Some(
        "another module named hermes_tools is in the way of ours: rename it (hermes_tools.__file__ says \
         where it is), or do without the import, since the functions are in the namespace already"
            .to_owned(),
    )
}

/// What does a job by whatever name.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &[
            "bash",
            "shell",
            "sh",
            "run",
            "execute",
            "run_command",
            "execute_command",
            "process",
            "system",
            "cmd",
        ],
        "terminal(command) runs a command",
    ),
    (
        &[
            "read",
            "open_file",
            "cat",
            "view",
            "view_file",
            "load_file",
            "get_file",
        ],
        "read_file(path) reads a file",
    ),
    (
        &[
            "write",
            "save",
            "save_file",
            "create_file",
            "edit_file",
            "create",
        ],
        "write_file(path, content) writes one",
    ),
    (
        &["patch", "edit", "apply_patch", "str_replace"],
        "read_file and write_file change a file, or open() in the cell",
    ),
    (
        &[
            "search_files",
            "grep",
            "search",
            "find",
            "glob",
            "list_files",
            "ls",
        ],
        "terminal(\"grep -rn ...\") searches, pathlib lists files",
    ),
    (
        &[
            "web_search",
            "web_extract",
            "fetch",
            "browse",
            "http_get",
            "web_fetch",
        ],
        "urllib.request fetches a page, where the net can be reached",
    ),
    (
        &["execute_code", "delegate_task"],
        "a cell does not call that: it is code already",
    ),
];

pub(super) fn no_such_tool(case: &Case<'_>, name: &str) -> String {
    let instead = INSTEAD
        .iter()
        .find(|(names, _)| names.contains(&name))
        .map_or_else(String::new, |(_, instead)| format!("; {instead}"));
    format!(
        "there is no {name} in cells: what can be called is {}{instead}",
        case.setting.callable()
    )
}

fn in_the_project(module: &str, file: &str) -> String {
    let inside = format!("/{module}/__init__.py");
    let folder = file
        .strip_suffix(inside.as_str())
        .or_else(|| file.rsplit_once('/').map(|(folder, _)| folder))
        .unwrap_or(file);
    let folder = if folder.is_empty() { "/" } else { folder };
    format!(
        "{module} is a file of the project, {file}, and its folder is not on the path: `import sys; \
         sys.path.insert(0, {folder:?})` before the import, or start in that folder (exec --cwd)"
    )
}

/// What pip calls it; none where that cannot be told.
fn package_of(module: &str, code: &str) -> Option<String> {
    let mut module = module.to_owned();
    if module == "google" {
        // A namespace of many packages: which is meant the code says.
        let (_, after) = code.split_once("google.")?;
        let is_name = |c: &char| c.is_alphanumeric() || *c == '_' || *c == '.';
        let rest: String = after.chars().take_while(is_name).collect();
        module = format!("google.{rest}");
    }
    let parts: Vec<&str> = module.split('.').filter(|part| !part.is_empty()).collect();
    let known = |name: &str| PACKAGES.iter().find(|(known, _)| *known == name);
    for length in (1..=parts.len()).rev() {
        let name = parts.get(..length)?.join(".");
        if let Some((_, package)) = known(&name) {
            return Some((*package).to_owned());
        }
    }
    match parts.as_slice() {
        ["google", "cloud", part, ..] => Some(format!("google-cloud-{}", part.replace('_', "-"))),
        ["google", part, ..] => Some(format!("google-{}", part.replace('_', "-"))),
        ["google"] | [] => None,
        [top, ..] => Some((*top).to_owned()),
    }
}

/// The command that installs a package for this interpreter.
fn install(known: &MissingModule, package: &str, place: &str) -> String {
    let python = quoted(&known.python);
    if known.managed {
        return format!(
            "that one belongs to the system and its pip refuses, so make an environment, `{python} -m \
             venv .venv && .venv/bin/python -m pip install {package}` {place}, and name its Python \
             (exec --python .venv/bin/python)"
        );
    }
    if known.pip {
        return format!(
            "`{python} -m pip install {package}` {place} installs it, and the next cell can import it"
        );
    }
    if known.uv {
        return format!(
            "it has no pip; `uv pip install --python {python} {package}` {place} installs it, and the \
             next cell can import it"
        );
    }
    if known.ensurepip {
        return format!(
            "it has no pip; `{python} -m ensurepip --upgrade && {python} -m pip install {package}` \
             {place} installs both, and the next cell can import it"
        );
    }
    format!(
        "it has no pip and cannot make itself one: install python3-pip with the packages of the system, \
         then `{python} -m pip install {package}`, or name another Python (exec --python PATH)"
    )
}

/// A path as one word of a shell.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', "'\"'\"'"))
}
