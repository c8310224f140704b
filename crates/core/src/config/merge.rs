//! Folding the documents into settings: scalars by the last word, records by name and field, lists joined.

use abide_ai::schema::options::merge_json;
use abide_schema::config::{
    AbideConfig, AgentConfig, CapabilitiesConfig, CommandConfig, CompactionConfig, ConfigDocument, ExperimentalConfig,
    HeaderMap, ImageConfig, KeepConfig, LimitConfig, ModelConfig, PolicyStatement, ProviderConfig, ServerConfig,
    ToolOutputConfig, VariantConfig,
};
use abide_schema::model::ModelRef;
use abide_schema::permission::Rule;
use abide_schema::{AgentId, ProviderId};
use indexmap::IndexMap;

use super::{Config, Document, OriginKind};

impl Config {
    /// Returns what the last document that says anything about a key says.
    pub fn latest<T>(&self, key: impl Fn(&ConfigDocument) -> Option<&T>) -> Option<&T> {
        self.documents.iter().rev().find_map(|document| key(&document.info))
    }

    /// Returns the document with the last word about a key.
    pub fn latest_document<T>(&self, key: impl Fn(&ConfigDocument) -> Option<&T>) -> Option<(&T, &Document)> {
        self.documents.iter().rev().find_map(|document| Some((key(&document.info)?, document)))
    }

    /// Returns the configured model.
    pub fn model(&self) -> Option<&ModelRef> {
        self.latest(|document| document.model.as_ref()).map(|selection| &selection.0)
    }

    /// Returns the rules of every agent, in order.
    pub fn permissions(&self) -> Vec<Rule> {
        self.documents.iter().flat_map(|document| document.info.permissions.iter().cloned()).collect()
    }

    /// Returns the refusals of the administrator, which are repeated after all other rules.
    pub fn managed_denials(&self) -> Vec<Rule> {
        self.documents
            .iter()
            .filter(|document| document.origin.kind == OriginKind::Managed)
            .flat_map(|document| document.info.permissions.iter())
            .filter(|rule| rule.effect == abide_schema::permission::Effect::Deny)
            .cloned()
            .collect()
    }

    /// Returns what documents say about agents.
    pub fn agents(&self) -> IndexMap<AgentId, AgentConfig> {
        self.fold_record(|document| &document.agents, patch_agent)
    }

    /// Returns what documents say about commands.
    pub fn commands(&self) -> IndexMap<String, CommandConfig> {
        self.fold_record(
            |document| &document.commands,
            |command, over| {
                if over.template.is_some() {
                    command.clone_from(over);
                } else {
                    patch(&mut command.description, over.description.as_ref());
                    patch(&mut command.agent, over.agent.as_ref());
                    patch(&mut command.model, over.model.as_ref());
                    patch(&mut command.subtask, over.subtask.as_ref());
                    patch(&mut command.disabled, over.disabled.as_ref());
                }
            },
        )
    }

    /// Returns what documents say about providers.
    pub fn providers(&self) -> IndexMap<ProviderId, ProviderConfig> {
        self.fold_record(|document| &document.providers, patch_provider)
    }

    fn fold_record<K, T: Clone>(
        &self,
        record: impl Fn(&ConfigDocument) -> &IndexMap<K, T>,
        patch: impl Fn(&mut T, &T),
    ) -> IndexMap<K, T>
    where
        K: Clone + std::hash::Hash + Eq,
    {
        let mut out: IndexMap<K, T> = IndexMap::new();
        for (name, entry) in self.documents.iter().flat_map(|document| record(&document.info)) {
            match out.get_mut(name) {
                Some(there) => patch(there, entry),
                None => {
                    out.insert(name.clone(), entry.clone());
                }
            }
        }
        out
    }

    /// Returns the settings of compaction.
    pub fn compaction(&self) -> CompactionConfig {
        self.fold(
            |document| document.compaction.as_ref(),
            |value, over| {
                patch(&mut value.auto, over.auto.as_ref());
                patch(&mut value.prune, over.prune.as_ref());
                patch(&mut value.buffer, over.buffer.as_ref());
                if let Some(keep) = &over.keep {
                    let there = value.keep.get_or_insert_with(KeepConfig::default);
                    patch(&mut there.tokens, keep.tokens.as_ref());
                }
            },
        )
    }

    /// Returns the bounds of tool output.
    pub fn tool_output(&self) -> ToolOutputConfig {
        self.fold(
            |document| document.tool_output.as_ref(),
            |value, over| {
                patch(&mut value.max_lines, over.max_lines.as_ref());
                patch(&mut value.max_bytes, over.max_bytes.as_ref());
            },
        )
    }

