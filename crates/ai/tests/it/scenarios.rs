//! The scenarios of the specification (section 19), and where each is tested.
//!
//! A test is named by module and function (modules of this folder first), a fixture by folder and file.
//! [`the_table_is_true`] checks that all of them exist. Scenarios without a row belong to wire formats whose
//! suites stand apart.
//!
//! | scenario | tests |
//! | --- | --- |
//! | 1 | model::s1_a_minimal_request_decodes_and_an_unknown_event_does_not |
//! | 2 | model::s2_route_ids_and_model_ids_are_free |
//! | 3 | model::s3_short_forms_build_the_same_structs |
//! | 4 | model::s4_an_update_keeps_what_it_does_not_change |
//! | 5 | model::s5_words_make_tool_choices |
//! | 6 | model::s6_generation_options_merge_by_field |
//! | 7 | model::s7_option_objects_merge_deeply |
//! | 8 | model::s8_http_overlays_merge_and_false_is_kept |
//! | 9 | model::s9_nothing_merges_to_nothing |
//! | 10 | model::s10_whole_numbers_have_no_fraction |
//! | 11 | tools::token_arithmetic |
//! | 12 | tools::interleaved_blocks_keep_their_order_and_last_metadata |
//! | 13 | tools::without_an_end_there_is_no_response_but_partial_content |
//! | 14 | model::s14_closed_blocks_are_no_end |
//! | 15 | model::s15_the_usage_of_the_finish_wins |
//! | 16 | model::s16_arguments_alone_are_no_content |
//! | 17 | model::s17_a_stream_without_a_terminal_event_fails |
//! | 18 | model::s18_words_of_the_provider_pass_through |
//! | 19 | client::urls |
//! | 20 | client::urls |
//! | 21 | client::a_route_is_changed_by_copy |
//! | 22 | client::a_route_is_changed_by_copy |
//! | 23 | client::auth |
//! | 24 | client::auth, providers::a_missing_key_names_its_variables |
//! | 25 | client::auth, client::keys_come_from_the_variables_of_the_provider |
//! | 26 | providers::explicit_auth_wins_over_the_environment |
//! | 27 | client::auth |
//! | 28 | call::s28_a_body_overlay_merges_replaces_and_sends_null, chat-requests/overlay |
//! | 29 | client::prepare_sends_nothing |
//! | 30 | call::s30_two_routes_of_one_id_are_two_routes |
//! | 31 | client::dropping_the_stream_closes_the_body, executor::dropping_the_stream_closes_the_connection |
//! | 32 | client::middleware, call::s32_a_failure_reports_the_rewritten_address |
//! | 33 | call::s33_one_terminal_event_and_nothing_after_it |
//! | 34 | client::headers_are_waited_for_so_long, call::s34_and_s35_a_timer_that_is_off_never_ends_the_wait |
//! | 35 | client::each_piece_of_the_body_restarts_the_timer, client::content_is_waited_for_so_long, call::s35_a_local_server_is_given_longer_until_its_first_byte |
//! | 36 | failures::s36_to_s45_statuses_codes_and_words |
//! | 37 | failures::s36_to_s45_statuses_codes_and_words |
//! | 38 | failures::s36_to_s45_statuses_codes_and_words |
//! | 39 | failures::s36_to_s45_statuses_codes_and_words |
//! | 40 | failures::s40_every_phrase_of_an_overflow |
//! | 41 | failures::s36_to_s45_statuses_codes_and_words |
//! | 42 | failures::s36_to_s45_statuses_codes_and_words |
//! | 43 | failures::s36_to_s45_statuses_codes_and_words |
//! | 44 | failures::s36_to_s45_statuses_codes_and_words |
//! | 45 | failures::s36_to_s45_statuses_codes_and_words |
//! | 46 | cases::rows::retry_after |
//! | 47 | cases::rows::rate_limit_headers |
//! | 48 | failures::s48_the_message_of_a_long_body_is_the_providers |
//! | 49 | failures::s49_the_body_is_kept_byte_for_byte, client::errors_keep_the_body_and_show_little_of_it |
//! | 50 | client::a_broken_error_body_still_gives_the_status |
//! | 51 | failures::s51_no_context_is_made_up |
//! | 52 | executor::nobody_listens |
//! | 53 | failures::s53_a_failure_inside_a_stream_keeps_the_whole_event |
//! | 54 | failures::s54_a_known_event_of_the_wrong_form_is_refused_with_its_frame |
//! | 55 | failures::s55_another_kind_keeps_what_is_known |
//! | 56 | cases::rows::one_attempt_only, call::s56_a_stream_that_broke_is_not_sent_again |
//! | 57 | failures::s57_secrets_do_not_print |
//! | 58 | framing::events, framing::any_split_gives_the_same_frames |
//! | 59 | framing::events |
//! | 60 | framing::events |
//! | 64 | streams/openai-chat/tool-call-malformed, streams/anthropic-messages/tool-call-no-arguments, streams/anthropic-messages/hosted-malformed |
//! | 65 | toolkit::s65_arguments_need_a_start_and_the_final_text_wins |
//! | 66 | toolkit::s66_the_first_identity_stays |
//! | 67 | toolkit::s67_a_wrapped_update_cannot_close_its_wrapper |
//! | 68 | toolkit::s68_media_is_checked |
//! | 69 | toolkit::s69_the_cache_key_is_short_and_can_be_switched_off |
//! | 70 | toolkit::s70_thinking_leaves_room_for_the_answer |
//! | 71 | toolkit::s71_an_explicit_sanitizer_wins_over_the_name_of_the_model, cases::rows::schemas_that_are_hardly_there |
//! | 72 | toolkit::s72_what_gemini_takes |
//! | 73 | toolkit::s73_what_moonshot_takes |
//! | 74 | toolkit::s74_marks_of_the_default |
//! | 75 | toolkit::s75_routes_without_marks_are_left_alone |
//! | 76 | toolkit::s76_explicit_policies |
//! | 77 | toolkit::s77_an_hour_is_asked_for_from_an_hour_on |
//! | 78 | toolkit::s78_four_marks_at_most_tools_first |
//! | 79 | chat-requests/basic |
//! | 80 | chat-requests/update |
//! | 81 | chat-requests/tool-loop, chat-requests/result-error-object |
//! | 82 | chat-requests/result-files |
//! | 83 | chat-requests/reasoning-replay, chat-requests/reasoning-details, chat-requests/reasoning-details-bare, chat-requests/reasoning-required, chat-requests/reasoning-native, chat::s83_openrouter_sends_reasoning_only_with_details |
//! | 84 | chat::s84_what_is_detected, providers::every_provider_is_reached_as_its_table_says |
//! | 85 | chat-requests/ids-mistral, chat-requests/ids-claude, chat-requests/ids-short, chat-requests/ids-unchanged |
//! | 86 | chat::s86_an_assistant_turn_between_tool_and_user |
//! | 87 | streams/openai-chat/text, streams/openai-chat/usage-details |
//! | 88 | streams/openai-chat/reasoning-content, streams/openai-chat/reasoning-details-late |
//! | 89 | streams/openai-chat/tool-call-without-index, streams/openai-chat/tool-calls-without-index-together, streams/openai-chat/tool-calls-parallel, chat::s89_identity_may_come_late |
//! | 90 | streams/openai-chat/tool-call-forced |
//! | 91 | streams/openai-chat/tool-call-cut-by-limit |
//! | 92 | chat::s92_after_the_finish_only_usage_counts, streams/openai-chat/after-the-finish, streams/openai-chat/usage-zero |
//! | 93 | failures::s93_and_s107_and_s128_error_events |
//! | 94 | streams/openai-chat/cut-in-text, chat::s94_without_a_reason_no_call_is_finished |
//! | 95 | requests/anthropic-messages/basic, requests/anthropic-messages/default-cap, requests/anthropic-messages/own-cap |
//! | 96 | requests/anthropic-messages/system-update-native, requests/anthropic-messages/system-update-dated, requests/anthropic-messages/system-update-newer, requests/anthropic-messages/system-update-older |
//! | 97 | requests/anthropic-messages/system-update-misplaced, requests/anthropic-messages/system-update-appended |
//! | 98 | requests/anthropic-messages/system-update-splits-call |
//! | 99 | requests/anthropic-messages/system-update-media |
//! | 100 | requests/anthropic-messages/thinking, requests/anthropic-messages/thinking-unsigned |
//! | 101 | requests/anthropic-messages/tool-result-content, requests/anthropic-messages/tool-result-audio |
//! | 102 | requests/anthropic-messages/tool-results |
//! | 103 | requests/anthropic-messages/blank-text |
//! | 104 | requests/anthropic-messages/hosted, requests/anthropic-messages/hosted-unknown, streams/anthropic-messages/hosted-error |
//! | 105 | streams/anthropic-messages/thinking, streams/anthropic-messages/stop-sequence, streams/anthropic-messages/usage-merged |
//! | 106 | streams/anthropic-messages/tool-call, streams/anthropic-messages/tool-call-no-arguments, streams/anthropic-messages/refusal |
//! | 107 | failures::s93_and_s107_and_s128_error_events, streams/anthropic-messages/error-empty |
//! | 108 | streams/anthropic-messages/cut-after-message-delta, streams/anthropic-messages/cut-in-text |
//! | 109 | requests/gemini/minimal, requests/gemini/tools |
//! | 110 | streams/gemini/thoughts-signed, streams/gemini/signature-alone, requests/gemini/unsigned-new, requests/gemini/unsigned-old |
//! | 111 | requests/gemini/result-files-new, requests/gemini/result-files-old |
//! | 112 | streams/gemini/tool-calls-without-ids, streams/gemini/tool-call |
//! | 113 | streams/gemini/usage-without-candidates, streams/gemini/thoughts |
//! | 114 | streams/gemini/prompt-blocked, streams/gemini/line-feeds, streams/gemini/error-exhausted |
//! | 119 | requests/openai-responses/basic, requests/openai-responses/system-as-input, requests/openai-responses/system-update, requests/openai-responses/media, requests/openai-responses/tool-result-content |
//! | 120 | requests/openai-responses/reasoning, requests/openai-responses/reasoning-without-ciphertext, requests/openai-responses/item-ids, requests/openai-responses/assistant-items |
//! | 121 | requests/openai-responses/options, requests/openai-responses/options-malformed, requests/openai-responses/allowed-tools, requests/openai-responses/include-empty |
//! | 122 | providers::every_provider_is_reached_as_its_table_says, providers::leftover_settings_are_options |
//! | 123 | streams/openai-responses/text, streams/openai-responses/refusal, streams/openai-responses/text-done-only, streams/openai-responses/text-registered-twice, streams/openai-responses/text-two-messages |
//! | 124 | streams/openai-responses/reasoning-implicit-parts, streams/openai-responses/text-changing-item-id, streams/openai-responses/reasoning-twice, streams/openai-responses/reasoning-item-only |
//! | 125 | streams/openai-responses/tool-call, streams/openai-responses/tool-call-done-only, streams/openai-responses/tool-call-suffix, streams/openai-responses/tool-call-replaced, streams/openai-responses/tool-call-recovered |
//! | 126 | streams/openai-responses/hosted, streams/openai-responses/hosted-image, streams/openai-responses/hosted-image-malformed |
//! | 127 | streams/openai-responses/incomplete-length, streams/openai-responses/incomplete-filter |
//! | 128 | failures::s93_and_s107_and_s128_error_events, streams/openai-responses/failed, streams/openai-responses/failed-empty, streams/openai-responses/error-nested, streams/openai-responses/error-empty |
//! | 129 | streams/openai-responses/after-the-end |
//! | 137 | tools::dispatch |
//! | 138 | tools::output_and_result_mirror_each_other, tools::dispatch |
//! | 139 | tools::objects |
//! | 140 | providers::every_provider_is_reached_as_its_table_says |
//! | 141 | providers::leftover_settings_are_options |
//! | 142 | recorder::record_and_replay, recorder::equal_requests_get_responses_in_order |
//! | 143 | recorder::secrets_are_refused, recorder::record_and_replay |
//! | 144 | chat::s144_scripted_answers_repeat_the_last |

