//! Requests of a few milliseconds without end; one is slow whenever a file appears.

use std::{path::Path, time::Duration};

use super::{burn, note};

/// `spikes FILE`: each request computes for 200 us and sleeps for 2 ms. While FILE exists, the next one
/// sleeps for 400 ms and removes it. Notes each request's number, with `slow` before that of a slow one.
pub(crate) fn spikes(arguments: &[String]) {
    let [file] = arguments else { panic!("the test gives a file") };
    for number in 0.. {
        let is_slow = Path::new(file).exists();
        let request = guestscope_marker::request("request", number);
        {
            let _phase = guestscope_marker::phase("work");
            burn(Duration::from_micros(200));
        }
        {
            let _phase = guestscope_marker::phase("rest");
            std::thread::sleep(Duration::from_millis(if is_slow { 400 } else { 2 }));
        }
        drop(request);
        if is_slow {
            std::fs::remove_file(file).expect("the test made it");
        }
        note(&if is_slow { format!("slow {number}") } else { number.to_string() });
    }
}
