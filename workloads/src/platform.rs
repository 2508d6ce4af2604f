//! On what a workload runs, as far as it decides that itself: the device, libtorch's threads between
//! operators, the CPUs of its threads, and a second job beside it. Yields options, and what of them goes into
//! guestscope's manifest. It measures nothing.

use std::{
    ffi::OsString,
    fmt,
    str::FromStr,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Instant,
};

use clap::{Args, ValueEnum, value_parser};
use serde::Serialize;

use crate::{
    beside,
    child::{Child, ChildError, LOOK_EVERY},
    error::Error,
    pin::{self, Pin},
    started,
};

/// Time that the second job has to end once it is asked to, seconds.
const PARTING_S: u64 = 10;
/// Time until its first step must begin, seconds: making AlexNet's parameters takes seconds on a busy
/// machine.
const BEGIN_S: u64 = 120;
/// Name of the second job in messages.
const BESIDE: &str = "the job beside";

/// Device of all tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    #[default]
    Cpu,
    /// The graphics processor of that number.
    Cuda(usize),
    /// The first graphics processor if there is one, else the CPU.
    Auto,
}

/// Error: the text names no device.
#[derive(Debug, thiserror::Error)]
#[error("a device is cpu, cuda, cuda:N or auto")]
pub struct NoDevice;

impl FromStr for Device {
    type Err = NoDevice;

    fn from_str(text: &str) -> Result<Self, NoDevice> {
        match (text, text.strip_prefix("cuda:")) {
            ("cpu", _) => Ok(Self::Cpu),
            ("auto", _) => Ok(Self::Auto),
            ("cuda", _) => Ok(Self::Cuda(0)),
            (_, Some(number)) => number.parse().map(Self::Cuda).map_err(|_| NoDevice),
            _ => Err(NoDevice),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// Where the memory lies from which inputs are copied to a graphics processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum InputMemory {
    /// As it was allocated: a thread copies it for the GPU
    #[default]
    Pageable,
    /// Page-locked, as with PyTorch's `pin_memory`: the GPU copies it by itself
    Pinned,
}

impl InputMemory {
    /// As the command line and the manifest have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pageable => "pageable",
            Self::Pinned => "pinned",
        }
    }
}

/// Options of workloads with libtorch.
#[derive(Clone, Debug, Default, Args)]
pub struct TorchOptions {
    /// Where libtorch computes: cpu, cuda, cuda:N, or auto for the first GPU if there is one [default: cpu]
    #[arg(long, value_name = "DEVICE", help_heading = "Machine")]
    pub device: Option<Device>,
    /// Threads of libtorch between operators [default: 1]
    #[arg(long, value_name = "T", value_parser = value_parser!(u32).range(1..=4096), help_heading = "Machine")]
    pub interop_threads: Option<u32>,
    /// Where the inputs lie that are copied to a GPU [default: pageable]
    #[arg(long, value_enum, value_name = "MEMORY", help_heading = "Machine")]
    pub input_memory: Option<InputMemory>,
    /// Let threads sleep while they wait for the GPU; by itself CUDA has them ask again and again
    #[arg(long, help_heading = "Machine")]
    pub blocking_sync: bool,
}

impl TorchOptions {
    /// The options that the user gave.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self { device, interop_threads, .. } = self;
        let all = [("--device", device.is_some()), ("--interop-threads", interop_threads.is_some())];
        all.into_iter()
            .filter(|(_, is_given)| *is_given)
            .map(|(option, _)| option)
            .chain(self.given_of_gpus())
    }

    /// Those of them that mean something on a graphics processor alone.
    fn given_of_gpus(&self) -> impl Iterator<Item = &'static str> + use<> {
        let all = [("--input-memory", self.input_memory.is_some()), ("--blocking-sync", self.blocking_sync)];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// Refuses options of graphics processors where none can take part; with `auto` they count if one does.
    fn check(&self) -> Result<(), Error> {
        let is_cpu = self.device.unwrap_or_default() == Device::Cpu;
        match self.given_of_gpus().next() {
            Some(option) if is_cpu => Err(Error::NoGpu { option }),
            _ => Ok(()),
        }
    }

    /// The same options as words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let Self { device, interop_threads, input_memory, blocking_sync } = self;
        let values = [
            ("--device", device.map(|device| device.to_string())),
            ("--interop-threads", interop_threads.map(|threads| threads.to_string())),
            ("--input-memory", input_memory.map(|memory| memory.name().to_owned())),
        ];
        let mut words = Vec::new();
        for (name, value) in values {
            words.extend(value.into_iter().flat_map(|value| [OsString::from(name), OsString::from(value)]));
        }
        words.extend(blocking_sync.then(|| OsString::from("--blocking-sync")));
        words
    }
}

