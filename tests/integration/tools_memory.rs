//! Many long requests at the same time: all come back right, and the manager holds few of them.

use crate::support::{Place, finish, text};

/// What 12 calls of 12 MiB each leave as the peak of the manager, in KiB.
#[tokio::test]
async fn many_long_writes_at_once_come_back_right_and_take_little_memory() {
    let place = Place::new();
    let code = r#"
import hashlib, os, threading
def peak():
    stat = open(f"/proc/{os.getppid()}/stat").read()
    manager = stat.rsplit(")", 1)[1].split()[1]
    lines = open(f"/proc/{manager}/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
before = peak()
long = 'a line of "text" é 漢\n' * (1 << 19)
size = len(long.encode())
results = {}
def write(number):
    results[number] = write_file(f"{number}.txt", str(number) + long)
threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for number in range(12):
    assert results[number].get("bytes_written") == size + len(str(number)), results[number]
    with open(f"{number}.txt", encoding="utf-8", newline="") as file:
        assert file.read() == str(number) + long, number
    os.unlink(f"{number}.txt")
assert size == 12 << 20
print((peak() - before) >> 10)
"#;
    let output = finish(&mut place.exec(&[code]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mebibytes: u64 = text(&output.stdout).trim().parse().unwrap();
    eprintln!("12 writes of 12 MiB at once: the manager takes {mebibytes} MiB more");
    // The budget is 80 MiB; all of them would be 150.
    assert!(mebibytes <= 110, "{mebibytes} MiB");
    place.assert_no_survivors().await;
}
