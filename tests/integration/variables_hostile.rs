//! Variables that do not want to be listed, and namespaces that are too big for it.

use warmcell::session::Variable;

use crate::support::{on_each_python, run};
use crate::variables::{listed, listed_after, silently, told};

/// Whatever of it runs says so in `ran`.
const HOSTILE: &str = "
ran = []
def spy(name, value=None):
    def method(*arguments, **more):
        ran.append(name)
        raise SystemExit(name)
    return method
SPECIAL = '''__sizeof__ __len__ __repr__ __str__ __hash__ __eq__ __bool__ __iter__ __index__ __getattribute__
    __getattr__ __instancecheck__ __subclasscheck__ __format__ __dir__ __int__ __array__'''.split()
def evil(*left_out): return {name: spy(name) for name in SPECIAL if name not in left_out}
Meta = type('Meta', (type,), {**evil('__getattribute__', '__hash__'), '__class__': property(spy('class'))})
class Named(type):
    @property
    def __name__(cls): ran.append('name')
    @property
    def __mro__(cls): ran.append('mro')
    @property
    def __dict__(cls): ran.append('dict')
    @property
    def __module__(cls): ran.append('module')
    def __getattribute__(cls, name): ran.append(name); return type.__getattribute__(cls, name)
    def __eq__(cls, other): ran.append('eq'); return True
    def __hash__(cls): ran.append('hash'); return 1
class Key(str):
    def __hash__(self): return hash(str(self)) if not armed else (ran.append('key hash') or 1)
    def __eq__(self, other): return (ran.append('key eq') or False) if armed else str.__eq__(self, other)
armed = False
class Text(str): locals().update(evil('__hash__', '__eq__', '__getattribute__'))
class Items(list): locals().update(evil())
class Table(dict): locals().update(evil())
class Whole(int): locals().update(evil('__getattribute__'))
class Proxy:
    locals().update(evil('__getattribute__'))
    __class__ = property(spy('class'))
    __dict__ = property(spy('dict'))
    nbytes = property(spy('nbytes'))
    shape = property(spy('shape'))
Sized = type('Sized', (), {'__sizeof__': property(spy('property'))})
class Descriptor:
    def __get__(self, *arguments): ran.append('get'); raise SystemExit
    __getattribute__ = spy('get attribute')
Slotted = type('Slotted', (), {'__sizeof__': Descriptor(), '__slots__': ('a',)})
Borrowed = type('Borrowed', (list,), {'__sizeof__': list.__sizeof__})
Keyed = type('Keyed', (), {Key('__sizeof__'): spy('keyed'), Key('nbytes'): 1})
Frame = type('DataFrame', (Proxy,), {'__module__': 'pandas.core.frame'})
ndarray = type('ndarray', (Proxy,), {'__module__': 'numpy', 'nbytes': type.__dict__['__dict__'], 'shape': type.__dict__['__dict__']})
Liar = type('ndarray', (), {'__module__': 'numpy', 'nbytes': property(spy('nbytes')), 'shape': property(spy('shape'))})
Odd = type('Odd', (), {'__module__': Proxy()})
text = Text('t'); items = Items([1, 2]); table = Table(a=1); whole = Whole(3); proxy = Proxy()
sized = Sized(); slotted = Slotted(); borrowed = Borrowed([1]); keyed = Keyed(); frame = Frame()
array = ndarray(); liar = Liar(); odd = Odd(); metaclass = Meta('Made', (), {})(); named = Named('Nobody', (), {})()
released = memoryview(b'x'); released.release()
globals()[Key('key')] = 1
globals()[Key('items ')] = 1
import sys
";

