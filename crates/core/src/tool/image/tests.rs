use image::{ImageBuffer, Rgb, RgbImage};

use super::*;

fn encoded(image: &RgbImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

fn plain(width: u32, height: u32) -> Vec<u8> {
    encoded(&ImageBuffer::from_pixel(width, height, Rgb([20, 40, 60])), ImageFormat::Png)
}

/// An image that no encoder makes small.
fn noise(width: u32, height: u32) -> Vec<u8> {
    let mut state = 1_u32;
    let image = ImageBuffer::from_fn(width, height, |_, _| {
        Rgb([0; 3].map(|_: u8| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        }))
    });
    encoded(&image, ImageFormat::Png)
}

fn part(mime: &str, bytes: &[u8]) -> Content {
    Content::File {
        uri: format!("data:{mime};base64,{}", STANDARD.encode(bytes)),
        mime: mime.into(),
        name: Some("a".into()),
    }
}

async fn run(limits: ImageLimits, content: Vec<Content>) -> Vec<Content> {
    Images::new(limits).normalise(content).await
}

/// Writes content down: texts as they are, images with their media type, size and name.
fn shown(content: &[Content]) -> Vec<String> {
    let one = |part: &Content| match part {
        Content::Text { text } => text.clone(),
        Content::File { uri, mime, name } => {
            let image = base64_image(part).and_then(|data| decode(&STANDARD.decode(data).unwrap()));
            let size = image.map_or_else(|| uri.clone(), |image| format!("{}x{}", image.width(), image.height()));
            format!("{mime} {size} {}", name.as_deref().unwrap_or("-"))
        }
    };
    content.iter().map(one).collect()
}

#[tokio::test]
async fn an_image_within_the_limits_keeps_its_bytes() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
        let image: RgbImage = ImageBuffer::from_pixel(20, 10, Rgb([20, 40, 60]));
        let content = vec![part(format.to_mime_type(), &encoded(&image, format)), Content::text("a")];
        assert_eq!(run(ImageLimits::default(), content.clone()).await, content);
    }
}

/// O12.
#[tokio::test]
async fn a_large_image_is_made_smaller() {
    let content = vec![Content::text("a"), part("image/png", &plain(4000, 3000)), Content::text("b")];
    let out = run(ImageLimits::default(), content).await;
    assert_eq!(shown(&out), ["a", "image/png 2000x1500 a", "b"]);

    // What cannot be small as PNG is JPEG, with its own media type.
    let limits = ImageLimits { max_base64_bytes: 60_000, ..ImageLimits::default() };
    let out = run(limits, vec![part("image/png", &noise(200, 200))]).await;
    assert_eq!(shown(&out), ["image/jpeg 200x200 a"]);
    // And smaller when that is not enough.
    let limits = ImageLimits { max_base64_bytes: 8_000, ..limits };
    let out = run(limits, vec![part("image/png", &noise(200, 200))]).await;
    let Content::File { mime, uri, .. } = &out[0] else { panic!("{out:?}") };
    assert_eq!(mime, "image/jpeg");
    assert!(uri.len() <= 8_000 + "data:image/jpeg;base64,".len());
}

/// O11.
#[tokio::test]
async fn what_is_left_out_is_told_at_the_end() {
    let broken = part("image/png", b"\x89PNG\r\n\x1a\nno image");
    let out = run(ImageLimits::default(), vec![broken.clone(), Content::text("a")]).await;
    assert_eq!(shown(&out), ["a", "[1 image left out: not decodable]"]);
    let limits = ImageLimits { auto_resize: false, max_width: 10, ..ImageLimits::default() };
    let large = part("image/png", &plain(20, 20));
    let out = run(limits, vec![large.clone(), broken, Content::text("a"), large]).await;
    assert_eq!(
        shown(&out),
        ["a", "[1 image left out: not decodable]", "[2 images left out: too large even after resizing]"]
    );
}

/// O13.
#[tokio::test]
async fn what_is_no_base64_image_passes() {
    let content = vec![
        part("image/svg+xml", b"<svg/>"),
        part("application/pdf", b"%PDF-"),
        Content::File { uri: "https://host/a.png".into(), mime: "image/png".into(), name: None },
        Content::File { uri: "data:image/png,abc".into(), mime: "image/png".into(), name: None },
    ];
    assert_eq!(run(ImageLimits::default(), content.clone()).await, content);
}

/// O14: a small file that says it is enormous.
#[tokio::test]
async fn a_bomb_is_not_decoded() {
    let mut png = plain(1, 1);
    // Width and height of the header, and its checksum.
    png[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    let crc = crc(&png[12..29]);
    png[29..33].copy_from_slice(&crc.to_be_bytes());
    let out = run(ImageLimits::default(), vec![part("image/png", &png)]).await;
    assert_eq!(shown(&out), ["[1 image left out: not decodable]"]);
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}
