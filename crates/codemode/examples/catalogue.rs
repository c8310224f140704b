//! The catalogue of a few tools, whole and cut to a small budget, and a search in it.
//!
//! ```sh
//! cargo run -p abide-codemode --example catalogue
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its output")]

use abide_codemode::search::{Query, search};
use abide_codemode::{Tool, Tree, TreeError, catalogue};
use serde_json::{Value, json};

fn main() -> Result<(), TreeError> {
    let tool = |path: &str, description: &str, input: Value| Tool {
        path: path.to_owned(),
        description: description.to_owned(),
        input,
        output: None,
        pinned: false,
    };
    let by_number = json!({
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "The number of the issue."}},
        "required": ["number"],
    });
    let state = json!({"type": "object", "properties": {"state": {"enum": ["open", "closed"], "default": "open"}}});
    let tree = Tree::new([
        tool("issues.get", "Reads one issue.", by_number.clone()),
        tool("issues.close", "Closes an issue.", by_number),
        tool("issues.list", "Lists issues.", state),
        tool("clock.now", "Tells the time.", json!({"type": "object", "additionalProperties": false})),
    ])?
    .with_namespace("issues", "What is to be done.");

    for budget in [catalogue::BUDGET_TOKENS, 50] {
        let summary = catalogue::summary(&tree, budget);
        println!("# {budget} tokens\n{}\n", summary.text);
    }
    println!("# search: close an issue");
    for item in search(&tree, &Query::new("close an issue")).items {
        println!("{}  {}", item.signature, item.description);
    }
    Ok(())
}