    /// Returns the treatment of images.
    pub fn image(&self) -> ImageConfig {
        self.fold(
            |document| document.media.as_ref().and_then(|media| media.image.as_ref()),
            |value, over| {
                patch(&mut value.auto_resize, over.auto_resize.as_ref());
                patch(&mut value.max_width, over.max_width.as_ref());
                patch(&mut value.max_height, over.max_height.as_ref());
                patch(&mut value.max_base64_bytes, over.max_base64_bytes.as_ref());
            },
        )
    }

    /// Returns the experimental settings, without policies.
    pub fn experimental(&self) -> ExperimentalConfig {
        self.fold(
            |document| document.experimental.as_ref(),
            |value, over| {
                patch(&mut value.subagent_depth, over.subagent_depth.as_ref());
                patch(&mut value.subagent_fork, over.subagent_fork.as_ref());
                patch(&mut value.portable_shell_scanner, over.portable_shell_scanner.as_ref());
                patch(&mut value.code_mode, over.code_mode.as_ref());
            },
        )
    }

    /// Returns the settings of abide alone.
    pub fn abide(&self) -> AbideConfig {
        self.fold(
            |document| document.abide.as_ref(),
            |value, over| {
                if let Some(permission) = &over.permission {
                    let there = value.permission.get_or_insert_default();
                    patch(&mut there.noninteractive, permission.noninteractive.as_ref());
                    patch(&mut there.inherit_readonly, permission.inherit_readonly.as_ref());
                }
                if let Some(limits) = over.shell.as_ref().and_then(|shell| shell.limits.as_ref()) {
                    let there = value.shell.get_or_insert_default().limits.get_or_insert_default();
                    patch(&mut there.memory, limits.memory.as_ref());
                    patch(&mut there.cpu_seconds, limits.cpu_seconds.as_ref());
                    patch(&mut there.file_size, limits.file_size.as_ref());
                    patch(&mut there.open_files, limits.open_files.as_ref());
                    patch(&mut there.processes, limits.processes.as_ref());
                }
                if let Some(stream) = &over.stream {
                    patch(&mut value.stream.get_or_insert_default().idle_timeout, stream.idle_timeout.as_ref());
                }
                if let Some(log) = &over.log {
                    patch(&mut value.log.get_or_insert_default().level, log.level.as_ref());
                }
                if let Some(server) = &over.server {
                    patch_server(value.server.get_or_insert_default(), server);
                }
                if let Some(tools) = &over.tools {
                    let there = value.tools.get_or_insert_default();
                    patch(&mut there.patch, tools.patch.as_ref());
                    there.secret_files.extend(tools.secret_files.iter().cloned());
                }
                patch(&mut value.retention, over.retention.as_ref());
                patch(&mut value.js, over.js.as_ref());
                patch(&mut value.import_opencode, over.import_opencode.as_ref());
            },
        )
    }

    /// Returns the policies in the order in which they are asked; the last that matches decides. The user's word
    /// is after the project's, the administrator's after all.
    pub fn policies(&self) -> Vec<PolicyStatement> {
        let of = |document: &Document| {
            document.info.experimental.as_ref().map(|experimental| experimental.policies.clone()).unwrap_or_default()
        };
        let is_managed = |document: &&Document| document.origin.kind == OriginKind::Managed;
        let (managed, others): (Vec<_>, Vec<_>) = self.documents.iter().partition(is_managed);
        others.into_iter().rev().chain(managed).flat_map(of).collect()
    }

    fn fold<T: Default>(&self, key: impl Fn(&ConfigDocument) -> Option<&T>, patch: impl Fn(&mut T, &T)) -> T {
        let mut out = T::default();
        for over in self.documents.iter().filter_map(|document| key(&document.info)) {
            patch(&mut out, over);
        }
        out
    }
}

fn patch<T: Clone>(slot: &mut Option<T>, over: Option<&T>) {
    if let Some(over) = over {
        *slot = Some(over.clone());
    }
}

fn patch_server(server: &mut ServerConfig, over: &ServerConfig) {
    patch(&mut server.hostname, over.hostname.as_ref());
    patch(&mut server.port, over.port.as_ref());
    patch(&mut server.mdns, over.mdns.as_ref());
    patch(&mut server.mdns_domain, over.mdns_domain.as_ref());
    patch(&mut server.password_env, over.password_env.as_ref());
    if !over.cors.is_empty() {
        server.cors.clone_from(&over.cors);
    }
}

