//! Readings of graphics processors on their way to the folder and the export.

use super::{Session, record_source::RecordSource};
use crate::{folder::GpuRecord, gpu::News, out};

impl<F: RecordSource> Session<F> {
    /// Keeps a reading.
    pub(crate) fn gpu(&mut self, news: News) {
        match news {
            News::Reading(reading) => {
                let has_requests = self.feed.pairing().has_requests();
                return self.graphics.add(reading, has_requests);
            }
            News::Processes(told) => return self.graphics.used(&told),
            News::Memory(told) => return self.graphics.held(&told),
            News::Error(error) => self.graphics.failed(&error),
            News::Known(hello) => self.graphics.known(&hello),
            News::Trouble(what) => out::say(&format!("warning: graphics processors: {what}\n")),
            News::Over(why) => why.iter().for_each(|why| self.graphics.over(why)),
        }
        self.export.gpu(self.gpu_record());
    }

    /// Devices, and what was asked of them.
    pub(crate) fn gpu_record(&self) -> GpuRecord {
        GpuRecord { trace: self.traces.record(), ..self.graphics.record() }
    }

    /// Hands over rows read since the last call.
    pub(crate) fn gpu_rows(&mut self) {
        self.export.samples(self.graphics.take_rows());
    }
}
