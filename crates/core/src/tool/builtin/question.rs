//! The tool `question`: asks the user (spec/tools.md 11.12).

use abide_schema::question::{Answer, QuestionInfo, QuestionOption};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::permission::{AssertInput, PermissionService};
use crate::question::QuestionService;
use crate::tool::leaf::{Load, ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;

#[cfg(test)]
mod tests;

/// The action of questions.
const ACTION: &str = "question";
/// The longest label of a question, in characters.
const MAX_HEADER_CHARS: usize = 30;

/// The tool.
#[derive(Debug)]
pub struct QuestionTool {
    permissions: PermissionService,
    questions: QuestionService,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct QuestionInput {
    /// The questions, in the order in which they are shown.
    #[schemars(length(min = 1))]
    questions: Vec<Prompt>,
}

/// One question.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Prompt {
    /// The whole question.
    question: String,
    /// A very short label, at most 30 characters.
    header: String,
    /// The choices; the user may also write an own answer.
    options: Vec<Choice>,
    /// Whether several may be chosen.
    #[serde(default)]
    multiple: Option<bool>,
}

/// One choice.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Choice {
    /// What is shown and returned: one to five words.
    label: String,
    /// What it means.
    #[serde(default)]
    description: String,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QuestionOutput {
    /// The chosen labels or typed texts, one list per question.
    answers: Vec<Answer>,
}

impl QuestionTool {
    /// Makes the tool.
    pub const fn new(permissions: PermissionService, questions: QuestionService) -> Self {
        Self { permissions, questions }
    }
}

impl TypedTool for QuestionTool {
    type Input = QuestionInput;
    type Output = QuestionOutput;

    fn name(&self) -> &'static str {
        "question"
    }

    fn description(&self) -> String {
        "Asks the user one or more questions and waits for the answers. Use it when a decision is the user's to make \
         and cannot be found out otherwise. Offer clear choices, the one that you would take first; the user may also \
         write an own answer, so offer no choice \"other\"."
            .to_owned()
    }

    fn load(&self) -> Load {
        Load::Waits
    }

    fn limits(&self) -> Vec<String> {
        vec![format!("headers up to {MAX_HEADER_CHARS} characters")]
    }

    async fn execute(&self, ctx: ToolContext, input: QuestionInput) -> Result<ToolReturn<QuestionOutput>, ToolFailure> {
        self.permissions.assert(&ctx, AssertInput::new(ACTION, "*")).await?;
        let questions: Vec<QuestionInfo> = input.questions.into_iter().map(Prompt::into_info).collect();
        let texts: Vec<String> = questions.iter().map(|info| info.question.clone()).collect();
        let answers = self.questions.ask(&ctx, questions).await?;
        let pairs = texts.iter().zip(&answers).map(|(question, answer)| {
            let chosen = if answer.is_empty() { "Unanswered".to_owned() } else { answer.join(", ") };
            format!("\"{question}\"=\"{chosen}\"")
        });
        let text = format!("The user answered: {}", pairs.collect::<Vec<_>>().join(", "));
        let metadata = json!(answers);
        Ok(ToolReturn::new(QuestionOutput { answers }).with_text(text).with_metadata("answers", metadata))
    }
}

impl Prompt {
    fn into_info(self) -> QuestionInfo {
        let options = self.options.into_iter();
        QuestionInfo {
            question: self.question,
            header: self.header.chars().take(MAX_HEADER_CHARS).collect(),
            options: options
                .map(|choice| QuestionOption { label: choice.label, description: choice.description })
                .collect(),
            multiple: self.multiple,
            custom: None,
        }
    }
}
