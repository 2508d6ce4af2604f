//! A filter of system calls (seccomp) for all threads of this process: only those that
//! [`calls`](super::calls) lists pass.
//!
//! Any other call fails as if the kernel lacked or refused it: an agent that makes an unforeseen call
//! continues and reports it, as on old kernels. Only a call by another architecture's table ends the process,
//! since the agent makes none. Programs that were started before are not under the filter.

use std::io;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, c_long, sock_filter,
};

use super::calls::{OLD, ONLY, Only, PLAIN};

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
/// From linux/audit.h.
#[cfg(target_arch = "x86_64")]
const HERE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const HERE: u32 = 0xc000_00b7;
/// Numbers from here on are x32's.
const X32: u32 = 0x4000_0000;
const CLONE_THREAD: u32 = libc::CLONE_THREAD.cast_unsigned();

/// Processes and users that some calls may name; with others the same calls are refused.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Processes that get signals, beside this one.
    pub processes: &'a [u32],
    /// The user and the group whose rights a thread may take for files.
    pub files: (u32, u32),
}

/// Restricts all threads of this process, and those that they start, to the listed calls.
///
/// # Errors
/// The kernel's error: it has no filters, or may set none here.
pub fn only_what_is_used(about: About<'_>) -> io::Result<()> {
    let program = program(std::process::id(), about);
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: takes no pointers. Ordinary users may set a filter only where no program can gain anything.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
    // SAFETY: the filter and its program live across the call, which copies them.
    let set =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) };
    match set {
        0 => Ok(()),
        // The ID of a thread that has another filter.
        1.. => Err(io::Error::other("a thread has another filter")),
        _ => Err(io::Error::last_os_error()),
    }
}

fn instruction(code: u32, value: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, offset)
}

/// Returns an instruction that continues if the loaded value is this one, else skips `skip` instructions.
fn unless(value: u32, skip: u8) -> sock_filter {
    sock_filter { jf: skip, ..instruction(BPF_JMP | BPF_JEQ | BPF_K, value) }
}

fn answer(what: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, what)
}

fn error(number: i32) -> sock_filter {
    answer(SECCOMP_RET_ERRNO | number.cast_unsigned())
}

fn number(call: c_long) -> u32 {
    call as u32
}

/// Passes this call if an argument has one of these values.
fn one_of(program: &mut Vec<sock_filter>, call: c_long, argument: u32, values: &[u32]) {
    let length = 2 + 2 * values.len();
    program.push(unless(number(call), length as u8));
    program.push(load(ARGUMENTS + 8 * argument));
    for &value in values {
        program.extend([unless(value, 1), answer(SECCOMP_RET_ALLOW)]);
    }
    program.push(error(libc::EPERM));
}