/// Options of every workload.
#[derive(Clone, Debug, Default, Args)]
pub struct MachineOptions {
    /// Let threads run on these CPUs only: a list like 0-3,8, or as many as threads (spread:N: so many),
    /// spread over cores, caches and sockets or compact in few
    #[arg(long, value_name = "LIST|spread[:N]|compact[:N]", help_heading = "Machine")]
    pub pin: Option<Pin>,
    /// Run a second job of this program at the same time, like "train alexnet --batch 512"; it is ended with
    /// this one
    #[arg(long, value_name = "COMMAND", help_heading = "Machine")]
    pub beside: Option<String>,
}

/// The platform options that the user gave, and their effect, for guestscope's manifest.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Asked {
    /// The device in use: `auto` would not tell two runs apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interop_threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_memory: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    blocking_sync: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pin: Option<String>,
    /// The CPUs that the process was pinned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned_cpus: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<String>,
}

/// A workload's platform, with its second job, which is killed when this is dropped.
#[derive(Debug, Default)]
pub struct Platform {
    /// Options and their effect, for the manifest.
    pub asked: Asked,
    beside: Option<Child>,
}

impl Platform {
    /// Starts the second job, waits for its first step, then pins this process. `threads` is the number that
    /// the user chose; `check` gives what is wrong with the words of a command.
    pub fn new(
        machine: &MachineOptions,
        torch: Option<&TorchOptions>,
        threads: Option<u32>,
        check: impl FnOnce(&[OsString]) -> Result<(), String>,
    ) -> Result<Self, Error> {
        if let Some(torch) = torch {
            torch.check()?;
        }
        let mut platform = Self::default();
        if let Some(command) = &machine.beside {
            let wrong = |reason| Error::Beside { command: command.clone(), reason };
            let words = words(command).ok_or_else(|| wrong("a quotation mark is never closed".to_owned()))?;
            check(&words).map_err(wrong)?;
            // Before this process is pinned, since a child inherits the affinity.
            platform.beside = Some(start(&words)?);
            platform.asked.beside = Some(command.clone());
        }
        if let Some(pin) = &machine.pin {
            let cpus = pin::apply(pin, threads)?;
            platform.asked.pin = Some(pin.to_string());
            platform.asked.pinned_cpus = Some(cpus.to_string());
        }
        if let Some(torch) = torch {
            let became = set_up(torch)?;
            let on_gpu = became != Device::Cpu;
            let asked = &mut platform.asked;
            asked.interop_threads = torch.interop_threads;
            asked.input_memory = torch.input_memory.filter(|_| on_gpu).map(InputMemory::name);
            asked.blocking_sync = torch.blocking_sync && on_gpu;
            asked.device = torch.device.map(|_| became.to_string());
        }
        Ok(platform)
    }

    /// Ends the second job. Fails if that had failed; gives a warning if it was done before this one.
    pub fn end(self) -> Result<Option<String>, Error> {
        let Some(mut beside) = self.beside else { return Ok(None) };
        match beside.look()? {
            Some(status) if status.success() => {
                Ok(Some(format!("{BESIDE} was done before this one: give it more --steps or --requests")))
            }
            Some(status) => Err(beside.failed(status).into()),
            None => Ok(stop(&mut beside)?),
        }
    }
}

/// Starts the second job, and waits until its first step begins. If it ends before that, this is an error.
fn start(words: &[OsString]) -> Result<Child, ChildError> {
    let begin = Instant::now();
    let (lines, heard) = channel();
    let mut command = Child::own(BESIDE)?;
    command.env(beside::MARK, "1");
    let mut beside = Child::start_by(command, BESIDE, words, Some(lines))?;
    loop {
        match heard.recv_timeout(LOOK_EVERY) {
            Ok(line) if line == started::LINE => return Ok(beside),
            Err(RecvTimeoutError::Disconnected) if let Some(status) = beside.look()? => {
                return Err(beside.failed(status));
            }
            Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK_EVERY),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
        if begin.elapsed().as_secs() >= BEGIN_S {
            let how = format!("its first step has not begun within {BEGIN_S} s");
            return Err(ChildError::Ended { name: BESIDE.to_owned(), how });
        }
    }
}

