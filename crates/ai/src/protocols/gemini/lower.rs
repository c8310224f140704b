//! Building the request.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::body::{
    Body, CallPart, CallingConfig, Declaration, FunctionCall, FunctionResponse, GenerationConfig, InlineData,
    Instruction, MediaPart, Response, ResponsePart, SafetySetting, TextOnly, TextPart, ThinkingConfig, ToolConfig,
    ToolList, Turn, WirePart, WireRole,
};
use super::{NAME, Service, models};
use crate::protocols::shared::{self, Choice, Media};
use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::messages::{Message, Part, Role, ToolCallPart, ToolContent, ToolResultPart, ToolResultValue};
use crate::schema::request::LLMRequest;

/// Stands for the signature of a call that has none, on models that refuse unsigned calls.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// Introduces media that a result could not hold.
const ATTACHED: &str = "Attached media from tool result:";

/// Builds the body of a request.
#[tracing::instrument(name = "Gemini.fromRequest", level = "debug", skip_all)]
pub(super) fn from_request(request: &LLMRequest, service: Service) -> Result<Body<'_>, AIError> {
    let id = request.model.id.as_str();
    let mut lowering = Lowering {
        key: request.model.metadata_key(),
        has_call_ids: service == Service::Google,
        needs_signatures: models::needs_signatures(id),
        nests_media: models::nests_media(id),
        call_ids: HashMap::new(),
        turns: Vec::new(),
        attached: Vec::new(),
    };
    for message in &request.messages {
        lowering.message(message)?;
    }
    lowering.flush_attached();
    let tools = tools(request)?;
    let labels = request.option("labels").and_then(Value::as_object).filter(|_| service == Service::Vertex);
    Ok(Body {
        contents: lowering.turns,
        system_instruction: system(request),
        tool_config: if tools.is_empty() { None } else { tool_config(request)? },
        tools: (!tools.is_empty()).then_some([ToolList { function_declarations: tools }]),
        generation_config: generation_config(request),
        safety_settings: safety_settings(request),
        cached_content: request.option("cachedContent").and_then(Value::as_str),
        service_tier: request.option("serviceTier").and_then(Value::as_str),
        labels,
    })
}

fn system(request: &LLMRequest) -> Option<Instruction> {
    let text = shared::join_text(&request.system);
    (!is_blank(&text)).then_some(Instruction { parts: [TextOnly { text }] })
}

struct Lowering<'r> {
    /// The namespace in provider metadata.
    key: &'r str,
    has_call_ids: bool,
    needs_signatures: bool,
    nests_media: bool,
    /// Ids of calls on the wire by our ids; a result goes back under the id of its call.
    call_ids: HashMap<&'r str, &'r str>,
    turns: Vec<Turn<'r>>,
    /// Media of results, sent after the whole run of results.
    attached: Vec<MediaPart>,
}

impl<'r> Lowering<'r> {
    fn message(&mut self, message: &'r Message) -> Result<(), AIError> {
        if message.role != Role::Tool {
            self.flush_attached();
        }
        match message.role {
            Role::System => self.system_update(message),
            Role::User => self.user(message),
            Role::Assistant => self.assistant(message),
            Role::Tool => self.tool(message),
        }
    }

    fn system_update(&mut self, message: &'r Message) -> Result<(), AIError> {
        let text = shared::system_update_text(NAME, message)?;
        if is_blank(&text) {
            return Ok(());
        }
        let part = text_part(Cow::Owned(shared::wrap_system_update(&text)), false, None);
        match self.turns.last_mut() {
            Some(last) if last.role == WireRole::User && !has_response(last) => last.parts.push(part),
            Some(_) | None => self.push(WireRole::User, vec![part]),
        }
        Ok(())
    }

    fn user(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut parts = Vec::with_capacity(message.content.len());
        for part in &message.content {
            match part {
                Part::Text(text) if is_blank(&text.text) => {}
                Part::Text(text) => parts.push(text_part(Cow::Borrowed(&text.text), false, None)),
                Part::Media(part) => {
                    parts.push(WirePart::Media(inline(&shared::normalize_media(NAME, part)?)?));
                }
                Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => {
                    return Err(shared::unsupported_content(NAME, Role::User, &["text", "media"]));
                }
            }
        }
        self.push(WireRole::User, parts);
        Ok(())
    }

