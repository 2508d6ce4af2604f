//! Makes run folders to compare: `made_folders DIR RUNS REQUESTS`, half of them of a slower platform. For measuring.

mod made;

use made::Made;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, runs, requests] = words.as_slice() else { panic!("made_folders DIR RUNS REQUESTS") };
    let runs: u64 = runs.parse().expect("a number of runs");
    let requests: u64 = requests.parse().expect("a number of requests");
    for turn in 0..runs {
        let slow = turn % 2 == 1;
        let made = Made {
            scenario: if slow { "CN/2/VNL/CPU" } else { "BM/2/VNL/CPU" },
            runq_ns: if slow { 900_000 } else { 0 },
            throttled_ns: if slow { 23_000_000 } else { 0 },
            requests,
            ..Made::default()
        };
        made.write(directory.as_ref(), turn);
    }
}
