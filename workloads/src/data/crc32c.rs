//! CRC-32C (Castagnoli), eight bytes at a time by tables: the checksum of TFRecord files. Yields the sum of
//! bytes. It uses no instruction that only some processors have: decoding a picture takes far longer than its
//! checksum.

/// The polynomial 0x1edc6f41, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Checksum of each byte, and of each byte with one to seven zeros after it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The sum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = u32::MAX;
    for word in words {
        let mixed = u64::from_le_bytes(*word) ^ u64::from(sum);
        sum = (0..8).fold(0, |sum, place| sum ^ TABLES[7 - place][(mixed >> (8 * place)) as usize & 0xff]);
    }
    for byte in rest {
        sum = (sum >> 8) ^ TABLES[0][(sum as u8 ^ byte) as usize];
    }
    !sum
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{POLYNOMIAL, crc32c};

    /// RFC 3720, appendix B.4, and the usual check value.
    #[rstest]
    #[case(&[0; 32], 0x8a91_36aa)]
    #[case(&[0xff; 32], 0x62a8_ab43)]
    #[case(b"123456789", 0xe306_9283)]
    #[case(b"", 0)]
    fn agrees_with_published_values(#[case] bytes: &[u8], #[case] expected: u32) {
        assert_eq!(crc32c(bytes), expected);
    }

    #[test]
    fn tables_do_what_bits_do() {
        let bytes: Vec<u8> = (0..100_u32).map(|number| (number * number / 7) as u8).collect();
        for length in 0..bytes.len() {
            let mut sum = u32::MAX;
            for byte in &bytes[..length] {
                sum ^= u32::from(*byte);
                for _ in 0..8 {
                    sum = (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
                }
            }
            assert_eq!(crc32c(&bytes[..length]), !sum, "{length}");
        }
    }
}