/// The filter's program for the process of this number.
fn program(own: u32, About { processes, files: (user, group) }: About<'_>) -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE),
        sock_filter { jt: 1, ..instruction(BPF_JMP | BPF_JEQ | BPF_K, HERE) },
        answer(SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
        sock_filter { jf: 1, ..instruction(BPF_JMP | BPF_JGE | BPF_K, X32) },
        answer(SECCOMP_RET_KILL_PROCESS),
    ];
    for &call in PLAIN.iter().chain(OLD) {
        program.extend([unless(number(call), 1), answer(SECCOMP_RET_ALLOW)]);
    }
    for &Only { call, argument, values } in ONLY {
        one_of(&mut program, call, argument, values);
    }
    // Signals to itself by the runtime, and the signals that are passed on.
    let targets: Vec<u32> = [own].iter().chain(processes).copied().collect();
    one_of(&mut program, libc::SYS_kill, 0, &targets);
    one_of(&mut program, libc::SYS_tgkill, 0, &[own]);
    // This number (-1) changes nothing; the call returns whose rights the thread has.
    one_of(&mut program, libc::SYS_setfsuid, 0, &[user, u32::MAX]);
    one_of(&mut program, libc::SYS_setfsgid, 0, &[group, u32::MAX]);
    // Limits of this process only.
    one_of(&mut program, libc::SYS_prlimit64, 0, &[0, own]);
    // Threads, not processes. clone3 hides its flags from filters: without it C libraries use clone.
    program.extend([
        unless(number(libc::SYS_clone), 5),
        load(ARGUMENTS),
        instruction(BPF_ALU | BPF_AND | BPF_K, CLONE_THREAD),
        unless(CLONE_THREAD, 1),
        answer(SECCOMP_RET_ALLOW),
        error(libc::EPERM),
    ]);
    program.push(error(libc::ENOSYS));
    program
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The kernel's answer, by an interpreter for the few instructions in use.
    fn judged(architecture: u32, call: u32, arguments: [u64; 6]) -> u32 {
        let program = program(7, About { processes: &[9], files: (1000, 100) });
        let word = |offset: u32| match offset {
            NUMBER => call,
            ARCHITECTURE => architecture,
            offset => arguments[((offset - ARGUMENTS) / 8) as usize] as u32,
        };
        let (mut at, mut loaded) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let jump = |is: bool| usize::from(if is { jt } else { jf });
            match u32::from(code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => loaded = word(k),
                code if code == BPF_ALU | BPF_AND | BPF_K => loaded &= k,
                code if code == BPF_JMP | BPF_JEQ | BPF_K => at += jump(loaded == k),
                code if code == BPF_JMP | BPF_JGE | BPF_K => at += jump(loaded >= k),
                code if code == BPF_RET | BPF_K => return k,
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    const NO: u32 = SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    const DENIED: u32 = SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    const YES: u32 = SECCOMP_RET_ALLOW;

    #[rstest]
    #[case::read(libc::SYS_read, 3, YES)]
    #[case::last_of_the_list(libc::SYS_perf_event_open, 0, YES)]
    #[case::execve(libc::SYS_execve, 0, NO)]
    #[case::execveat(libc::SYS_execveat, 0, NO)]
    #[case::ptrace(libc::SYS_ptrace, 0, NO)]
    #[case::mount(libc::SYS_mount, 0, NO)]
    #[case::setns(libc::SYS_setns, 0, NO)]
    #[case::unshare(libc::SYS_unshare, 0, NO)]
    #[case::module(libc::SYS_finit_module, 0, NO)]
    #[case::keys(libc::SYS_keyctl, 0, NO)]
    #[case::handles(libc::SYS_open_by_handle_at, 0, NO)]
    #[case::others_memory(libc::SYS_process_vm_writev, 0, NO)]
    #[case::rings(libc::SYS_io_uring_setup, 0, NO)]
    #[case::faults(libc::SYS_userfaultfd, 0, NO)]
    #[case::users(libc::SYS_setuid, 0, NO)]
    #[case::clone3(libc::SYS_clone3, 0, NO)]
    #[case::another_filter(libc::SYS_seccomp, 0, NO)]
    #[case::unknown(5000, 0, NO)]
    #[case::signal_to_itself(libc::SYS_kill, 7, YES)]
    #[case::signal_to_the_program(libc::SYS_kill, 9, YES)]
    #[case::signal_to_others(libc::SYS_kill, 10, DENIED)]
    #[case::signal_to_a_group(libc::SYS_kill, 0xffff_fff7, DENIED)]
    #[case::signal_to_all(libc::SYS_kill, u64::MAX, DENIED)]
    #[case::thread_signal(libc::SYS_tgkill, 7, YES)]
    #[case::thread_signal_to_others(libc::SYS_tgkill, 9, DENIED)]
    #[case::limits_of_others(libc::SYS_prlimit64, 9, DENIED)]
    #[case::thread(libc::SYS_clone, 0x3d_0f00, YES)]
    #[case::process(libc::SYS_clone, 0x11, DENIED)]
    #[case::map(libc::SYS_bpf, 1, YES)]
    #[case::link(libc::SYS_bpf, 28, YES)]
    #[case::another_program(libc::SYS_bpf, 5, DENIED)]
    #[case::programs_of_others(libc::SYS_bpf, 13, DENIED)]
    #[case::internet(libc::SYS_socket, 2, YES)]
    #[case::packets(libc::SYS_socket, 17, DENIED)]
    #[case::sockets_of_programs_here(libc::SYS_socket, 1, DENIED)]
    #[case::a_pair(libc::SYS_socketpair, 1, YES)]
    #[case::owners(libc::SYS_fchown, 3, NO)]
    #[case::files_as_the_user(libc::SYS_setfsuid, 1000, YES)]
    #[case::files_as_the_group(libc::SYS_setfsgid, 100, YES)]
    #[case::whose_files(libc::SYS_setfsuid, 0xffff_ffff, YES)]
    #[case::files_as_root(libc::SYS_setfsuid, 0, DENIED)]
    #[case::files_as_roots_group(libc::SYS_setfsgid, 0, DENIED)]
    #[case::files_as_the_groups_number(libc::SYS_setfsuid, 100, DENIED)]
    #[case::dumpable_again(libc::SYS_prctl, 4, DENIED)]
    #[case::thread_name(libc::SYS_prctl, 15, YES)]
    fn calls_pass_or_not(#[case] call: c_long, #[case] first: u64, #[case] expected: u32) {
        assert_eq!(judged(HERE, number(call), [first, 0, 0, 0, 0, 0]), expected);
    }

    #[rstest]
    #[case::window_size(0x5413, YES)]
    #[case::typing(0x5412, DENIED)]
    fn terminals_are_asked_and_not_typed_into(#[case] command: u64, #[case] expected: u32) {
        assert_eq!(judged(HERE, number(libc::SYS_ioctl), [1, command, 0, 0, 0, 0]), expected);
    }

    #[rstest]
    #[case::another_descriptor(libc::F_DUPFD_CLOEXEC, YES)]
    #[case::seals(libc::F_ADD_SEALS, YES)]
    #[case::locks(libc::F_SETLK, YES)]
    #[case::who_gets_signals(libc::F_SETOWN, DENIED)]
    #[case::which_thread_gets_signals(15, DENIED)]
    #[case::which_signal(10, DENIED)]
    #[case::leases(libc::F_SETLEASE, DENIED)]
    #[case::notices(libc::F_NOTIFY, DENIED)]
    fn descriptors_are_copied_and_signal_nobody(#[case] command: i32, #[case] expected: u32) {
        let arguments = [3, u64::from(command.cast_unsigned()), 0, 0, 0, 0];
        assert_eq!(judged(HERE, number(libc::SYS_fcntl), arguments), expected);
    }

    #[rstest]
    #[case::i386(0x4000_0003, 3)]
    #[case::x32(HERE, X32 + 1)]
    fn another_table_of_calls_ends_the_process(#[case] architecture: u32, #[case] call: u32) {
        assert_eq!(judged(architecture, call, [0; 6]), SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn no_rule_is_longer_than_a_jump() {
        assert!(ONLY.iter().all(|rule| u8::try_from(2 + 2 * rule.values.len()).is_ok()));
        assert!(program(1, About { processes: &[2, 3], files: (4, 5) }).len() <= 4096, "the kernel's limit");
    }
}
