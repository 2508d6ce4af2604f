//! Places of a driver; what an NVML process may say, and that none of it is trusted.

use std::{ffi::OsString, fs, path::Path, time::Duration};

use super::{Driver, Gpus, News, library::find_in, process::NvmlProcess, record};
use crate::platform::Root;
use guestscope_nvml::{Device, Hello, Virtualization};

fn of(process: NvmlProcess) -> Gpus {
    Gpus { process: Some(process), cpu: Duration::ZERO }
}

fn touch(tree: &Path, path: &str) {
    let path = tree.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
}

#[test]
fn a_driver_is_found_by_its_library_or_its_device() {
    let tree = tempfile::tempdir().unwrap();
    let found = |named: Option<&str>| find_in(&Root::at(tree.path()), named.map(OsString::from));
    assert_eq!(found(None), None);
    assert_eq!(found(Some("")), None);
    touch(tree.path(), "dev/nvidiactl");
    assert_eq!(found(None).unwrap().library, "libnvidia-ml.so.1");
    touch(tree.path(), "usr/lib64/libnvidia-ml.so.1");
    assert_eq!(found(None).unwrap().library, "/usr/lib64/libnvidia-ml.so.1");
    assert_eq!(found(Some("/opt/x.so")).unwrap().library, "/opt/x.so");
    assert_eq!(found(Some("off")), None);
    // A home directory is among the places: its owner must not decide what root's NVML process runs.
    fs::remove_file(tree.path().join("usr/lib64/libnvidia-ml.so.1")).unwrap();
    touch(tree.path(), "home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1");
    assert_eq!(found(None).unwrap().library, "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1");
    if std::os::unix::fs::chown(tree.path().join("home/kubernetes"), Some(65_534), None).is_ok() {
        assert_eq!(found(None).unwrap().library, "libnvidia-ml.so.1");
    }
}

#[test]
fn what_a_driver_says_of_itself_is_cut_and_cleaned() {
    let device = Device {
        index: 3,
        name: Some(format!("\u{1b}[2J{}", "x".repeat(500))),
        virtualization: Some(Virtualization::HostVgpu),
        ..Device::default()
    };
    let hello = Hello { driver: Some("550\n".to_owned()), nvml: None, devices: vec![device] };
    let told = record(&hello);
    assert_eq!(told.driver.as_deref(), Some("550"));
    assert_eq!(told.devices[0].name, format!("[2J{}", "x".repeat(125)));
    assert_eq!((told.devices[0].index, told.devices[0].virtualization.as_deref()), (3, Some("host_vgpu")));
}

/// A repeated hello would be written to the manifest, and kept, each time.
#[tokio::test]
async fn it_introduces_itself_once_and_tells_of_what_it_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("process");
    let hello = "printf '{\"hello\":{\"devices\":[{\"index\":1}]}}\n'";
    let sample = "printf '{\"sample\":{\"at_ns\":1,\"took_ns\":1,\"device\":'$device'}}\n'";
    // More than any device shows, for longer than any driver waits.
    let used = r#"{"processes":{"at_ns":1,"over_ns":90000000000,"device":'$device',"list":["#;
    let used = format!(
        r#"printf '{used}{}{{"pid":7,"sm_percent":400}}]}}}}\n'"#,
        r#"{"pid":7,"sm_percent":1},"#.repeat(99)
    );
    let memory = r#"{"memory":{"at_ns":1,"device":'$device',"list":["#;
    let memory =
        format!(r#"printf '{memory}{}{{"pid":7,"bytes":9}}]}}}}\n'"#, r#"{"pid":7,"bytes":1},"#.repeat(99));
    let error = "printf '{\"error\":{\"at_ns\":1,\"device\":'$device',\"xid\":79}}\n'";
    let trouble = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf '{\"failed\":{\"what\":\"x\"}}\n'; done";
    let script = format!(
        "{hello}\n{hello}\nfor device in 0 1 4000000000; do {sample}; {used}; {memory}; {error}; done\n{trouble}\n"
    );
    fs::write(&path, script).unwrap();
    let mut gpus = of(NvmlProcess::of_script(&path, Duration::from_secs(20)).unwrap());
    let (mut known, mut devices, mut troubles) = (0, Vec::new(), 0);
    let (mut lists, mut held, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match gpus.next().await {
            News::Known(_) => known += 1,
            News::Reading(reading) => devices.push(reading.device),
            News::Processes(told) => lists.push((told.device, told.over_ns, told.list.len())),
            News::Memory(told) => held.push((told.device, told.list.len())),
            News::Error(error) => errors.push((error.device, error.xid)),
            News::Trouble(_) => troubles += 1,
            News::Over(_) => break,
        }
    }
    assert_eq!((known, devices, troubles), (1, vec![1], 8));
    assert_eq!(lists, [(1, 1_000_000_000, 64)]);
    assert_eq!(held, [(1, 64)]);
    assert_eq!(errors, [(1, Some(79))]);
}

