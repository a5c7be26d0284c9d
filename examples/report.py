"""One cell in place of many steps: reads every source file, keeps what matters, and reports."""

names = terminal("find src -name '*.rs' | sort | head -40")["output"].split()
report = []
for name in names:
    lines = read_file(name)["content"].splitlines()
    report += [f"{name}: {line}" for line in lines if line.startswith("//! ")][:1]
write_file("/tmp/warmcell-report/heads.txt", "\n".join(report) + "\n")
print(terminal("wc -l < /tmp/warmcell-report/heads.txt")["output"].strip(), "files have a head")
