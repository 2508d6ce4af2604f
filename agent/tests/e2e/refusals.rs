//! Refusals of the agent, word by word: `error: what: value`, then `hint: next action`, exit code 2.
//!
//! A refused run leaves nothing behind. Texts are snapshots without this machine's paths.

use std::{io, os::unix::fs::PermissionsExt};

use insta::assert_snapshot;

use crate::{
    filter::{BPF_ALONE, refuse_calls},
    ground::Ground,
    mounts::{cover, in_private_mounts, tiny_disk},
    running::{Done, Start},
};

/// Capabilities by number.
const SYS_ADMIN: libc::c_ulong = 21;
const PERFMON: libc::c_ulong = 38;
const BPF: libc::c_ulong = 39;

/// Standard error of a run that must be refused, without the path of this test's folder.
pub(crate) fn refusal(ground: &Ground, start: Start) -> String {
    let done: Done = start.finish().expect(2);
    assert_eq!(done.stdout, "");
    let begun = std::fs::read_dir(ground.path("runs")).map_or(0, Iterator::count);
    assert_eq!(begun, 0, "a run folder was left behind");
    assert_eq!(ground.book(), "", "the program has run");
    done.stderr.replace(&ground.path("").display().to_string(), "FOLDER/")
}

#[test]
fn command_not_found() {
    let Some(ground) = Ground::new("refusals::command_not_found") else { return };
    assert_snapshot!(refusal(&ground, ground.run().program("no-such-program").word("x")), @r"
    error: command not found: `no-such-program`

    hint: give the program's path, or put its folder into PATH (sudo resets PATH)
    ");
    assert_snapshot!(refusal(&ground, ground.run().program("./no-such-program")), @r"
    error: command not found: `./no-such-program`

    hint: give the program's path, or put its folder into PATH (sudo resets PATH)
    ");
    assert_snapshot!(refusal(&ground, ground.run().program("")), @r"
    error: command not found: ``

    hint: give the program's path, or put its folder into PATH (sudo resets PATH)
    ");
}

#[test]
fn command_that_cannot_be_run() {
    let Some(ground) = Ground::new("refusals::command_that_cannot_be_run") else { return };
    let make = |name: &str, text: &str, mode: u32| {
        std::fs::write(ground.path(name), text).expect("the folder is ours");
        std::fs::set_permissions(ground.path(name), PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    make("plain.txt", "hello", 0o644);
    assert_snapshot!(refusal(&ground, ground.run().program("./plain.txt")), @r"
    error: command cannot be run: `./plain.txt`: permission denied

    hint: the file must be executable for the user that the program runs as
    ");
    assert_snapshot!(refusal(&ground, ground.run().program("/")), @r"
    error: command cannot be run: `/`: permission denied

    hint: the file must be executable for the user that the program runs as
    ");
    make("no-interpreter", "#!/no/such/interpreter\n", 0o755);
    assert_snapshot!(refusal(&ground, ground.run().program("./no-interpreter")), @r"
    error: command cannot be run: `./no-interpreter`: its interpreter or loader is missing: No such file or directory (os error 2)

    hint: the first line of a script, or `readelf -l` of a program, names what must be there
    ");
    make("garbage", "\u{1}\u{2}\u{3}", 0o755);
    assert_snapshot!(refusal(&ground, ground.run().program("./garbage")), @r"
    error: command cannot be run: `./garbage`: Exec format error (os error 8)

    hint: the file must be executable for the user that the program runs as
    ");
}

#[test]
fn wrong_arguments() {
    let Some(ground) = Ground::new("refusals::wrong_arguments") else { return };
    assert_snapshot!(refusal(&ground, ground.run()), @r"
    error: the following required arguments were not provided:
      <CMD>...

    Usage: guestscope run --json --output <DIR> -- <CMD>...

    For more information, try '--help'.
    ");
    assert_snapshot!(refusal(&ground, ground.run().words(&["--max-threads", "1"]).program("true")), @r"
    error: invalid value '1' for '--max-threads <N>': 1 is not in 8..=65535

    For more information, try '--help'.
    ");
    assert_snapshot!(refusal(&ground, ground.run().words(&["--max-threads", "100000"]).program("true")), @r"
    error: invalid value '100000' for '--max-threads <N>': 100000 is not in 8..=65535

    For more information, try '--help'.
    ");
}

#[test]
fn no_root() {
    let Some(ground) = Ground::new("refusals::no_root") else { return };
    let agent = ground.path("guestscope");
    // Other users may not be able to enter the build folder.
    std::fs::copy(ground.agent(), &agent).expect("the folder is ours");
    let start = Start::new(&ground.path(""), &agent).words(&["run", "--fidelity", "full"]).program("true");
    let start = start.before(|| {
        nix::unistd::setgroups(&[])?;
        nix::unistd::setgid(65_534.into())?;
        Ok(nix::unistd::setuid(65_534.into())?)
    });
    assert_snapshot!(refusal(&ground, start), @r"
    error: observing needs CAP_BPF and CAP_PERFMON

    hint: run it as root: sudo guestscope run -- CMD
    ");
}

/// Root without capabilities, as in an unprivileged container.
#[test]
fn root_without_capabilities() {
    let Some(ground) = Ground::new("refusals::root_without_capabilities") else { return };
    let without = |capabilities: &'static [libc::c_ulong]| {
        ground.run().words(&["--fidelity", "full"]).program("true").before(move || {
            for &capability in capabilities {
                // SAFETY: takes no pointers.
                if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability) } != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        })
    };
    assert_snapshot!(refusal(&ground, without(&[SYS_ADMIN, PERFMON, BPF])), @r"
    error: observing needs CAP_BPF and CAP_PERFMON

    hint: run it as root: sudo guestscope run -- CMD
    ");
    assert_snapshot!(refusal(&ground, without(&[SYS_ADMIN, PERFMON])), @r"
    error: observing needs CAP_PERFMON

    hint: run it as root: sudo guestscope run -- CMD
    ");
}

/// As the seccomp filter of a container engine refuses bpf(2).
#[test]
fn bpf_refused_by_a_seccomp_filter() {
    let Some(ground) = Ground::new("refusals::bpf_refused_by_a_seccomp_filter") else { return };
    let start =
        ground.run().words(&["--fidelity", "full"]).program("true").before(|| refuse_calls(BPF_ALONE));
    // The error names the map that was created first, which can be any.
    let said = refusal(&ground, start);
    let map = said.split('`').nth(1).unwrap_or_default();
    assert_snapshot!(said.replace(map, "SOME"), @r"
    error: the kernel refused the BPF object: map error: failed to create map `SOME`: Operation not permitted (os error 1)

    hint: `guestscope doctor` tells hook by hook what this kernel allows (lockdown, a container's seccomp filter or missing capabilities refuse BPF)
    ");
}

#[test]
fn no_btf() {
    let test = "refusals::no_btf";
    let Some(ground) = Ground::new(test) else { return };
    in_private_mounts(test, || {
        let empty = ground.path("empty");
        std::fs::write(&empty, "").expect("the folder is ours");
        cover("/sys/kernel/btf/vmlinux", &empty);
        assert_snapshot!(refusal(&ground, ground.run().program("true")), @r"
        error: BTF is damaged: no magic number (or of the other byte order)

        hint: this kernel is not like those that were tried; please report it with the output of `guestscope doctor`
        ");
        // Hides the formats of tracepoints as well, which the agent would use instead.
        for place in ["/sys/kernel/btf", "/sys/kernel/tracing", "/sys/kernel/debug"] {
            tiny_disk(place.as_ref(), 4096);
        }
        assert_snapshot!(refusal(&ground, ground.run().program("true")), @r"
        error: the kernel has no BTF, and the formats of tracepoints cannot be read: no tracefs at /sys/kernel/tracing or /sys/kernel/debug/tracing

        hint: mount it (`mount -t tracefs tracefs /sys/kernel/tracing`) for three accounts, or give the kernel's BTF with `--btf FILE` for all
        ");
        let doctor = ground.command(&["doctor", "--json"]).finish().expect(1);
        let doctor: serde_json::Value = serde_json::from_str(&doctor.stdout).expect("the doctor prints JSON");
        assert_eq!(doctor["fidelity"], "none");
        assert!(
            doctor["hooks"].as_array().expect("a list").iter().all(|hook| hook["outcome"] == "unsupported")
        );
    });
}

#[test]
fn output_that_cannot_be() {
    let Some(ground) = Ground::new("refusals::output_that_cannot_be") else { return };
    std::fs::write(ground.path("file"), "").expect("the folder is ours");
    let into = |output: &str| ground.command(&["run", "--output"]).word(ground.path(output)).program("true");
    assert_snapshot!(refusal(&ground, into("file")), @r"
    error: cannot create the run folder: FOLDER/file: Not a directory (os error 20)

    hint: name a directory that you may write to: --output DIR
    ");
    assert_snapshot!(refusal(&ground, into("file/below")), @r"
    error: cannot create the run folder: FOLDER/file: Not a directory (os error 20)

    hint: name a directory that you may write to: --output DIR
    ");
    let start = ground.command(&["run", "--output", "/proc/runs"]).program("true");
    assert_snapshot!(refusal(&ground, start), @r"
    error: cannot create the run folder: /proc/runs: No such file or directory (os error 2)

    hint: name a directory that you may write to: --output DIR
    ");
}

#[test]
fn bad_otlp_addresses() {
    let Some(ground) = Ground::new("refusals::bad_otlp_addresses") else { return };
    let to = |url: &str| refusal(&ground, ground.run().words(&["--otlp", url]).program("true"));
    assert_snapshot!(to("ftp://user:secret@collector:4317/x"), @r"
    error: not the URL of an OTLP collector (the scheme is neither http nor https): ftp://collector:4317

    hint: an endpoint looks like http://HOST:4317, https://HOST:4318 or HOST:4317
    ");
    assert_snapshot!(to("http://:4317"), @r"
    error: not the URL of an OTLP collector (no host): http://:4317

    hint: an endpoint looks like http://HOST:4317, https://HOST:4318 or HOST:4317
    ");
    assert_snapshot!(to("http://collector:99999"), @r"
    error: not the URL of an OTLP collector (no valid port): http://collector:99999

    hint: an endpoint looks like http://HOST:4317, https://HOST:4318 or HOST:4317
    ");
    assert_snapshot!(to(""), @r"
    error: not the URL of an OTLP collector (no valid host):

    hint: an endpoint looks like http://HOST:4317, https://HOST:4318 or HOST:4317
    ");
    let start =
        ground.run().program("true").environment("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317");
    assert_snapshot!(refusal(&ground, start.environment("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")), @r"
    error: unknown OTLP protocol: carrier-pigeon

    hint: set OTEL_EXPORTER_OTLP_PROTOCOL to grpc or http/protobuf
    ");
    let start =
        ground.run().program("true").environment("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:4317");
    assert_snapshot!(refusal(&ground, start.environment("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file.pem")), @r"
    error: cannot read the certificate or key (I/O error: No such file or directory (os error 2)): /no/such/file.pem

    hint: OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY name readable PEM files
    ");
}

#[test]
fn the_user_behind_sudo_is_unknown() {
    let Some(ground) = Ground::new("refusals::the_user_behind_sudo_is_unknown") else { return };
    let start =
        ground.run().program("true").environment("SUDO_UID", "4000000").environment("SUDO_GID", "4000000");
    assert_snapshot!(refusal(&ground, start), @r"
    error: the user who called sudo is unknown: 4000000

    hint: unset SUDO_UID and SUDO_GID to run the program as root
    ");
}
