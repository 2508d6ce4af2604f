//! Kernels without their own BTF: fidelity `raw` from a BTF file (a copy of the running kernel's, which is
//! hidden), and fidelity `tracepoint` without one.

use guestscope::facts::btf::KERNEL_BTF;
use guestscope_contract::Account;
use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    ground::{Ground, subject},
    mounts::{in_private_mounts, tiny_disk},
    refusals::refusal,
};

/// A copy of the kernel's BTF in the test's folder.
fn copy(ground: &Ground) {
    std::fs::copy(KERNEL_BTF, ground.path("kernel.btf")).expect("this kernel has BTF");
}

/// Hides the kernel's BTF from programs that this thread starts from now on.
fn hide() {
    tiny_disk("/sys/kernel/btf".as_ref(), 4096);
}

#[test]
fn a_run_by_a_file_sees_what_is_to_be_seen() {
    let test = "btf::a_run_by_a_file_sees_what_is_to_be_seen";
    let Some(ground) = Ground::new(test) else { return };
    copy(&ground);
    in_private_mounts(test, || {
        hide();
        let start = ground.run().words(&["--btf", "kernel.btf"]).program(subject());
        let done = start.words(&["requests", "5", "1000", "2000"]).finish().expect(0);
        assert!(done.stderr.contains("  fidelity raw  "), "{}", done.stderr);
        let summary: Value = serde_json::from_str(&done.stdout).expect("the summary is JSON");
        assert_eq!(summary["fidelity"], "raw");
        let hooks = summary["hooks"].as_array().expect("a list");
        let named = |word: &str| hooks.iter().filter(|hook| hook["hook"].to_string().contains(word)).count();
        assert!(named("raw_tp/") > 5 && named("tp_btf/") == 0, "{hooks:?}");
        let seen = done.seen();
        assert_eq!(seen.manifest.fidelity, "raw");
        assert_eq!(seen.requests.len(), 5);
        for request in &seen.requests {
            let phase = request.root();
            assert!(phase.accounts.get(Account::Cpu) >= 1_000_000, "{phase:?}");
        }
        let process = &seen.processes[0];
        assert!(process.accounts.get(Account::Sleep) >= 5 * 2_000_000, "{process:?}");
    });
}

#[test]
fn a_run_without_any_btf_tells_three_accounts_apart() {
    let test = "btf::a_run_without_any_btf_tells_three_accounts_apart";
    let Some(ground) = Ground::new(test) else { return };
    in_private_mounts(test, || {
        hide();
        let start = ground.run_subject(&["requests", "5", "1000", "2000"]);
        let done = start.finish().expect(0);
        assert!(done.stderr.contains("  fidelity tracepoint  "), "{}", done.stderr);
        let summary: Value = serde_json::from_str(&done.stdout).expect("the summary is JSON");
        assert_eq!((&summary["fidelity"], &summary["requests"]), (&"tracepoint".into(), &5.into()));
        let seen = done.seen();
        assert_eq!(seen.manifest.fidelity, "tracepoint");
        assert_eq!(seen.requests.len(), 5);
        // Reading the folder has checked that the accounts of each row add up.
        for request in &seen.requests {
            assert!(request.root().accounts.get(Account::Cpu) >= 1_000_000, "{:?}", request.root());
        }
        let process = &seen.processes[0];
        assert!(process.accounts.get(Account::Other) >= 5 * 2_000_000, "it has slept: {process:?}");
        let told = [Account::Cpu, Account::Runq, Account::Other];
        let rest = Account::ALL.into_iter().filter(|account| !told.contains(account));
        assert_eq!(rest.map(|account| process.accounts.get(account)).sum::<u64>(), 0, "{process:?}");
        // The text names what cannot be distinguished.
        let start = ground.command(&["run", "--output", "told"]).program(subject());
        let text = start.words(&["requests", "1"]).finish().expect(0).stdout;
        assert!(text.contains("throttled is part of runq"), "{text}");
    });
}

#[test]
fn the_doctor_says_what_is_left_without_any_btf() {
    let test = "btf::the_doctor_says_what_is_left_without_any_btf";
    let Some(ground) = Ground::new(test) else { return };
    in_private_mounts(test, || {
        hide();
        let doctor = ground.command(&["doctor", "--json"]).finish().expect(1);
        let doctor: Value = serde_json::from_str(&doctor.stdout).expect("the doctor prints JSON");
        assert_eq!(doctor["fidelity"], "tracepoint");
        let hooks = doctor["hooks"].as_array().expect("a list");
        let of = |outcome: &str| hooks.iter().filter(|hook| hook["outcome"] == outcome).count();
        assert_eq!(of("ok") + of("unsupported"), hooks.len(), "{hooks:?}");
        let is_event = |hook: &Value| hook["hook"].as_str().is_some_and(|id| id.starts_with("tracepoint/"));
        assert!(hooks.iter().filter(|hook| is_event(hook)).all(|hook| hook["outcome"] == "ok"), "{hooks:?}");
        let text = ground.command(&["doctor"]).finish().expect(1).stdout;
        assert!(text.contains("--btf FILE"), "{text}");
    });
}

