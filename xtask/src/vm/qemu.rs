//! QEMU's command line for a guest: an ordinary machine (a PC, or arm64's `virt`), or a microVM, which has
//! neither PCI nor a PC's firmware. Yields a command; it starts nothing.

use std::{path::Path, process::Command, thread, time::Duration};

use super::{
    emulator::{RESULTS, SHARED, WORK, emulator},
    guest::{Guest, Machine, Model},
    matrix::{Architecture, Outside},
};

/// Time over which this machine's time stamp counter is measured, for an error of at most 10^-6.
const WATCHED: Duration = Duration::from_millis(200);

impl Guest<'_> {
    /// The complete command.
    pub(super) fn qemu(&self, initramfs: &Path, kernel_log: &Path) -> Command {
        let mut qemu = self.start(emulator(self.image.architecture).0);
        self.machine_words(&mut qemu);
        let (cpus, memory) = (self.cpus.to_string(), self.memory_mb.to_string());
        qemu.args(["-smp", &cpus, "-m", &memory, "-nodefaults", "-display", "none"]);
        if self.outside != Outside::Reboot {
            qemu.arg("-no-reboot");
        }
        qemu.arg("-kernel").arg(self.image.kernel()).arg("-initrd").arg(initramfs);
        qemu.args(["-append", &self.kernel_words()]);
        // Writes of a guest to this disk are dropped when it ends.
        self.disk(&mut qemu, WORK, &self.payload.disk, "snapshot=on");
        if let Some(disk) = self.results {
            self.disk(&mut qemu, RESULTS, disk, "snapshot=off");
        }
        if let Some(disk) = self.shared {
            self.disk(&mut qemu, SHARED, disk, "readonly=on");
        }
        // A restored guest appends to the log.
        let log = kernel_log.display().to_string().replace(',', ",,");
        qemu.args(["-chardev", &format!("file,id=kernel,append=on,path={log}"), "-serial", "chardev:kernel"]);
        qemu.args(match (self.image.architecture, self.model) {
            (Architecture::Amd64, Model::Usual) => ["-serial", "stdio"].as_slice(),
            // A microVM has one serial port; a second one gets the address that a PC uses.
            (Architecture::Amd64, Model::Micro) => &[
                "-chardev",
                "stdio,id=answers",
                "-device",
                "isa-serial,index=1,iobase=0x2f8,irq=3,chardev=answers",
            ],
            // This machine type has one serial port.
            (Architecture::Arm64, _) => {
                &["-chardev", "stdio,id=answers", "-device", "pci-serial,chardev=answers"]
            }
        });
        qemu
    }

    fn start(&self, emulator: &str) -> Command {
        let Some(cpus) = self.tied_to else { return Command::new(emulator) };
        let mut taskset = Command::new("taskset");
        taskset.args(["--cpu-list", cpus, emulator]);
        taskset
    }

    /// Options for the machine and the accelerator.
    fn machine_words(&self, qemu: &mut Command) {
        match (self.image.architecture, self.model) {
            (Architecture::Arm64, _) => qemu.args(["-machine", "virt"]),
            // Without ACPI it could neither find its disks nor turn itself off.
            (Architecture::Amd64, Model::Micro) => {
                qemu.args(["-machine", "microvm,acpi=on,isa-serial=on,rtc=on"])
            }
            (Architecture::Amd64, Model::Usual) => qemu,
        };
        qemu.args(match self.machine {
            Machine::Virtual => ["-accel", "kvm", "-cpu", "host"],
            // One thread for all CPUs: with a thread for each, kernels that rewrite their own code hang (6.1,
            // at the end of a tracepoint) or die (6.12, int3 in __schedule).
            Machine::Emulated => ["-accel", "tcg,thread=single", "-cpu", "max"],
        });
        if self.counts_time() {
            // With icount an instruction takes 2 ns of the guest's time, and idling takes none of ours:
            // whatever else runs on this machine, a guest's clocks show what its own CPUs did. Without it, a
            // turn of the other CPU is stolen time that no account shows.
            qemu.args(["-icount", "shift=1,sleep=off"]);
        }
    }

    fn kernel_words(&self) -> String {
        let console = match self.image.architecture {
            Architecture::Amd64 => "ttyS0",
            Architecture::Arm64 => "ttyAMA0",
        };
        // Otherwise a kernel with damaged memory goes on, and every later test waits for its limit (seen
        // once, on 6.12).
        let mut words = format!("console={console} oops=panic panic=-1");
        let is_emulated = self.machine == Machine::Emulated && self.image.architecture == Architecture::Amd64;
        if is_emulated && !self.counts_time() {
            // Otherwise Linux panics if its timer does not tick within some turns of a loop ("IO-APIC + timer
            // doesn't work"), which happens when the emulator waits for a CPU.
            words += " no_timer_check";
        }
        let is_blind = is_emulated && self.model == Model::Micro;
        if let Some(khz) = is_blind.then(counter_khz).flatten() {
            // A microVM has no clock of known rate with which Linux could calibrate its time stamp counter,
            // and hangs at its first tick. The emulator passes this machine's counter on.
            return format!("{words} tsc_early_khz={khz} tsc=reliable");
        }
        words
    }

    /// Whether its clocks count instructions.
    fn counts_time(&self) -> bool {
        self.machine == Machine::Emulated && self.is_timed && self.outside == Outside::Nothing
    }

    fn disk(&self, qemu: &mut Command, id: &str, file: &Path, mode: &str) {
        let bus = if self.model == Model::Micro { "virtio-blk-device" } else { "virtio-blk-pci" };
        qemu.arg("-drive").arg(drive(id, file, mode));
        qemu.args(["-device", &format!("{bus},drive={id},serial={id}")]);
    }
}

