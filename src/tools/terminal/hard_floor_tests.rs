//! The floor, as a pure function: nothing here is ever run.

use std::path::Path;

use super::hard_floor::hard_floor;

pub(super) const HOME: &str = "/home/ada";

pub(super) fn rule(command: &str) -> Option<&'static str> {
    hard_floor(command, Some(Path::new(HOME))).map(|rule| rule.name)
}

pub(super) fn refused(name: &str, commands: &[&str]) {
    let wrong: Vec<_> = commands
        .iter()
        .map(|command| (*command, rule(command)))
        .filter(|(_, found)| *found != Some(name))
        .collect();
    assert!(wrong.is_empty(), "expected {name}: {wrong:#?}");
}

pub(super) fn passed(commands: &[&str]) {
    let wrong: Vec<_> = commands
        .iter()
        .map(|command| (*command, rule(command)))
        .filter(|(_, found)| found.is_some())
        .collect();
    assert!(wrong.is_empty(), "expected to pass: {wrong:#?}");
}

#[test]
fn removing_the_root_is_refused_in_every_spelling() {
    refused(
        "rm-root",
        &[
            "rm -rf /",
            "rm -fr /",
            "rm -r -f /",
            "rm / -rf",
            "rm -Rf /",
            "rm --recursive --force /",
            "rm /",
            "rm -rf //",
            "rm -rf ///",
            "rm -rf /.",
            "rm -rf /./",
            "rm -rf /../",
            "rm -rf /../../..",
            "rm -rf /usr/..",
            "rm -rf /tmp/../",
            "rm -rf /*",
            "rm -rf /*/",
            "rm -rf /.*",
            "rm -rf /?*",
            "rm -rf -- /",
            "rm -rf --no-preserve-root /",
            "rm --no-preserve-root -rf x",
            "rm -rf /tmp/x /",
            "rm -rf \"/\"",
            "rm -rf '/'",
            "rm -rf \"/\"*",
            "rm -rf /\"\"",
            "rm -rf /{,}",
            "{rm,-rf,/}",
            "/bin/rm -rf /",
            "/usr/bin/rm -rf /",
            "../../bin/rm -rf /",
            "\\rm -rf /",
            "r\\m -rf /",
            "r''m -rf /",
            "r\"\"m -rf /",
            "\"rm\" -rf /",
            "'rm' '-rf' '/'",
            "rm -r\\\nf /",
            "r\\\nm -rf /",
            "rm$IFS-rf$IFS/",
            "rm${IFS}-rf${IFS}/",
            "rm$IFS$9-rf$IFS$9/",
            "rm${IFS%?}-rf${IFS}/",
            "r$@m -rf /",
            "$'rm' -rf /",
            "$'\\x72m' -rf $'\\57'",
            "${x:-rm} -rf /",
            "${x:-rm -rf /}",
            "\u{1b}[31mrm -rf /\u{1b}[0m",
            "r\0m -rf /",
            "ｒｍ -rf ／",
            "rm\u{3000}-rf\u{a0}/",
        ],
    );
}

#[test]
fn removing_system_directories_is_refused() {
    for name in [
        "home", "root", "etc", "usr", "var", "bin", "sbin", "boot", "lib",
    ] {
        for operand in [
            format!("/{name}"),
            format!("/{name}/"),
            format!("//{name}/."),
            format!("/{name}/*"),
            format!("\"/{name}\"/*"),
            format!("/tmp/../{name}"),
        ] {
            refused(
                "rm-system",
                &[
                    &format!("rm -rf {operand}"),
                    &format!("rm {operand} -r"),
                    &format!("sudo rm -rf -- {operand} x"),
                ],
            );
        }
    }
    refused(
        "rm-system",
        &[
            "rm -rf /us*",
            "rm -rf /[eu]*",
            "rm -rf /b?n",
            "rm -rf /{usr,x}",
            "rm -rf ~/..",
            "rm -rf ~root",
        ],
    );
}

#[test]
fn removing_the_home_is_refused() {
    refused(
        "rm-home",
        &[
            "rm -rf ~",
            "rm -rf ~/",
            "rm -rf ~/*",
            "rm -rf ~/.*",
            "rm -rf ~/.",
            "rm -rf $HOME",
            "rm -rf \"$HOME\"",
            "rm -rf $HOME/",
            "rm -rf $HOME/*",
            "rm -rf \"$HOME\"/*",
            "rm -rf ${HOME}",
            "rm -rf \"${HOME}/\"",
            "rm -rf ${HOME:?}",
            "rm -rf ${HOME:-x}/*",
            "rm -rf /home/ada",
            "rm -rf /home/ada/",
            "rm -rf /home/ada/*",
            "rm -rf /home/./ada/x/..",
            "rm -rf ~ada",
            "rm -rf ~ada/*",
            "rm -rf ${x:-$HOME}",
            "bash -c 'rm -rf $HOME'",
            "bash -c \"rm -rf '$HOME'\"",
            "bash -c \"rm -rf ~\"",
        ],
    );
    assert_eq!(
        hard_floor("rm -rf ~", None).map(|rule| rule.name),
        Some("rm-home")
    );
    assert_eq!(
        hard_floor("rm -rf ~", Some(Path::new("/"))).map(|rule| rule.name),
        Some("rm-root")
    );
}

