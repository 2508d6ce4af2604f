//! Rows of one folder, taken over by another.

use super::{error::Result, reader::Folder, run_folder::RunFolder};

impl RunFolder {
    /// Appends the rows of a folder that lie in this time at least partly, CLOCK_MONOTONIC, ns.
    ///
    /// # Errors
    /// The first error of the reading; what was read before is appended.
    pub fn append_rows_of(&mut self, folder: &Folder, from_ns: u64, to_ns: u64) -> Result<()> {
        let is_within = |begin_ns: u64, end_ns: u64| begin_ns <= to_ns && end_ns >= from_ns;
        for request in folder.requests()? {
            let request = request?;
            let root = request.root();
            if is_within(root.start_ns, root.start_ns.saturating_add(root.duration_ns)) {
                self.append_request(&request);
            }
        }
        for wait in folder.waits()? {
            let wait = wait?;
            if is_within(wait.start_ns, wait.end_ns()) {
                self.append_wait(&wait);
            }
        }
        for thread in folder.threads()? {
            let thread = thread?;
            if is_within(thread.end_ns, thread.end_ns) {
                self.append_thread(&thread);
            }
        }
        for mark in folder.marks()? {
            let mark = mark?;
            if is_within(mark.time_ns, mark.time_ns) {
                self.append_mark(&mark);
            }
        }
        for sample in folder.samples()? {
            let sample = sample?;
            if is_within(sample.time_ns, sample.time_ns) {
                self.append_sample(&sample);
            }
        }
        for work in folder.gpu_work()?.into_iter().flatten() {
            let work = work?;
            if is_within(work.start_ns, work.end_ns) {
                self.append_gpu_work(&work);
            }
        }
        Ok(())
    }
}