    fn assistant(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut parts = Vec::with_capacity(message.content.len());
        let mut has_signed_call = false;
        for part in &message.content {
            let signature = self.metadata(part, "thoughtSignature");
            match part {
                Part::Text(text) if is_blank(&text.text) && signature.is_none() => {}
                Part::Text(text) => parts.push(text_part(Cow::Borrowed(&text.text), false, signature)),
                Part::Reasoning(reasoning) => {
                    let signature = reasoning.encrypted.as_deref().or(signature);
                    if !is_blank(&reasoning.text) || signature.is_some() {
                        parts.push(text_part(Cow::Borrowed(&reasoning.text), true, signature));
                    }
                }
                // Hosted calls and their results live on another provider's side.
                Part::ToolCall(call) if call.is_provider_executed() => {}
                Part::ToolResult(result) if result.is_provider_executed() => {}
                Part::ToolCall(call) => {
                    has_signed_call |= signature.is_some();
                    let fallback = (self.needs_signatures && !has_signed_call).then_some(NO_SIGNATURE);
                    parts.push(self.tool_call(part, call, signature.or(fallback)));
                }
                Part::ToolResult(_) | Part::Media(_) => {
                    return Err(shared::unsupported_content(
                        NAME,
                        Role::Assistant,
                        &["text", "reasoning", "tool-call"],
                    ));
                }
            }
        }
        self.push(WireRole::Model, parts);
        Ok(())
    }

    fn tool_call(&mut self, part: &'r Part, call: &'r ToolCallPart, signature: Option<&'r str>) -> WirePart<'r> {
        let id = self.metadata(part, "functionCallId").filter(|_| self.has_call_ids);
        if let Some(id) = id {
            self.call_ids.insert(call.id.as_str(), id);
        }
        let args = match &call.input {
            Value::Object(_) => Cow::Borrowed(&call.input),
            Value::Null => Cow::Owned(json!({})),
            // The wire takes objects only; nothing a model once said may make history unsendable.
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Cow::Owned(json!({ "input": &call.input }))
            }
        };
        WirePart::Call(CallPart {
            function_call: FunctionCall { id, name: &call.name, args },
            thought_signature: signature,
        })
    }

    fn tool(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut parts = Vec::with_capacity(message.content.len());
        for part in &message.content {
            let Part::ToolResult(result) = part else {
                return Err(shared::unsupported_content(NAME, Role::Tool, &["tool-result"]));
            };
            parts.push(self.tool_result(result)?);
        }
        match self.turns.last_mut() {
            Some(last) if last.role == WireRole::User && has_response(last) => last.parts.append(&mut parts),
            Some(_) | None => self.push(WireRole::User, parts),
        }
        Ok(())
    }