/// Lays what a later document says about an agent over what earlier ones say.
pub(crate) fn patch_agent(agent: &mut AgentConfig, over: &AgentConfig) {
    patch(&mut agent.name, over.name.as_ref());
    if let Some(model) = &over.model {
        let kept = agent.model.as_ref().and_then(|old| old.0.variant.clone());
        let mut model = model.clone();
        model.0.variant = model.0.variant.or(kept);
        agent.model = Some(model);
    }
    if let Some(request) = &over.request {
        let there = agent.request.get_or_insert_default();
        merge_headers(&mut there.headers, &request.headers);
        merge_json(&mut there.body, &request.body);
    }
    patch(&mut agent.system, over.system.as_ref());
    patch(&mut agent.description, over.description.as_ref());
    patch(&mut agent.mode, over.mode.as_ref());
    patch(&mut agent.hidden, over.hidden.as_ref());
    patch(&mut agent.color, over.color.as_ref());
    patch(&mut agent.steps, over.steps.as_ref());
    patch(&mut agent.disabled, over.disabled.as_ref());
    agent.permissions.extend(over.permissions.iter().cloned());
}

/// Lays what a later document says about a provider over what earlier ones say.
pub(crate) fn patch_provider(provider: &mut ProviderConfig, over: &ProviderConfig) {
    patch(&mut provider.name, over.name.as_ref());
    patch(&mut provider.canonical, over.canonical.as_ref());
    patch(&mut provider.env, over.env.as_ref());
    patch(&mut provider.package, over.package.as_ref());
    merge_json(&mut provider.settings, &over.settings);
    merge_headers(&mut provider.headers, &over.headers);
    merge_json(&mut provider.body, &over.body);
    patch(&mut provider.disabled, over.disabled.as_ref());
    patch(&mut provider.whitelist, over.whitelist.as_ref());
    patch(&mut provider.blacklist, over.blacklist.as_ref());
    for (id, model) in &over.models {
        match provider.models.get_mut(id) {
            Some(there) => patch_model(there, model),
            None => {
                provider.models.insert(id.clone(), model.clone());
            }
        }
    }
}

fn patch_model(model: &mut ModelConfig, over: &ModelConfig) {
    patch(&mut model.model_id, over.model_id.as_ref());
    patch(&mut model.name, over.name.as_ref());
    patch(&mut model.family, over.family.as_ref());
    patch(&mut model.package, over.package.as_ref());
    merge_json(&mut model.settings, &over.settings);
    merge_headers(&mut model.headers, &over.headers);
    merge_json(&mut model.body, &over.body);
    merge_json(&mut model.compatibility, &over.compatibility);
    merge_json(&mut model.request_defaults, &over.request_defaults);
    if let Some(capabilities) = &over.capabilities {
        let there = model.capabilities.get_or_insert_with(CapabilitiesConfig::default);
        patch(&mut there.tools, capabilities.tools.as_ref());
        patch(&mut there.parallel_tools, capabilities.parallel_tools.as_ref());
        patch(&mut there.reasoning, capabilities.reasoning.as_ref());
        patch(&mut there.endpoints, capabilities.endpoints.as_ref());
        patch(&mut there.input, capabilities.input.as_ref());
        patch(&mut there.output, capabilities.output.as_ref());
    }
    for variant in &over.variants {
        match model.variants.iter_mut().find(|there| there.id == variant.id) {
            Some(there) => patch_variant(there, variant),
            None => model.variants.push(variant.clone()),
        }
    }
    patch(&mut model.cost, over.cost.as_ref());
    patch(&mut model.disabled, over.disabled.as_ref());
    if let Some(limit) = &over.limit {
        let there = model.limit.get_or_insert_with(LimitConfig::default);
        patch(&mut there.context, limit.context.as_ref());
        patch(&mut there.input, limit.input.as_ref());
        patch(&mut there.output, limit.output.as_ref());
    }
    patch(&mut model.release_date, over.release_date.as_ref());
    patch(&mut model.status, over.status.as_ref());
}

fn patch_variant(variant: &mut VariantConfig, over: &VariantConfig) {
    merge_json(&mut variant.settings, &over.settings);
    merge_headers(&mut variant.headers, &over.headers);
    merge_json(&mut variant.body, &over.body);
    patch(&mut variant.disabled, over.disabled.as_ref());
}

/// Merges headers by name in any case.
pub(crate) fn merge_headers(headers: &mut HeaderMap, over: &HeaderMap) {
    for (name, value) in over {
        headers.retain(|known, _| !known.eq_ignore_ascii_case(name));
        headers.insert(name.clone(), value.clone());
    }
}
