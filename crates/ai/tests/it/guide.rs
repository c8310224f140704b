//! The guide (the documentation of the crate) shows code that is compiled: each of its blocks stands in
//! `examples/guide.rs`, word for word.

use std::fs;
use std::path::Path;

#[test]
fn every_block_of_the_guide_is_compiled() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    let example = fs::read_to_string(folder.join("examples/guide.rs")).unwrap();
    let example: Vec<&str> = example.lines().map(str::trim).collect();
    let lines =
        page.lines().take_while(|line| line.starts_with("//!")).map(|line| line.trim_start_matches("//!").trim());
    let (mut blocks, mut open): (Vec<Vec<&str>>, bool) = (Vec::new(), false);
    for line in lines {
        if line.starts_with("```") {
            open = !open;
            if open {
                blocks.push(Vec::new());
            }
        } else if open {
            blocks.last_mut().unwrap().push(line);
        }
    }
    assert!(!open && blocks.len() >= 6, "{blocks:?}");
    for block in blocks {
        assert!(example.windows(block.len()).any(|lines| lines == block), "not in examples/guide.rs: {block:#?}");
    }
}
