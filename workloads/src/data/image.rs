//! From the bytes of a JPEG file to the input of an ImageNet model: decode, resize the short side to 256
//! (bilinear, antialiased), crop the central 224 x 224, subtract the mean and divide by the deviation,
//! channels first. Each step matches torchvision's `Resize(256)`, `CenterCrop(224)`, `ToTensor`, `Normalize`
//! on a Pillow image. It opens no file and ignores EXIF orientation, as torchvision does.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fast_image_resize::{
    FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer,
    images::{Image, ImageRef},
};
use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

use crate::{
    infer::sizing::Scale,
    memory::{self, NoRoom},
};

/// Pixels of the short side after resizing.
pub const SHORT_SIDE: u32 = 256;
/// Pixels of each side of the model's input.
pub const CROP: u32 = 224;
/// Numbers per picture: three channels.
pub const VALUES: usize = 3 * (CROP * CROP) as usize;
/// Largest ratio of the long side to the short one: 1 x 16,384 pixels would be 3 GB at a short side of 256.
const MOST_RATIO: u32 = 64;
/// Pixels (width x height) above which Pillow refuses to decode by default (twice `Image.MAX_IMAGE_PIXELS`).
const MOST_PIXELS: u64 = 178_956_970;
/// Bytes that decoding takes per pixel: three of the result, and in a progressive file up to four 16-bit
/// numbers.
const PIXEL_BYTES: u64 = 11;
/// Pixels decoded without checking free memory (at most 176 MB): the check takes as long as a small picture.
const FEW_PIXELS: u64 = 16_000_000;
/// Product of all strides of an ImageNet model: its last maps are that much smaller than the picture.
const STRIDES: i64 = 32;
/// Goes up when the same file gives different numbers than before.
pub const PREPARATION_VERSION: u64 = 1;

/// ImageNet's mean and deviation per channel, of values from 0 to 1 (torchvision's reference transforms).
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// Decoder over the bytes of a file.
pub type Decoder<'j> = JpegDecoder<ZCursor<&'j [u8]>>;

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("not a JPEG that can be decoded: {0}")]
    Decode(String),
    #[error("cannot be resized: {0}")]
    Resize(String),
    #[error("too long and thin: {width} x {height} pixels")]
    Thin { width: u32, height: u32 },
    #[error("too large: {width} x {height} pixels")]
    Large { width: usize, height: usize },
    #[error(transparent)]
    Memory(#[from] NoRoom),
}

impl ImageError {
    /// The reason why this picture cannot be used, or an error if none can: the machine is short of memory.
    pub fn of_picture(self) -> Result<String, NoRoom> {
        match self {
            Self::Memory(error) => Err(error),
            Self::Decode(_) | Self::Resize(_) | Self::Thin { .. } | Self::Large { .. } => {
                Ok(self.to_string())
            }
        }
    }
}

/// How large a picture becomes, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The short side after resizing.
    pub short_side: u32,
    /// Each side of the central crop.
    pub crop: u32,
}

impl Frame {
    /// The frame of most ImageNet models.
    pub const USUAL: Self = Self { short_side: SHORT_SIDE, crop: CROP };
    /// The frame of Inception v3, as in torchvision's recipe.
    pub const INCEPTION: Self = Self { short_side: 342, crop: 299 };

    /// A smaller frame, cropped in the same proportion; its crop is a multiple of `STRIDES`.
    #[must_use]
    pub fn scaled(self, scale: Scale) -> Self {
        let crop = scale.of(i64::from(self.crop), STRIDES) as u32;
        Self { short_side: self.short_side * crop / self.crop, crop }
    }

    /// Numbers per picture: three channels.
    pub fn values(self) -> usize {
        3 * (self.crop * self.crop) as usize
    }

    /// The short side as given; the long one keeps the ratio, rounded down as torchvision does.
    fn resized(self, width: u32, height: u32) -> (u32, u32) {
        let scaled = |long: u32, short: u32| {
            let long = u64::from(self.short_side) * u64::from(long) / u64::from(short.max(1));
            long.min(u64::from(u32::MAX)) as u32
        };
        if width <= height {
            (self.short_side, scaled(height, width))
        } else {
            (scaled(width, height), self.short_side)
        }
    }

    /// Start of the crop: half of what is left over, rounded to even, since torchvision uses Python's
    /// `round`.
    fn offset(self, length: u32) -> u32 {
        let spare = length.saturating_sub(self.crop);
        let half = spare / 2;
        if spare % 2 == 1 && half % 2 == 1 { half + 1 } else { half }
    }
}

