//! What each operation does. One file for each group of routes.

mod asks;
mod catalogue;
mod events;
mod files;
mod inbox;
mod integrations;
mod messages;
mod sessions;
mod system;

use abide_protocol::Op;
use axum::response::Response;

use crate::app::not_served;
use crate::context::{Context, Refusal};

/// Hands a request to its operation.
pub(crate) async fn dispatch(context: Context) -> Result<Response, Refusal> {
    match context.route.op {
        Op::HealthGet => system::health(),
        Op::LocationGet => system::location(&context).await,
        Op::OpenApiGet => system::openapi(),
        Op::EventSubscribe => events::instance(&context),
        Op::AgentList => catalogue::agents(&context).await,
        Op::ModelList => catalogue::models(&context).await,
        Op::ProviderList => catalogue::providers(&context).await,
        Op::ProviderGet => catalogue::provider(&context).await,
        Op::CommandList => catalogue::commands(&context).await,
        Op::SkillList => catalogue::skills(&context).await,
        Op::ReferenceList => catalogue::references(&context).await,
        Op::SessionList => sessions::list(&context).await,
        Op::SessionCreate => sessions::create(context).await,
        Op::SessionActiveList => sessions::active(&context),
        Op::SessionGet => sessions::get(&context),
        Op::SessionSwitchAgent => sessions::switch_agent(context).await,
        Op::SessionSwitchModel => sessions::switch_model(context).await,
        Op::SessionPrompt => sessions::prompt(context).await,
        Op::SessionCompact => sessions::compact(&context).await,
        Op::SessionWait => sessions::wait(&context).await,
        Op::SessionBackground => sessions::background(&context).await,
        Op::SessionInterrupt => sessions::interrupt(&context).await,
        Op::SessionContext => messages::context(&context).await,
        Op::MessageList => messages::list(&context).await,
        Op::MessageGet => messages::get(&context).await,
        Op::SessionHistory => events::history(&context).await,
        Op::SessionFollow => events::session(&context),
        Op::SessionLog | Op::SessionLogExperimental => events::log(&context),
        Op::PermissionRequestList => asks::permissions_of_location(&context).await,
        Op::PermissionSavedList => asks::saved_permissions(&context).await,
        Op::PermissionSavedRemove => asks::remove_saved_permission(&context).await,
        Op::PermissionList => asks::permissions(&context).await,
        Op::PermissionCreate => asks::create_permission(context).await,
        Op::PermissionGet => asks::permission(&context).await,
        Op::PermissionReply => asks::reply_permission(context).await,
        Op::QuestionRequestList => asks::questions_of_location(&context).await,
        Op::QuestionList => asks::questions(&context).await,
        Op::QuestionReply => asks::reply_question(context).await,
        Op::QuestionReject => asks::reject_question(&context).await,
        Op::FileRead => files::read(&context).await,
        Op::FileList => files::list(&context).await,
        Op::FileFind => files::find(&context).await,
        Op::IntegrationList => integrations::list(&context).await,
        Op::IntegrationGet => integrations::get(&context).await,
        Op::IntegrationConnectKey => integrations::connect_key(context).await,
        Op::IntegrationConnectOauth => integrations::connect_oauth(context).await,
        Op::IntegrationAttemptGet => integrations::attempt(&context).await,
        Op::IntegrationAttemptComplete => integrations::complete_attempt(context).await,
        Op::IntegrationAttemptCancel => integrations::cancel_attempt(&context).await,
        Op::CredentialUpdate => integrations::relabel(context).await,
        Op::CredentialRemove => integrations::remove(&context).await,
        Op::SessionFork => sessions::fork(context).await,
        Op::SessionMove => sessions::move_to(context).await,
        Op::SessionDelete => sessions::delete(&context).await,
        Op::InboxList => inbox::list(&context).await,
        Op::InboxUpdate => inbox::update(context).await,
        Op::InboxCancel => inbox::cancel(&context).await,
        Op::RevertStage => sessions::stage_revert(context).await,
        Op::RevertClear => sessions::clear_revert(&context).await,
        Op::RevertCommit => sessions::commit_revert(&context).await,
        op @ (Op::PtyList
        | Op::PtyCreate
        | Op::PtyGet
        | Op::PtyUpdate
        | Op::PtyRemove
        | Op::PtyConnectToken
        | Op::PtyConnect) => Err(not_served(op).into()),
    }
}