mod call;
mod chat;
mod failures;
mod model;
mod toolkit;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Scenarios of wire formats whose suites stand apart: AWS frames, Bedrock, WebSocket.
const APART: [std::ops::RangeInclusive<u32>; 3] = [61..=63, 115..=118, 130..=136];

#[test]
fn the_table_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let page = fs::read_to_string(folder.join("scenarios.rs")).unwrap();
    let mut found = BTreeSet::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("//! | ")) {
        let (number, tests) = line.trim_end_matches(" |").split_once(" | ").unwrap();
        let Ok(number) = number.parse::<u32>() else { continue };
        assert!(found.insert(number), "scenario {number} is there twice");
        for test in tests.split(", ") {
            if let Some((module, function)) = test.rsplit_once("::") {
                let path = module.replace("::", "/");
                let files = [folder.join(format!("scenarios/{path}.rs")), folder.join(format!("{path}.rs"))];
                let text = files.iter().find_map(|file| fs::read_to_string(file).ok());
                let text = text.unwrap_or_else(|| panic!("scenario {number}: no module {module}"));
                assert!(text.contains(&format!("fn {function}(")), "scenario {number}: no test {test}");
            } else {
                let is_there = ["json", "txt"].iter().any(|end| folder.join(format!("{test}.{end}")).is_file());
                assert!(is_there, "scenario {number}: no fixture {test}");
            }
        }
    }
    for number in 1..=144 {
        let is_apart = APART.iter().any(|range| range.contains(&number));
        assert!(found.contains(&number) != is_apart, "scenario {number}");
    }
}
