"""First cell: a host tool reads a file; the kernel keeps what the cell makes of it."""

licence = read_file("LICENSE-MIT")
words = [word.lower().strip('.,()"') for word in licence["content"].split()]
print(licence["total_lines"], "lines")