/// Asks the second job to end. If it does not in time, it is killed when it is dropped.
fn stop(beside: &mut Child) -> Result<Option<String>, ChildError> {
    let start = Instant::now();
    beside.ask_to_end();
    while beside.look()?.is_none() && start.elapsed().as_secs() < PARTING_S {
        thread::sleep(LOOK_EVERY);
    }
    Ok(None)
}

/// Sets libtorch up. Gives the device in use.
#[cfg(feature = "torch")]
fn set_up(torch: &TorchOptions) -> Result<Device, Error> {
    use crate::{libtorch, memory};

    libtorch::set_interop_threads(torch.interop_threads.unwrap_or(1));
    libtorch::set_device(torch)?;
    let became = match libtorch::device() {
        tch::Device::Cuda(number) => Device::Cuda(number),
        tch::Device::Cpu | tch::Device::Mps | tch::Device::Vulkan => Device::Cpu,
    };
    // Only on a CPU: the driver of a graphics processor maps more memory than it ever uses.
    if became == Device::Cpu {
        memory::refuse_more_than_available();
    }
    Ok(became)
}

#[cfg(not(feature = "torch"))]
#[expect(clippy::unnecessary_wraps, reason = "with libtorch it can fail")]
fn set_up(torch: &TorchOptions) -> Result<Device, Error> {
    Ok(torch.device.unwrap_or_default())
}

/// Splits a command line into words; quotation marks hold words with blanks together. None if a quotation
/// mark is never closed.
pub fn words(text: &str) -> Option<Vec<OsString>> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in text.chars() {
        match quote {
            Some(mark) if letter == mark => quote = None,
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => all.extend(word.take()),
            Some(_) | None => word.get_or_insert_default().push(letter),
        }
    }
    all.extend(word);
    quote.is_none().then(|| all.into_iter().map(OsString::from).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Device, InputMemory, TorchOptions, words};

    #[rstest]
    #[case("train alexnet --batch 512", Some("train|alexnet|--batch|512"))]
    #[case(" a  'b c' \"d's\" '' ", Some("a|b c|d's|"))]
    #[case("a 'b", None)]
    #[case(" a ", Some("a"))]
    fn a_command_has_words(#[case] text: &str, #[case] expected: Option<&str>) {
        let expected = expected.map(|all| all.split('|').map(Into::into).collect());
        assert_eq!(words(text), expected);
    }

    #[rstest]
    #[case("cpu", Some(Device::Cpu))]
    #[case("cuda", Some(Device::Cuda(0)))]
    #[case("cuda:3", Some(Device::Cuda(3)))]
    #[case("auto", Some(Device::Auto))]
    #[case("cuda:", None)]
    #[case("gpu", None)]
    fn a_device_is_read_as_libtorch_writes_it(#[case] text: &str, #[case] expected: Option<Device>) {
        assert_eq!(text.parse::<Device>().ok(), expected);
    }

    fn on(device: Option<Device>) -> TorchOptions {
        let input_memory = Some(InputMemory::Pinned);
        TorchOptions { device, input_memory, blocking_sync: true, interop_threads: Some(2) }
    }

    #[test]
    fn a_part_of_a_job_gets_all_options_of_the_job() {
        let words = |options: &TorchOptions| {
            let words = options.words();
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words(&on(Some(Device::Cuda(1)))),
            "--device cuda:1 --interop-threads 2 --input-memory pinned --blocking-sync"
        );
        assert_eq!(words(&TorchOptions::default()), "");
        let given: Vec<_> = on(None).given().collect();
        assert_eq!(given, ["--interop-threads", "--input-memory", "--blocking-sync"]);
    }

    #[rstest]
    #[case(None, Some("--input-memory"))]
    #[case(Some(Device::Cpu), Some("--input-memory"))]
    #[case(Some(Device::Auto), None)]
    #[case(Some(Device::Cuda(0)), None)]
    fn options_of_gpus_need_one(#[case] device: Option<Device>, #[case] refused: Option<&str>) {
        let expected =
            refused.map(|option| format!("no graphics processor takes part, so there is no use of {option}"));
        assert_eq!(on(device).check().err().map(|error| error.to_string()), expected);
        assert!(TorchOptions { device, ..TorchOptions::default() }.check().is_ok());
    }
}