/// Prepares one picture after the other; keeps its buffers and tables.
pub struct Preparer {
    frame: Frame,
    resizer: Resizer,
    options: ResizeOptions,
    resized: Image<'static>,
    /// Per channel, what each of the 256 byte values becomes.
    normalised: [[f32; 256]; 3],
}

impl Default for Preparer {
    fn default() -> Self {
        Self::new(Frame::USUAL)
    }
}

impl Preparer {
    pub fn new(frame: Frame) -> Self {
        let filter = ResizeAlg::Convolution(FilterType::Bilinear);
        Self {
            frame,
            resizer: Resizer::new(),
            options: ResizeOptions::new().resize_alg(filter).use_alpha(false),
            resized: Image::new(frame.short_side, frame.short_side, PixelType::U8x3),
            normalised: std::array::from_fn(|channel| {
                std::array::from_fn(|byte| (byte as f32 / 255.0 - MEAN[channel]) / DEVIATION[channel])
            }),
        }
    }

    /// Fills `values` (as many as the frame has: red plane, green plane, blue plane).
    pub fn prepare(&mut self, jpeg: &[u8], values: &mut [f32]) -> Result<(), ImageError> {
        let (rgb, width, height) = decode(jpeg)?;
        self.prepare_rgb(&rgb, width, height, values)
    }

    /// The part after decoding. `rgb` holds `width * height` pixels of three bytes.
    pub fn prepare_rgb(
        &mut self,
        rgb: &[u8],
        width: u32,
        height: u32,
        values: &mut [f32],
    ) -> Result<(), ImageError> {
        if width.max(height) / width.min(height).max(1) > MOST_RATIO {
            return Err(ImageError::Thin { width, height });
        }
        let (to_width, to_height) = self.frame.resized(width, height);
        if (self.resized.width(), self.resized.height()) != (to_width, to_height) {
            self.resized = Image::new(to_width, to_height, PixelType::U8x3);
        }
        let source = ImageRef::new(width, height, rgb, PixelType::U8x3)
            .map_err(|error| ImageError::Resize(error.to_string()))?;
        self.resizer
            .resize(&source, &mut self.resized, &self.options)
            .map_err(|error| ImageError::Resize(error.to_string()))?;
        self.crop_and_normalise(to_width, to_height, values);
        Ok(())
    }

    fn crop_and_normalise(&self, width: u32, height: u32, values: &mut [f32]) {
        assert_eq!(values.len(), self.frame.values(), "room for one picture");
        let crop = self.frame.crop as usize;
        let (left, top) = (self.frame.offset(width) as usize, self.frame.offset(height) as usize);
        let row_bytes = width as usize * 3;
        let (red, rest) = values.split_at_mut(crop * crop);
        let (green, blue) = rest.split_at_mut(crop * crop);
        let [red_of, green_of, blue_of] = &self.normalised;
        for y in 0..crop {
            let start = (top + y) * row_bytes + left * 3;
            let pixels = &self.resized.buffer()[start..start + crop * 3];
            let line = y * crop..(y + 1) * crop;
            let planes = red[line.clone()].iter_mut().zip(&mut green[line.clone()]).zip(&mut blue[line]);
            for (pixel, ((r, g), b)) in pixels.chunks_exact(3).zip(planes) {
                *r = red_of[usize::from(pixel[0])];
                *g = green_of[usize::from(pixel[1])];
                *b = blue_of[usize::from(pixel[2])];
            }
        }
    }
}

/// Pixels as red, green, blue, with width and height. Grey and CMYK files become RGB.
pub fn decode(jpeg: &[u8]) -> Result<(Vec<u8>, u32, u32), ImageError> {
    let (mut decoder, width, height) = headers(jpeg)?;
    let _turn = room(width, height)?;
    let rgb = decoder.decode().map_err(|error| ImageError::Decode(error.to_string()))?;
    Ok((rgb, width as u32, height as u32))
}

/// A decoder, width and height, if headers and end are a picture's. Damage in between shows only in decoding.
pub fn headers(jpeg: &[u8]) -> Result<(Decoder<'_>, usize, usize), ImageError> {
    if is_cut_off(jpeg) {
        return Err(ImageError::Decode("it ends before the picture does".to_owned()));
    }
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(jpeg), options);
    decoder.decode_headers().map_err(|error| ImageError::Decode(error.to_string()))?;
    let (width, height) =
        decoder.dimensions().ok_or_else(|| ImageError::Decode("it has no dimensions".to_owned()))?;
    Ok((decoder, width, height))
}

