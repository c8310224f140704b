//! A tool and a hook as a plugin would bring them, called by hand: the engine does not host plugins yet.
//!
//! ```sh
//! cargo run -p abide-plugin --example tool
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its output")]

use abide_plugin::BoxFuture;
use abide_plugin::hook::{AfterCall, BeforeCall, ToolHook};
use abide_plugin::tool::{Tool, ToolContext, ToolInfo};
use abide_schema::tool::{Content, ToolError, ToolOptions, ToolResult};
use abide_schema::{CallId, MessageId, SessionId};
use futures_util::FutureExt as _;
use serde_json::{Value, json};

/// Counts the words of a text.
struct Count;

impl Tool for Count {
    fn info(&self) -> ToolInfo {
        ToolInfo {
            name: "count".to_owned(),
            description: "Counts the words of a text.".to_owned(),
            input: json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
            output: None,
            options: ToolOptions { namespace: Some("words".to_owned()), ..ToolOptions::direct() },
        }
    }

    fn execute(&self, input: Value, _context: ToolContext) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            let text = input.get("text").and_then(Value::as_str);
            let text = text.ok_or_else(|| ToolError::new("text is missing"))?;
            let content = vec![Content::text(format!("{} words", text.split_whitespace().count()))];
            Ok(ToolResult { content, ..ToolResult::default() })
        })
    }
}

/// Refuses texts with a secret.
struct NoSecrets;

impl ToolHook for NoSecrets {
    fn before<'a>(&'a self, call: &'a mut BeforeCall) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            if call.input.to_string().contains("secret") {
                return Err(ToolError::new("the input holds a secret"));
            }
            Ok(())
        })
    }
}

async fn call(input: Value) -> Result<ToolResult, ToolError> {
    let context = ToolContext {
        session_id: SessionId::from_trusted("ses_example"),
        agent: "build".into(),
        message_id: MessageId::from_trusted("msg_example"),
        id: CallId::new("call_example"),
    };
    let mut before = BeforeCall::new(context, "words_count", input);
    NoSecrets.before(&mut before).await?;
    let outcome = Count.execute(before.input.clone(), before.context().clone()).await;
    let mut after = AfterCall::new(before, outcome);
    NoSecrets.after(&mut after).await;
    after.outcome
}

fn main() {
    println!("{}", Count.info().effective_name().unwrap_or_default());
    for text in ["one two three", "a secret"] {
        // Nothing here waits, so that one poll is enough and no runtime is needed.
        match call(json!({"text": text})).now_or_never() {
            Some(Ok(result)) => println!("{text:?}: {}", abide_schema::tool::joined_text(&result.content)),
            Some(Err(error)) => println!("{text:?}: refused: {error}"),
            None => println!("{text:?}: not finished"),
        }
    }
}