    fn tool_result(&mut self, result: &'r ToolResultPart) -> Result<WirePart<'r>, AIError> {
        let mut media = Vec::new();
        let content = match &result.result {
            ToolResultValue::Content(items) => {
                let mut texts = Vec::new();
                for item in items {
                    match item {
                        ToolContent::Text { text } => texts.push(text.as_str()),
                        ToolContent::File { uri, mime, .. } => {
                            media.push(inline(&shared::normalize_tool_file(NAME, mime, uri)?)?);
                        }
                    }
                }
                Cow::Owned(texts.join("\n"))
            }
            ToolResultValue::Json(_) | ToolResultValue::Text(_) | ToolResultValue::Error(_) => {
                shared::tool_result_text(result)
            }
        };
        if !self.nests_media {
            self.attached.append(&mut media);
        }
        Ok(WirePart::Response(ResponsePart {
            function_response: FunctionResponse {
                id: self.call_ids.get(result.id.as_str()).copied(),
                name: &result.name,
                response: Response { name: &result.name, content },
                parts: media,
            },
        }))
    }

    fn flush_attached(&mut self) {
        let attached = std::mem::take(&mut self.attached);
        if !attached.is_empty() {
            let intro = text_part(Cow::Borrowed(ATTACHED), false, None);
            let parts = std::iter::once(intro).chain(attached.into_iter().map(WirePart::Media)).collect();
            self.push(WireRole::User, parts);
        }
    }

    fn push(&mut self, role: WireRole, parts: Vec<WirePart<'r>>) {
        if !parts.is_empty() {
            self.turns.push(Turn { role, parts });
        }
    }

    fn metadata(&self, part: &'r Part, name: &str) -> Option<&'r str> {
        let value = part.provider_metadata()?.get(self.key)?.get(name)?.as_str()?;
        (!value.is_empty()).then_some(value)
    }
}

fn text_part<'r>(text: Cow<'r, str>, thought: bool, thought_signature: Option<&'r str>) -> WirePart<'r> {
    WirePart::Text(TextPart { text, thought, thought_signature })
}

fn inline(media: &Media) -> Result<MediaPart, AIError> {
    let data = media.inline(NAME)?.to_owned();
    Ok(MediaPart { inline_data: InlineData { mime_type: media.mime().to_owned(), data } })
}

fn has_response(turn: &Turn<'_>) -> bool {
    turn.parts.iter().any(|part| matches!(part, WirePart::Response(_)))
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn tools(request: &LLMRequest) -> Result<Vec<Declaration<'_>>, AIError> {
    request
        .tools
        .iter()
        .map(|tool| {
            if tool.native.as_ref().is_some_and(|native| native.contains_key(request.model.metadata_key())) {
                return Err(AIError::invalid_request(format!(
                    "{NAME} does not support provider-native tool {}",
                    tool.name
                )));
            }
            Ok(Declaration {
                name: &tool.name,
                description: &tool.description,
                parameters: (!is_empty_object(&tool.input_schema)).then_some(&tool.input_schema),
            })
        })
        .collect()
}

/// Whether a schema describes an object without properties, which the provider refuses at the root.
fn is_empty_object(schema: &JsonObject) -> bool {
    schema.get("properties").and_then(Value::as_object).is_none_or(JsonObject::is_empty)
}

fn tool_config(request: &LLMRequest) -> Result<Option<ToolConfig<'_>>, AIError> {
    let Some(choice) = &request.tool_choice else { return Ok(None) };
    let (mode, name) = match shared::match_tool_choice(NAME, choice)? {
        Choice::Auto => ("AUTO", None),
        Choice::None => ("NONE", None),
        Choice::Required => ("ANY", None),
        Choice::Tool(name) => ("ANY", Some([name])),
    };
    Ok(Some(ToolConfig { function_calling_config: CallingConfig { mode, allowed_function_names: name } }))
}

fn generation_config(request: &LLMRequest) -> GenerationConfig<'_> {
    let Some(generation) = &request.generation else {
        return GenerationConfig { thinking_config: thinking(request, None), ..GenerationConfig::default() };
    };
    GenerationConfig {
        max_output_tokens: generation.max_tokens,
        temperature: generation.temperature,
        top_p: generation.top_p,
        top_k: generation.top_k,
        frequency_penalty: generation.frequency_penalty,
        presence_penalty: generation.presence_penalty,
        seed: generation.seed,
        stop_sequences: generation.stop.as_deref(),
        thinking_config: thinking(request, generation.max_tokens),
    }
}

fn thinking(request: &LLMRequest, max_tokens: Option<u64>) -> Option<ThinkingConfig<'_>> {
    let option = request.option("thinkingConfig")?.as_object()?;
    let budget = option.get("thinkingBudget").and_then(Value::as_i64);
    Some(ThinkingConfig {
        thinking_budget: budget.map(|budget| shared::fit_thinking_budget(budget, max_tokens, 1)),
        include_thoughts: option.get("includeThoughts").and_then(Value::as_bool).unwrap_or(true),
        thinking_level: option.get("thinkingLevel").and_then(Value::as_str),
    })
}

fn safety_settings(request: &LLMRequest) -> Vec<SafetySetting<'_>> {
    let entries = request.option("safetySettings").and_then(Value::as_array).into_iter().flatten();
    entries
        .filter_map(|entry| {
            Some(SafetySetting {
                category: entry.get("category")?.as_str()?,
                threshold: entry.get("threshold")?.as_str()?,
            })
        })
        .collect()
}