#[tokio::test]
async fn no_code_of_a_cells_runs_for_a_listing() {
    on_each_python(async |session, version| {
        silently(session, HOSTILE, version).await;
        // All that measures is replaced by a thread, since what follows a cell looks its names up.
        let code = format!(
            "import builtins, os, threading
names = 'len type list dict map zip sum id isinstance getattr vars reversed'.split()
kept = {{name: getattr(builtins, name) for name in names}}
spies = {{name: spy('builtin ' + name) for name in names}}
sizeof, update = sys.getsizeof, vars(builtins).update
fifos = [os.path.abspath(name + '{version}') for name in ('arm', 'armed', 'stop', 'stopped')]
for name in fifos: os.mkfifo(name)
def work():
    global armed
    os.read(os.open(fifos[0], os.O_RDONLY), 1)
    sys.getsizeof = spy('getsizeof')
    update(spies)
    armed = True
    ran.clear()
    os.close(os.open(fifos[1], os.O_WRONLY))
    os.read(os.open(fifos[2], os.O_RDONLY), 1)
    armed = False
    update(kept)
    sys.getsizeof = sizeof
    ran.append('end')
    os.close(os.open(fifos[3], os.O_WRONLY))
threading.Thread(target=work).start()
print(*fifos)"
        );
        let outcome = run(session, &code).await;
        let fifos: Vec<&str> = outcome.output.split_whitespace().collect();
        tokio::fs::write(fifos[0], b"x").await.unwrap();
        tokio::fs::read(fifos[1]).await.unwrap();
        let variables = listed(session).await;
        let sizes: Vec<(&str, bool)> = variables
            .variables
            .iter()
            .filter(|it| it.name.chars().all(char::is_lowercase))
            .map(|it| (it.name.as_str(), it.size.is_some()))
            .collect();
        let measured = |name: &str| sizes.iter().find(|(it, _)| *it == name).unwrap().1;
        for name in [
            "text", "items", "table", "whole", "proxy", "sized", "slotted", "keyed",
        ] {
            assert!(!measured(name), "{version}: {name}");
        }
        for name in ["frame", "array"] {
            assert!(!measured(name), "{version}: {name}");
        }
        for name in [
            "borrowed",
            "liar",
            "odd",
            "metaclass",
            "named",
            "released",
            "spy",
            "ran",
        ] {
            assert!(measured(name), "{version}: {name}");
        }
        let kind = |name: &str| {
            let found = variables.variables.iter().find(|it| it.name == name);
            found.unwrap().kind.clone()
        };
        assert_eq!(kind("proxy"), "Proxy", "{version}");
        assert_eq!(kind("metaclass"), "Made", "{version}");
        assert_eq!(kind("named"), "Nobody", "{version}");
        let shapes: Vec<String> = told(&variables)
            .into_iter()
            .filter(|it| it.starts_with("items ") || it.starts_with("array "))
            .collect();
        assert_eq!(shapes, ["items Items", "array ndarray"], "{version}");
        tokio::fs::write(fifos[2], b"x").await.unwrap();
        tokio::fs::read(fifos[3]).await.unwrap();
        let code = "print(ran[:ran.index('end')], end='')";
        let outcome = run(session, code).await;
        assert_eq!(outcome.output, "[]", "{version}: {outcome:?}");
    })
    .await;
}

#[tokio::test]
async fn what_a_cell_does_to_python_costs_a_listing_at_most_its_sizes() {
    on_each_python(async |session, version| {
        for code in [
            "import sys; sys.setrecursionlimit(45); x = 1",
            "import sys; sys.setrecursionlimit(1000); sys.settrace(lambda *a: None); x = 1",
            "import sys; sys.settrace(None); sys.setprofile(lambda *a: None); x = 1",
            "sys.setprofile(None); sys.modules.clear(); x = 1",
            "import builtins; vars(builtins).clear(); x = 1",
        ] {
            run(session, code).await;
            let variables = session.variables().await;
            let known = variables.variables.iter().find(|it| it.name == "x");
            assert_eq!(known.unwrap().kind, "int", "{version}: {code}");
            let outcome = run(session, "x = 2; x").await;
            assert_eq!(outcome.result.as_deref(), Some("2"), "{version}: {code}");
        }
    })
    .await;
}

#[tokio::test]
async fn ten_thousand_variables_and_long_names_are_told_by_the_latest() {
    on_each_python(async |session, version| {
        let code = "for n in range(9_999): globals()[f'v{n}'] = n\nn = 1";
        let variables = listed_after(session, code).await;
        assert_eq!(variables.total, 10_000, "{version}");
        assert_eq!(variables.variables.len(), 200, "{version}");
        assert_eq!(variables.variables[199].name, "v9998", "{version}");
        let code = "del v9998, v5
globals().update({chr(0x10000 + n) * 9_000: 1 for n in range(199)})
globals()['\\x1b[2J' + 'x' * 9_000_000] = type('T' * 5_000, (), {})()";
        let variables = listed_after(session, code).await;
        assert_eq!(variables.total, 10_198, "{version}");
        assert_eq!(variables.variables.len(), 200, "{version}");
        let last = &variables.variables[199];
        assert!(last.name.starts_with("\u{fffd}[2Jx"), "{version}");
        assert_eq!(last.name.chars().count(), 100, "{version}");
        assert_eq!(last.kind, "T".repeat(100), "{version}");
        let gone = |it: &Variable| it.name == "v9998";
        assert!(!variables.variables.iter().any(gone), "{version}");
        // Of too many it is told what is known.
        silently(
            session,
            "globals().update({f'w{n}': n for n in range(100_000)})",
            version,
        )
        .await;
        let variables = session.variables().await;
        assert!(!variables.taken_live, "{version}");
        assert_eq!(variables.total, 110_198, "{version}");
        assert_eq!(variables.variables[199].name, "w99999", "{version}");
        assert_eq!(variables.variables[199].size, None, "{version}");
    })
    .await;
}
