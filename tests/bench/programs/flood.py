"""100 MB in lines of 80 bytes."""

line = "x" * 79
for _ in range(1_250_000):
    print(line)
