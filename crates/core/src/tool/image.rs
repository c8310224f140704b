//! Images in results, brought to what providers take (spec/tools.md 7.3).

#[cfg(test)]
mod tests;

use std::io::Cursor;
use std::sync::Arc;

use abide_schema::tool::Content;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageFormat, ImageReader, Limits};
use tokio::sync::Semaphore;

/// The most images that are worked on at a time: each may take much memory.
const MAX_AT_A_TIME: usize = 2;
/// What a decoder may take.
const MAX_SIDE: u32 = 20_000;
const MAX_DECODED_BYTES: u64 = 256 * 1024 * 1024;
/// How often an image is made smaller, by a quarter of each side.
const MAX_STEPS: u32 = 32;
const JPEG_QUALITIES: [u8; 5] = [80, 85, 70, 55, 40];

/// Limits of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// Whether an image over the limits is made smaller; otherwise it is left out.
    pub auto_resize: bool,
    /// Pixels.
    pub max_width: u32,
    /// Pixels.
    pub max_height: u32,
    /// Length of its base64 text.
    pub max_base64_bytes: usize,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self { auto_resize: true, max_width: 2000, max_height: 2000, max_base64_bytes: 5 * 1024 * 1024 }
    }
}

/// Brings images to the limits. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Images {
    limits: ImageLimits,
    permits: Arc<Semaphore>,
}

/// What became of one image.
#[derive(Debug, PartialEq)]
enum Outcome {
    Unchanged,
    Smaller { mime: &'static str, base64: String },
    NotDecodable,
    TooLarge,
}

impl Images {
    /// Makes it.
    pub fn new(limits: ImageLimits) -> Self {
        Self { limits, permits: Arc::new(Semaphore::new(MAX_AT_A_TIME)) }
    }

    /// Replaces images over the limits by smaller ones, and leaves out what is no image that can be decoded; a text at
    /// the end says how many are missing. Everything but base64 images passes.
    ///
    /// # Cancel safety
    /// Cancel safe; an image that is being worked on is finished for nothing.
    pub(crate) async fn normalise(&self, content: Vec<Content>) -> Vec<Content> {
        if !content.iter().any(|part| base64_image(part).is_some()) {
            return content;
        }
        let (mut out, mut n_broken, mut n_large) = (Vec::with_capacity(content.len()), 0_usize, 0_usize);
        for part in content {
            let Some(base64) = base64_image(&part).map(str::to_owned) else {
                out.push(part);
                continue;
            };
            // The semaphore is never closed.
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let limits = self.limits;
            let work = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                fit(&base64, limits)
            });
            // A decoder that panics does not know the image.
            match work.await.unwrap_or(Outcome::NotDecodable) {
                Outcome::Unchanged => out.push(part),
                Outcome::Smaller { mime, base64 } => {
                    let name = match part {
                        Content::File { name, .. } => name,
                        Content::Text { .. } => None,
                    };
                    out.push(Content::File {
                        uri: format!("data:{mime};base64,{base64}"),
                        mime: mime.to_owned(),
                        name,
                    });
                }
                Outcome::NotDecodable => n_broken += 1,
                Outcome::TooLarge => n_large += 1,
            }
        }
        for (count, reason) in [(n_broken, "not decodable"), (n_large, "too large even after resizing")] {
            match count {
                0 => {}
                1 => out.push(Content::text(format!("[1 image left out: {reason}]"))),
                _ => out.push(Content::text(format!("[{count} images left out: {reason}]"))),
            }
        }
        out
    }
}

/// Returns the base64 text of an image that is a data URI. Drawings are text.
fn base64_image(part: &Content) -> Option<&str> {
    let Content::File { uri, mime, .. } = part else { return None };
    if !mime.starts_with("image/") || mime.starts_with("image/svg") {
        return None;
    }
    let (head, data) = uri.strip_prefix("data:")?.split_once(',')?;
    head.to_ascii_lowercase().ends_with(";base64").then_some(data)
}

/// Brings one image to the limits. Blocks.
fn fit(base64: &str, limits: ImageLimits) -> Outcome {
    let Ok(bytes) = STANDARD.decode(base64.trim()) else { return Outcome::NotDecodable };
    let Some(image) = decode(&bytes) else { return Outcome::NotDecodable };
    let fits = image.width() <= limits.max_width && image.height() <= limits.max_height;
    if fits && base64.len() <= limits.max_base64_bytes {
        return Outcome::Unchanged;
    }
    if !limits.auto_resize {
        return Outcome::TooLarge;
    }
    let mut image = if fits {
        image
    } else {
        image.resize(limits.max_width.max(1), limits.max_height.max(1), FilterType::Triangle)
    };
    for _ in 0..MAX_STEPS {
        if let Some(found) = candidate(&image, limits.max_base64_bytes) {
            return found;
        }
        let smaller = |side: u32| (side - side.div_ceil(4)).max(1);
        let (width, height) = (smaller(image.width()), smaller(image.height()));
        if (width, height) == (image.width(), image.height()) {
            break;
        }
        image = image.resize_exact(width, height, FilterType::Triangle);
    }
    Outcome::TooLarge
}

fn decode(bytes: &[u8]) -> Option<DynamicImage> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    reader.decode().ok()
}

/// Encodes an image as PNG, else as JPEG, so that it fits.
fn candidate(image: &DynamicImage, max_base64: usize) -> Option<Outcome> {
    let max_bytes = max_base64 / 4 * 3;
    let mut png = Vec::new();
    if image.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).is_ok() && png.len() <= max_bytes {
        return Some(Outcome::Smaller { mime: "image/png", base64: STANDARD.encode(&png) });
    }
    // JPEG has no transparency.
    let plain = DynamicImage::ImageRgb8(image.to_rgb8());
    JPEG_QUALITIES.into_iter().find_map(|quality| {
        let mut jpeg = Vec::new();
        let written = plain.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, quality));
        let fits = written.is_ok() && jpeg.len() <= max_bytes;
        fits.then(|| Outcome::Smaller { mime: "image/jpeg", base64: STANDARD.encode(&jpeg) })
    })
}
