//! Names that are not there: of variables, modules, and of the environment.

use super::modules::no_such_tool;
use super::rules::Case;

/// Names by which modules are known, and the line that brings them.
const CUSTOMARY: &[(&str, &str)] = &[
    ("alt", "import altair as alt"),
    ("go", "import plotly.graph_objects as go"),
    ("jnp", "import jax.numpy as jnp"),
    ("mp", "import multiprocessing as mp"),
    ("mpl", "import matplotlib as mpl"),
    ("nn", "from torch import nn"),
    ("np", "import numpy as np"),
    ("nx", "import networkx as nx"),
    ("pd", "import pandas as pd"),
    ("pl", "import polars as pl"),
    ("plt", "import matplotlib.pyplot as plt"),
    ("px", "import plotly.express as px"),
    ("sns", "import seaborn as sns"),
    ("sp", "import scipy as sp"),
    ("tf", "import tensorflow as tf"),
];

/// Modules that are called by their own names.
const MODULES: &[&str] = &[
    "argparse",
    "asyncio",
    "base64",
    "collections",
    "concurrent",
    "contextlib",
    "copy",
    "csv",
    "cv2",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "email",
    "enum",
    "fnmatch",
    "fractions",
    "functools",
    "gc",
    "getpass",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "html",
    "http",
    "importlib",
    "inspect",
    "io",
    "itertools",
    "json",
    "logging",
    "math",
    "matplotlib",
    "mimetypes",
    "multiprocessing",
    "numpy",
    "operator",
    "os",
    "pandas",
    "pathlib",
    "pickle",
    "platform",
    "pprint",
    "queue",
    "random",
    "re",
    "requests",
    "scipy",
    "secrets",
    "shlex",
    "shutil",
    "signal",
    "sklearn",
    "socket",
    "sqlite3",
    "ssl",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "sys",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "torch",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib",
    "uuid",
    "warnings",
    "weakref",
    "xml",
    "yaml",
    "zipfile",
    "zlib",
];

/// Names that are imported out of modules.
const OUT_OF: &[(&str, &str)] = &[
    ("ABC", "abc"),
    ("Any", "typing"),
    ("BeautifulSoup", "bs4"),
    ("BytesIO", "io"),
    ("Callable", "typing"),
    ("Counter", "collections"),
    ("Decimal", "decimal"),
    ("Dict", "typing"),
    ("Enum", "enum"),
    ("Fraction", "fractions"),
    ("Image", "PIL"),
    ("Iterable", "typing"),
    ("Iterator", "typing"),
    ("List", "typing"),
    ("Optional", "typing"),
    ("OrderedDict", "collections"),
    ("Path", "pathlib"),
    ("ProcessPoolExecutor", "concurrent.futures"),
    ("StringIO", "io"),
    ("ThreadPoolExecutor", "concurrent.futures"),
    ("Tuple", "typing"),
    ("Union", "typing"),
    ("abstractmethod", "abc"),
    ("as_completed", "concurrent.futures"),
    ("contextmanager", "contextlib"),
    ("dataclass", "dataclasses"),
    ("deepcopy", "copy"),
    ("defaultdict", "collections"),
    ("deque", "collections"),
    ("dedent", "textwrap"),
    ("field", "dataclasses"),
    ("lru_cache", "functools"),
    ("namedtuple", "collections"),
    ("partial", "functools"),
    ("pprint", "pprint"),
    ("reduce", "functools"),
    ("sleep", "time"),
    ("timedelta", "datetime"),
    ("timezone", "datetime"),
    ("urlopen", "urllib.request"),
    ("urlparse", "urllib.parse"),
];

/// What other languages have, and Python spells otherwise.
const SPELT_OTHERWISE: &[(&str, &str)] = &[
    ("true", "True"),
    ("false", "False"),
    ("null", "None"),
    ("undefined", "None"),
    ("nil", "None"),
];

fn name<'a>(case: &Case<'a>) -> Option<&'a str> {
    if !case.exception.is(&["NameError"]) {
        return None;
    }
    // 3.12 and newer add what else might have been meant.
    case.exception.quoted("name ", " is not defined")
}

/// A name that went with an earlier kernel.
pub(super) fn lost(case: &Case<'_>) -> Option<String> {
    let name = name(case)?;
    let (kind, how) = case.setting.gone.find(name)?;
    let again = if kind == "module" {
        "import it again"
    } else {
        "run again the code that made it"
    };
    Some(format!(
        "{name} was lost with an earlier kernel ({how}): {again}"
    ))
}

/// A name of ours, or of a tool that is not there.
pub(super) fn ours(case: &Case<'_>) -> Option<String> {
    let name = name(case)?;
    if case.setting.is_ours(name) {
        return Some(format!("add `from hermes_tools import {name}`"));
    }
    case.setting
        .is_tool_elsewhere(name)
        .then(|| no_such_tool(case, name))
}

/// A module that everybody knows, or a name out of one.
pub(super) fn not_imported(case: &Case<'_>) -> Option<String> {
    let name = name(case)?;
    if let Some((_, line)) = CUSTOMARY.iter().find(|(known, _)| *known == name) {
        return Some(format!("add `{line}`"));
    }
    if MODULES.contains(&name) {
        return Some(format!("add `import {name}`"));
    }
    let (_, module) = OUT_OF.iter().find(|(known, _)| *known == name)?;
    Some(format!("add `from {module} import {name}`"))
}

/// Words of JSON, and what only IPython has.
pub(super) fn not_python(case: &Case<'_>) -> Option<String> {
    let name = name(case)?;
    if name == "get_ipython" {
        return Some(
            "this kernel is no IPython: terminal(\"...\") or subprocess runs commands, and there are no \
             magics"
                .to_owned(),
        );
    }
    let (_, python) = SPELT_OTHERWISE.iter().find(|(known, _)| *known == name)?;
    Some(format!(
        "Python writes {python} for {name}; text of JSON goes through json.loads(r'''...''')"
    ))
}

/// A variable of the environment that the kernel does not see.
pub(super) fn dropped_variable(case: &Case<'_>) -> Option<String> {
    let exception = case.exception;
    let frame = exception.frame();
    let is_of_environ = exception.is(&["KeyError"])
        && (frame.contains("os.py") || frame.contains("<frozen os>"))
        && (frame.contains("__getitem__") || frame.contains("__delitem__"));
    let speaks_of_environment = || {
        let text = exception.text.to_ascii_lowercase();
        !exception.is(&["KeyError"]) && (text.contains("environ") || text.contains("env var"))
    };
    if !is_of_environ && !speaks_of_environment() {
        return None;
    }
    let is_sign = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let mut words = exception.text.split(is_sign).filter(|it| !it.is_empty());
    let (name, why) = words.find_map(|word| Some((word, (case.setting.dropped)(word)?)))?;
    Some(format!(
        "{name} is set where the caller is, and cells do not see it: {why}"
    ))
}