/// A comma in the file's name must be doubled.
fn drive(id: &str, disk: &Path, mode: &str) -> String {
    let file = disk.display().to_string().replace(',', ",,");
    format!("id={id},if=none,format=raw,{mode},file={file}")
}

/// Ticks of this machine's time stamp counter in a millisecond; none where there is no such counter.
#[cfg(target_arch = "x86_64")]
fn counter_khz() -> Option<u64> {
    use std::{arch::x86_64::_rdtsc, time::Instant};

    let now = || {
        // SAFETY: reads a counter that every processor of this architecture has, and nothing else.
        let ticks = unsafe { _rdtsc() };
        (ticks, Instant::now())
    };
    let before = now();
    thread::sleep(WATCHED);
    let after = now();
    let ticks = u128::from(after.0.wrapping_sub(before.0));
    u64::try_from(ticks * 1_000_000 / (after.1 - before.1).as_nanos()).ok()
}

/// Ticks of this machine's time stamp counter in a millisecond; none where there is no such counter.
#[cfg(not(target_arch = "x86_64"))]
fn counter_khz() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use rstest::rstest;

    use super::drive;
    use crate::vm::{
        debian::Image,
        guest::{Guest, Machine, Model},
        matrix::{Architecture, Outside},
        payload::Payload,
    };

    #[test]
    fn a_comma_does_not_end_a_name() {
        assert!(drive("work", Path::new("/a,b/c"), "snapshot=on").ends_with("snapshot=on,file=/a,,b/c"));
    }

    fn line(machine: Machine, model: Model) -> String {
        let image =
            Image { release: "6.12".to_owned(), architecture: Architecture::Amd64, folder: "/k".into() };
        let payload =
            Payload { init: PathBuf::new(), libraries: Vec::new(), disk: "/w".into(), here: PathBuf::new() };
        let guest = Guest {
            machine,
            model,
            cpus: 2,
            tied_to: Some("0-1"),
            results: Some(Path::new("/r")),
            shared: Some(Path::new("/s")),
            ..Guest::plain(&image, &payload, "lab")
        };
        assert_eq!(guest.outside, Outside::Nothing, "it ends when its kernel does");
        let command = guest.qemu(Path::new("/i"), Path::new("/l"));
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[rstest]
    #[case(Machine::Virtual, Model::Usual, "virtio-blk-pci,drive=shared,serial=shared", false)]
    #[case(Machine::Virtual, Model::Micro, "virtio-blk-device,drive=shared,serial=shared", false)]
    #[case(Machine::Emulated, Model::Usual, "virtio-blk-pci,drive=work,serial=work", false)]
    #[case(Machine::Emulated, Model::Micro, "virtio-blk-device,drive=work,serial=work", true)]
    fn each_machine_gets_its_disks_and_its_clock(
        #[case] machine: Machine,
        #[case] model: Model,
        #[case] disk: &str,
        #[case] is_told_its_rate: bool,
    ) {
        let line = line(machine, model);
        assert!(line.starts_with("taskset --cpu-list 0-1 qemu-system-x86_64 "), "{line}");
        assert!(
            line.contains(" -no-reboot ") && line.contains(disk) && line.contains("readonly=on,file=/s"),
            "{line}"
        );
        assert_eq!(line.contains("-machine microvm,"), model == Model::Micro, "{line}");
        assert_eq!(line.contains("tsc_early_khz="), is_told_its_rate, "{line}");
        assert_eq!(line.contains("no_timer_check"), machine == Machine::Emulated, "{line}");
    }
}