#[test]
fn the_doctor_says_what_a_file_makes_possible() {
    let test = "btf::the_doctor_says_what_a_file_makes_possible";
    let Some(ground) = Ground::new(test) else { return };
    copy(&ground);
    in_private_mounts(test, || {
        hide();
        let doctor = ground.command(&["doctor", "--json", "--btf", "kernel.btf"]).finish().expect(0);
        let doctor: Value = serde_json::from_str(&doctor.stdout).expect("the doctor prints JSON");
        assert_eq!(doctor["fidelity"], "raw");
        let unsupported: Vec<&str> = doctor["hooks"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|hook| hook["outcome"] == "unsupported")
            .filter_map(|hook| hook["hook"].as_str())
            .collect();
        assert_eq!(unsupported, ["iter/task"]);
        // Only the iterator finds running programs, and it needs the kernel's own BTF.
        let start = ground.command(&["attach", "--btf", "kernel.btf", "--pid", "1"]);
        assert_snapshot!(refusal(&ground, start), @r"
        error: attaching needs the task iterator: missing: threads that are already running, for `attach`: needs BTF of the kernel's own

        hint: task iterators need Linux 5.8 and BTF of the kernel's own; `guestscope run -- CMD` does without them, and `guestscope doctor` tells what else this kernel allows
        ");
    });
}

#[test]
fn files_that_are_no_btf_of_this_kernel() {
    let Some(ground) = Ground::new("btf::files_that_are_no_btf_of_this_kernel") else { return };
    let with = |file: &str| refusal(&ground, ground.run().words(&["--btf", file]).program("true"));
    std::fs::write(ground.path("garbage"), [b'x'; 10_000]).expect("the folder is ours");
    assert_snapshot!(with("garbage"), @r"
    error: cannot use the BTF file `garbage`: BTF is damaged: no magic number (or of the other byte order)

    hint: `--btf` takes raw BTF of exactly the running kernel (`uname -r`), as `pahole --btf_encode_detached FILE vmlinux` writes it and https://github.com/aquasecurity/btfhub-archive has it
    ");
    std::fs::write(ground.path("empty"), "").expect("the folder is ours");
    assert_snapshot!(with("empty"), @r"
    error: cannot use the BTF file `empty`: BTF is damaged: no magic number (or of the other byte order)

    hint: `--btf` takes raw BTF of exactly the running kernel (`uname -r`), as `pahole --btf_encode_detached FILE vmlinux` writes it and https://github.com/aquasecurity/btfhub-archive has it
    ");
    assert_snapshot!(with("missing"), @r"
    error: cannot use the BTF file `missing`: No such file or directory (os error 2)

    hint: `--btf` takes raw BTF of exactly the running kernel (`uname -r`), as `pahole --btf_encode_detached FILE vmlinux` writes it and https://github.com/aquasecurity/btfhub-archive has it
    ");
    assert_snapshot!(with("/dev/zero"), @r"
    error: cannot use the BTF file `/dev/zero`: not an ordinary file

    hint: `--btf` takes raw BTF of exactly the running kernel (`uname -r`), as `pahole --btf_encode_detached FILE vmlinux` writes it and https://github.com/aquasecurity/btfhub-archive has it
    ");
    // Valid BTF without the types that the programs need: a header, one type, no names.
    let word = u32::to_le_bytes;
    let header = [vec![0x9f, 0xeb, 1, 0], word(24).into(), word(0).into(), word(16).into()].concat();
    let body = [word(16), word(1), word(0), word(0x0100_0000), word(4), word(32)].concat();
    std::fs::write(ground.path("other"), [header, body, vec![0]].concat()).expect("the folder is ours");
    assert_snapshot!(with("other"), @r"
    error: cannot use the BTF file `other`: this kernel has no member: task_struct.pid

    hint: `--btf` takes raw BTF of exactly the running kernel (`uname -r`), as `pahole --btf_encode_detached FILE vmlinux` writes it and https://github.com/aquasecurity/btfhub-archive has it
    ");
    // BTF of a kernel in which two members are swapped.
    let mut btf = std::fs::read(KERNEL_BTF).expect("this kernel has BTF");
    let [files, stack] = ["files", "stack"].map(|name| {
        let text = format!("\0{name}\0");
        btf.windows(7).position(|window| window == text.as_bytes()).expect("it has the name") + 1
    });
    btf[files..files + 5].copy_from_slice(b"stack");
    btf[stack..stack + 5].copy_from_slice(b"files");
    std::fs::write(ground.path("foreign"), btf).expect("the folder is ours");
    assert_snapshot!(with("foreign"), @r"
    error: cannot use the BTF file `foreign`: it is of another kernel: the agent's own saved registers, open files are not where it says

    hint: `--btf` takes raw BTF of exactly the running kernel (`uname -r`), as `pahole --btf_encode_detached FILE vmlinux` writes it and https://github.com/aquasecurity/btfhub-archive has it
    ");
}