/// The decoder aborts the process if its memory cannot be had. Large pictures take turns while the guard is
/// kept: two threads would each count on the memory that suffices for one.
fn room(width: usize, height: usize) -> Result<Option<MutexGuard<'static, ()>>, ImageError> {
    static TURN: Mutex<()> = Mutex::new(());
    let pixels = (width as u64).saturating_mul(height as u64);
    if pixels > MOST_PIXELS {
        return Err(ImageError::Large { width, height });
    }
    if pixels <= FEW_PIXELS {
        return Ok(None);
    }
    // A thread that panicked holding the lock left nothing behind.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    memory::check(pixels * PIXEL_BYTES)?;
    Ok(Some(turn))
}

/// Whether the last scan (marker FF DA) lacks the end of the picture (FF D9). The decoder fills the rest with
/// grey; Pillow, and so torchvision, refuses. In compressed data 00 or a restart marker follows every FF, so
/// neither marker occurs there. A whole file is settled by its last two bytes.
fn is_cut_off(jpeg: &[u8]) -> bool {
    let marker = jpeg.windows(2).rev().find(|pair| matches!(pair, [0xff, 0xd9 | 0xda]));
    marker.is_some_and(|pair| pair[1] == 0xda)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{CROP, Frame, ImageError, NoRoom, Preparer, VALUES, decode};

    #[rstest]
    #[case("1", (224, 256))]
    #[case("0.25", (64, 73))]
    #[case("0.01", (32, 36))]
    fn a_smaller_frame_keeps_its_proportion(#[case] scale: &str, #[case] expected: (u32, u32)) {
        let frame = Frame::USUAL.scaled(scale.parse().unwrap());
        assert_eq!((frame.crop, frame.short_side), expected);
    }

    #[rstest]
    #[case(500, 375, (341, 256))]
    #[case(375, 500, (256, 341))]
    #[case(256, 256, (256, 256))]
    #[case(100, 300, (256, 768))]
    #[case(1, 1, (256, 256))]
    fn size_is_torchvisions(#[case] width: u32, #[case] height: u32, #[case] expected: (u32, u32)) {
        assert_eq!(Frame::USUAL.resized(width, height), expected);
    }

    /// Python: `int(round((length - 224) / 2.0))`.
    #[rstest]
    #[case(256, 16)]
    #[case(341, 58)]
    #[case(343, 60)]
    #[case(225, 0)]
    #[case(227, 2)]
    #[case(224, 0)]
    fn crop_begins_where_torchvisions_does(#[case] length: u32, #[case] expected: u32) {
        assert_eq!(Frame::USUAL.offset(length), expected);
    }

    /// A picture without randomness, computed alike in Python: smooth parts, sharp edges, all three channels.
    fn test_card(width: u32, height: u32) -> Vec<u8> {
        let pixel = |x: u32, y: u32| {
            [
                (x * 7 + y * 3) % 256,
                (x * x + y * 5) % 256,
                if (x / 9 + y / 7).is_multiple_of(2) { 30 } else { 220 },
            ]
        };
        (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y))).map(|value| value as u8).collect()
    }

    /// One step of a byte, the largest rounding difference allowed between two resizers, after normalising.
    const ONE_STEP: f32 = 1.0 / 255.0 / 0.224 + 1e-4;

    /// Rows 0, 10, 111, 223 at columns 0, 200, 57, 223 of each plane, and the mean of each plane, from Pillow
    /// 13.0 and torchvision 0.28 (`Resize(256)`, `CenterCrop(224)`, `ToTensor`, `Normalize`) on the same test
    /// card; `tests/torchvision_reference.py` compares whole pictures.
    #[rstest]
    #[case::landscape(500, 375, [0.553_558, 1.392_671, 1.392_671, -0.456_803, 0.240_196, 1.850_84, -0.092_437,
        0.747_899, -1.281_569, 2.029_978, -1.281_569, 1.820_828], [0.065_54, 0.202_32, 0.374])]
    #[case::portrait(375, 500, [0.724_805, 1.529_669, 1.546_793, -0.319_805, 1.500_7, -0.197_479, 0.397_759,
        0.135_154, -1.281_569, 2.029_978, -0.340_392, 0.252_201], [0.065_54, 0.197_68, 0.373_94])]
    #[case::little_to_do(300, 280, [2.077_661, -1.809_658, -1.758_284, 0.022_69, -0.757_703, 2.060_924, -0.144_958,
        0.135_154, 2.029_978, 2.029_978, 1.210_806, 2.029_978], [0.067_5, 0.2, 0.374_2])]
    #[case::enlarged(100, 120, [-0.576_676, 0.211_063, -0.062_934, 1.187_174, -0.004_902, 2.130_952, -0.810_224,
        1.483_193, -1.281_569, 1.960_262, 2.029_978, -1.281_569], [0.066_2, 0.203_43, 0.376_13])]
    fn agrees_with_torchvision(
        #[case] width: u32,
        #[case] height: u32,
        #[case] points: [f32; 12],
        #[case] means: [f32; 3],
    ) {
        let mut values = vec![0.0; VALUES];
        Preparer::default().prepare_rgb(&test_card(width, height), width, height, &mut values).unwrap();
        let plane = (CROP * CROP) as usize;
        for (i, expected) in points.into_iter().enumerate() {
            let (y, x) = [(0, 0), (10, 200), (111, 57), (223, 223)][i % 4];
            let value = values[i / 4 * plane + y * CROP as usize + x];
            assert!((value - expected).abs() <= ONE_STEP, "point {i}: {value}, expected {expected}");
        }
        for (channel, expected) in means.into_iter().enumerate() {
            let sum: f64 = values[channel * plane..(channel + 1) * plane].iter().map(|v| f64::from(*v)).sum();
            let mean = sum / plane as f64;
            assert!(
                (mean - f64::from(expected)).abs() < 0.002,
                "plane {channel}: {mean}, expected {expected}"
            );
        }
    }

    #[rstest]
    #[case::empty(&[])]
    #[case::a_png(b"\x89PNG\r\n\x1a\n0000000000")]
    #[case::only_the_start(&[0xff, 0xd8, 0xff])]
    fn refuses_what_is_no_jpeg(#[case] bytes: &[u8]) {
        let error = Preparer::default().prepare(bytes, &mut vec![0.0; VALUES]).unwrap_err();
        assert!(matches!(error, ImageError::Decode(_)), "{error}");
    }

    #[test]
    fn refuses_what_would_become_huge() {
        let error =
            Preparer::default().prepare_rgb(&[0; 3 * 1000], 1000, 1, &mut vec![0.0; VALUES]).unwrap_err();
        assert_eq!(error.to_string(), "too long and thin: 1000 x 1 pixels");
    }

    fn small_jpeg() -> Vec<u8> {
        let mut jpeg = Vec::new();
        let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 90);
        encoder.encode(&test_card(90, 70), 90, 70, jpeg_encoder::ColorType::Rgb).unwrap();
        jpeg
    }

    /// A few bytes may promise 800 MB of pixels.
    #[test]
    fn refuses_what_is_huge() {
        let mut jpeg = small_jpeg();
        // Start of frame: length, bits per sample, height, width.
        let at = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap() + 5;
        jpeg[at..at + 4].copy_from_slice(&[0x40, 0, 0x40, 0]);
        let error = decode(&jpeg).unwrap_err();
        assert_eq!(error.to_string(), "too large: 16384 x 16384 pixels");
        assert!(error.of_picture().is_ok(), "its own fault");
        let short = NoRoom { needed_bytes: 2, available_bytes: 1 };
        assert_eq!(ImageError::from(short).of_picture(), Err(short), "not the picture's");
    }

    #[test]
    fn refuses_a_file_that_was_cut_off() {
        let jpeg = small_jpeg();
        assert!(decode(&jpeg).is_ok());
        let error = decode(&jpeg[..jpeg.len() / 2]).unwrap_err();
        assert!(error.to_string().contains("it ends before the picture does"), "{error}");
    }

    #[rstest]
    #[case::grey(jpeg_encoder::ColorType::Luma, 1)]
    #[case::cmyk(jpeg_encoder::ColorType::Cmyk, 4)]
    fn every_kind_of_jpeg_becomes_rgb(#[case] kind: jpeg_encoder::ColorType, #[case] channels: usize) {
        let mut jpeg = Vec::new();
        let pixels = vec![128; 40 * 30 * channels];
        jpeg_encoder::Encoder::new(&mut jpeg, 90).encode(&pixels, 40, 30, kind).unwrap();
        let (rgb, width, height) = decode(&jpeg).unwrap();
        assert_eq!((rgb.len(), width, height), (40 * 30 * 3, 40, 30));
        Preparer::default().prepare(&jpeg, &mut vec![0.0; VALUES]).unwrap();
    }
}