/// Scripts in place of the NVML process.
#[tokio::test]
async fn whatever_a_helper_does_is_told_and_ends_nothing_else() {
    let long = format!("head -c {} /dev/zero", 2 << 20);
    let cases: &[(&str, &str)] = &[
        ("echo hello", "what it said makes no sense"),
        ("printf '{\"sample\":{\"device\":0}}\\n'", "what it said makes no sense"),
        (&long, "what it said makes no sense"),
        ("exit 3", "it does not start here (exit status: 3): it needs glibc 2.34"),
        ("printf '{\"hello\":{}}\\n'; exit 3", "it exited (exit status: 3)"),
        ("kill -SEGV $$", "it was ended by signal 11, inside the driver's library"),
        ("printf '{\"failed\":{\"what\":\"no \\\\u001bdriver\"}}\\n'; exit 1", "no driver"),
    ];
    for (script, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("process");
        fs::write(&path, script).unwrap();
        let mut gpus = of(NvmlProcess::of_script(&path, Duration::from_secs(20)).unwrap());
        let mut news = gpus.next().await;
        while let News::Trouble(_) | News::Known(_) = news {
            news = gpus.next().await;
        }
        assert_eq!(news, News::Over(Some((*expected).to_owned())), "{script}");
        let silence = tokio::time::timeout(Duration::from_millis(20), gpus.next()).await;
        assert!(silence.is_err(), "nothing comes after the end");
    }
}

#[tokio::test]
async fn a_helper_that_says_nothing_is_given_up_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("process");
    fs::write(&path, "echo $$ > \"$0.pid\"\nexec sleep 1000\n").unwrap();
    let process = NvmlProcess::of_script(&path, Duration::from_secs(3)).unwrap();
    let mut gpus = of(process);
    let News::Over(Some(why)) = gpus.next().await else { panic!("it said nothing") };
    assert_eq!(why, "it said nothing any more: the driver seems to hang");
    let pid: u32 = fs::read_to_string(folder.path().join("process.pid")).unwrap().trim().parse().unwrap();
    let gone = || fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
    // The kernel takes a moment to end a process.
    for _ in 0..1000 {
        if gone() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it lives on: {pid}");
}

/// 20,000 rounds of a shell take about 10 ms of CPU time.
#[tokio::test]
async fn what_a_helper_takes_is_known_and_stays_so_after_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("process");
    let rounds = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let hello = "printf '{\"hello\":{\"devices\":[{\"index\":1}]}}\n'";
    fs::write(&path, format!("{rounds}\n{hello}\nread -r line < \"$0.fifo\"\n{rounds}\n")).unwrap();
    nix::unistd::mkfifo(&folder.path().join("process.fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut gpus = of(NvmlProcess::of_script(&path, Duration::from_secs(20)).unwrap());
    assert!(matches!(gpus.next().await, News::Known(_)));
    let stat = fs::read_to_string(format!("/proc/{}/stat", gpus.pid().unwrap())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = |at: usize| fields.split_whitespace().nth(at).unwrap().parse::<u64>().unwrap();
    // User and system time, in ticks of 10 ms; both may be rounded down.
    let books = Duration::from_millis(10 * (ticks(11) + ticks(12)));
    let cpu = gpus.cpu();
    assert!(cpu > Duration::from_millis(1), "{cpu:?}");
    assert!(cpu >= books && cpu <= books + Duration::from_millis(40), "{cpu:?} {books:?}");
    fs::write(folder.path().join("process.fifo"), "\n").unwrap();
    assert!(matches!(gpus.next().await, News::Over(_)));
    assert!(gpus.cpu() > cpu + Duration::from_millis(1), "it worked on after that: {cpu:?} {:?}", gpus.cpu());
}

#[test]
fn no_driver_is_no_error() {
    assert!(Gpus::start(None).is_ok());
}

/// The NVML process itself, with a file that is no library: it says so.
#[tokio::test]
async fn a_library_that_cannot_be_loaded_is_named() {
    let driver = Driver { library: "/nowhere/libnvidia-ml.so.1".into(), evidence: String::new() };
    let mut gpus = Gpus::start(Some(&driver)).unwrap();
    loop {
        match gpus.next().await {
            News::Over(why) => {
                let why = why.unwrap();
                assert!(why.contains("/nowhere/libnvidia-ml.so.1"), "{why}");
                return;
            }
            News::Trouble(_) => {}
            News::Known(_) | News::Reading(_) | News::Processes(_) | News::Memory(_) | News::Error(_) => {
                panic!("there is nothing to tell")
            }
        }
    }
}