#[test]
fn other_removals_pass() {
    passed(&[
        "rm -rf /tmp/x",
        "rm -rf ./usr",
        "rm -rf usr",
        "rm -rf .",
        "rm -rf *",
        "rm -rf build/ dist/*",
        "rm -rf /home/ada/project",
        "rm -rf ~/project",
        "rm -rf ~/.cache/*",
        "rm -rf $HOME/.cache",
        "rm -rf \"$HOME/x\"",
        "rm -rf $HOMEBREW",
        "rm -rf ${HOME:+$HOME/.cache}",
        "rm -rf ${TMPDIR:-/tmp}/x",
        "rm -rf /home/bob",
        "rm /etc/passwd.bak",
        "rm -rf /usr/local/lib/x",
        "rm -rf /var/tmp/*",
        "rm -rf /opt /srv",
        "rm -rf /library",
        "rm -rf /t*",
        "rm -rf '~'",
        "rm -rf '$HOME'",
        "rm -rf \\~",
        "rm -rf \"/*x\"",
        "rm -rf '/*'",
        "rm -rf \"$DIR\"/*",
        "rm -rf ~/[a-c]*",
        "rm -rf \"${DIR:?}/\"",
        "rm -rf ~bob",
        "rm -i -- -rf",
        "rm --help",
        "rmdir /tmp/x",
        "trap 'rm -rf \"$tmp\"' EXIT",
        "find / -name '*.pyc' -exec rm {} \\;",
        "find /usr -type f | xargs rm -f",
        "ls -l /",
        "./rm /",
    ]);
}

#[test]
fn file_systems_and_disks_are_refused() {
    refused(
        "make-file-system",
        &[
            "mkfs.ext4 /dev/sda1",
            "mkfs -t ext4 /dev/sda1",
            "mkfs.xfs disk.img",
            "mke2fs /dev/sda1",
            "/sbin/mkfs.ext4 /dev/sda1",
            "sudo mkfs.vfat /dev/sdb",
            "nice -n 10 mkfs.ext4 /dev/sda",
            "stdbuf -oL mkfs.ext4 /dev/sda",
            "command mkfs.ext4 /dev/sda",
            "busybox mke2fs /dev/sda",
            "mkswap /dev/sda2",
            "newfs /dev/disk2",
            "newfs_hfs /dev/rdisk2s1",
        ],
    );
    refused(
        "wipe-disk",
        &[
            "diskutil eraseDisk JHFS+ X disk2",
            "diskutil quiet eraseVolume x y disk2s1",
            "diskutil partitionDisk disk2 GPT JHFS+ x 100%",
            "diskutil apfs deleteContainer disk2",
            "wipefs -a /dev/sda",
            "wipefs --all --force /dev/sda",
            "wipefs -fa /dev/sda",
            "wipefs -a $DISK",
            "sgdisk -z /dev/sda",
            "sgdisk -Z /dev/sda",
            "sgdisk -o /dev/sda",
            "sgdisk --zap-all /dev/sda",
            "sgdisk -og /dev/sda",
            "blkdiscard /dev/nvme0n1",
            "blkdiscard -f \"$disk\"",
            "shred -v /dev/sda",
            "shred -n 1 /dev/mapper/root",
        ],
    );
    refused(
        "write-disk",
        &[
            "dd if=/dev/zero of=/dev/sda",
            "dd of=/dev/sda if=x bs=1M",
            "sudo dd if=x of='/dev/nvme0n1'",
            "dd if=x of=//dev/./sda",
            "dd if=x of=/dev/sd$i",
            "echo x > /dev/sda",
            "echo x >/dev/sda",
            "cat x >> /dev/vda1",
            "cat x >| /dev/vda1",
            "cat x &> /dev/vda1",
            "cat x 1>/dev/xvda",
            "cat x <> /dev/hda",
            ": > \"/dev/mmcblk0\"",
            "exec 3>/dev/md0",
            "> /dev/dm-0",
            "x=1 > /dev/loop0",
            "(cat x) > /dev/nbd0",
            "while true; do echo; done > /dev/disk0",
            "{ cat x; } > /dev/rdisk1",
            "cat x > /dev/mapper/vg-root",
            "cat x > /dev/disk/by-id/ata-1",
            "cat x > /dev/disk/by-uuid/1-2",
        ],
    );
    passed(&[
        "mkfs.ext4 --help",
        "mkswap swapfile",
        "diskutil list",
        "diskutil info disk2",
        "wipefs /dev/sda",
        "wipefs -a disk.img",
        "wipefs -n -t ext4 /dev/sda",
        "sgdisk -p /dev/sda",
        "sgdisk -n1:0:+1G -c1:boot disk.img",
        "sgdisk -c1:boot /dev/sda",
        "shred secrets.txt",
        "dd if=/dev/sda of=image",
        "dd if=/dev/zero of=/dev/null count=1",
        "dd if=x of=./dev/sda",
        "echo x > /dev/null",
        "echo x 2>&1 >/dev/stderr",
        "cat /dev/sda | head -c 10",
        "cat < /dev/sda",
        "echo x > /dev/shm/sda",
        "ls > dev/sda",
        "[[ a > /dev/sda ]]",
        "man mkfs.ext4",
        "which mkfs.ext4",
    ]);
}

#[test]
fn fork_bombs_are_refused() {
    refused(
        "fork-bomb",
        &[
            ":(){ :|:& };:",
            ":() { : | : & } ; :",
            ":(){:;}; :(){ :|:& };:",
            "bomb() { bomb | bomb & }; bomb",
            "bomb()\n{\n  bomb | bomb &\n}\nbomb",
            "function f { f | f & }; f",
            "function f() { f & f & }; f",
            ":(){ :& :& };:",
            ":(){ :|:; };:",
            "f() ( f | f & ); f",
            "bash -c ':(){ :|:& };:'",
            ":(){ (:|:)& };:",
        ],
    );
    passed(&[
        "f() { echo hi; }; f | f",
        "walk() { for d in *; do walk \"$d\" & done; }; walk",
        "echo ':(){ :|:& };:'",
        "a | a &",
        "f() { g | h & }; f",
    ]);
}
