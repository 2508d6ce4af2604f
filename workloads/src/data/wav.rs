//! WAV files of one channel of 16-bit numbers at 16 kHz, the input of the study's speech recognition. Yields
//! samples between -1 and 1. It converts no other rate or format.

/// Samples per second.
pub const RATE: u32 = 16_000;
/// Bytes of a sample.
const WIDTH: u32 = 2;
/// Format code in the header: uncompressed numbers.
const PCM: u16 = 1;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WavError {
    #[error("it is no WAV file")]
    NotWav,
    #[error("it is cut off")]
    CutOff,
    #[error(
        "{channels} channels of {bits} bits at {rate} Hz, format {format}, instead of 1 of 16 at 16000, format 1"
    )]
    Format { format: u16, channels: u16, rate: u32, bits: u16 },
}

/// A file of these samples.
pub fn write(samples: &[i16]) -> Vec<u8> {
    let bytes = samples.len() as u32 * WIDTH;
    let mut file = Vec::with_capacity(44 + bytes as usize);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + bytes).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    file.extend_from_slice(&PCM.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&RATE.to_le_bytes());
    file.extend_from_slice(&(RATE * WIDTH).to_le_bytes());
    file.extend_from_slice(&(WIDTH as u16).to_le_bytes());
    file.extend_from_slice(&16_u16.to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&bytes.to_le_bytes());
    for sample in samples {
        file.extend_from_slice(&sample.to_le_bytes());
    }
    file
}

/// The samples of a file, each divided by 32768.
pub fn read(file: &[u8]) -> Result<Vec<f32>, WavError> {
    let [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', rest @ ..] = file else {
        return Err(WavError::NotWav);
    };
    let mut rest = rest;
    let mut is_known = false;
    while let Some((head, behind)) = rest.split_first_chunk::<8>() {
        let [a, b, c, d, length @ ..] = *head;
        let length = u32::from_le_bytes(length) as usize;
        let content = behind.get(..length).ok_or(WavError::CutOff)?;
        match &[a, b, c, d] {
            b"fmt " => {
                check(content)?;
                is_known = true;
            }
            b"data" if is_known => {
                let samples = content.chunks_exact(WIDTH as usize);
                return Ok(samples
                    .map(|bytes| f32::from(i16::from_le_bytes([bytes[0], bytes[1]])) / 32_768.0)
                    .collect());
            }
            // Other chunks, such as metadata.
            _ => {}
        }
        // A chunk of odd length is padded.
        rest = behind.get(length + length % 2..).unwrap_or_default();
    }
    Err(WavError::CutOff)
}

fn check(header: &[u8]) -> Result<(), WavError> {
    let header: &[u8; 16] = header.first_chunk().ok_or(WavError::CutOff)?;
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let (format, channels, bits) = (short(0), short(2), short(14));
    let rate = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if (format, channels, bits, rate) == (PCM, 1, 16, RATE) {
        return Ok(());
    }
    Err(WavError::Format { format, channels, rate, bits })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{WavError, read, write};

    proptest! {
        #[test]
        fn what_is_written_is_read(samples in prop::collection::vec(any::<i16>(), 0..400)) {
            let expected: Vec<f32> = samples.iter().map(|sample| f32::from(*sample) / 32768.0).collect();
            prop_assert_eq!(read(&write(&samples)).unwrap(), expected);
        }

        #[test]
        fn anything_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100), keep in 0_usize..80) {
            let mut file = write(&[1, 2, 3]);
            file.truncate(keep);
            file.extend(bytes);
            let _ = read(&file);
        }
    }

    #[test]
    fn other_chunks_are_passed_over() {
        let file = write(&[-32768, 16384]);
        let (head, data) = file.split_at(36);
        let with_title = [head, b"LIST\x03\0\0\0abc\0", data].concat();
        assert_eq!(read(&with_title).unwrap(), [-1.0, 0.5]);
    }

    #[test]
    fn what_it_is_not_is_said() {
        let file = write(&[1, 2, 3]);
        assert_eq!(read(b"OggS"), Err(WavError::NotWav));
        assert_eq!(read(&file[..46]), Err(WavError::CutOff));
        let mut stereo = file;
        stereo[22] = 2;
        assert_eq!(
            read(&stereo).unwrap_err().to_string(),
            "2 channels of 16 bits at 16000 Hz, format 1, instead of 1 of 16 at 16000, format 1"
        );
    }
}
