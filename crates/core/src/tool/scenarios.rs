//! The scenarios of spec/tools.md section 16 (242) and the tests that play them, by the name of the test function. A test
//! below makes sure that each scenario is named once, and that the tests exist.
//!
//! Played:
//! - R1: `r1_the_later_registration_hides_the_earlier`
//! - R2: `r2_disposing_again_does_nothing`
//! - R3: `r3_the_middle_one_goes`
//! - R4 R7: `r4_r7_updates_and_removals_create_nothing`
//! - R5 R6: `r5_r6_an_update_keeps_the_name_and_must_be_valid`
//! - R8 R9 R10 R11 R12: `r8_to_r12_names`
//! - R13 R14: `r13_r14_a_reload_reads_what_is_captured_now`
//! - R15 R18: `r15_a_batch_is_one_publication_and_a_teardown_none`
//! - R16 R17: `r16_r17_layers_hide_each_other`
//! - R19: `r19_a_panicking_transform_is_left_out_and_then_off`
//! - R20 R21 R22 R23 R24 R25 R26: `r20_to_r26_a_snapshot_has_the_visible_tools_by_name`
//! - R27 R32: `r27_r32_a_call_of_something_that_was_not_offered`
//! - R28 R29 R30 R31: `r28_to_r31_only_what_was_advertised_runs`
//! - R33: `r33_a_call_finishes_with_the_tool_it_started_with`
//! - R34 R35: `r34_r35_hooks_of_a_request_rename_and_remove`
//! - R36: `r36_a_hook_mends_a_wrong_name`
//! - R37: `disabled_tools_are_refused`
//! - V1: `v1_more_than_five_issues_are_counted`
//! - V2: `v2_paths_of_issues`
//! - V3: `v3_arguments_are_repeated_whatever_they_are_and_cut`
//! - V4: `v4_surplus_properties_are_removed_at_every_level`
//! - V5: `v5_the_draft_follows_the_document`
//! - V6 V7: `v6_v7_what_cannot_be_compiled_accepts_everything_unchanged`
//! - V8: `v8_a_hundred_validators_are_kept`
//! - V9: `v9_invalid_input_never_reaches_a_leaf`
//! - V10: `arguments_that_are_not_json_fail_the_call_and_the_model_goes_on`
//! - V11: `v11_what_the_schema_cannot_say_is_an_issue_too`
//! - V12 V18: `v12_v18_schemas_from_outside`
//! - V13 V14 V15: `v13_v14_v15_outputs`
//! - V16: `v16_all_of_is_merged_where_nothing_clashes`
//! - V17: `v17_references_are_put_in_place_but_for_recursion`
//! - V19: `v19_definitions_are_equal_while_nothing_changes`
//! - B1: `s88_b1_a_leaf_cannot_catch_a_decline`
//! - B2: `b2_words_reach_the_model`
//! - B3: `b3_a_rule_that_denies_is_its_own_kind_also_behind_the_leafs_words`
//! - B4: `b4_a_panic_is_a_defect_of_that_call_alone`
//! - B5: `b5_an_interrupt_drops_the_leaf_and_its_tasks`
//! - B6: `b6_a_commit_runs_to_its_end_and_then_the_call_settles`
//! - B7 B14 B15 X1 X2: `random_schedules_keep_the_invariants`
//! - B10 B11: `b10_b11_a_hook_replaces_result_and_error`
//! - B12: `b12_hooks_do_not_see_what_is_no_outcome_of_a_tool`
//! - B13: `b13_a_hook_that_fails_changes_nothing_or_blocks`
//! - B16: `b16_progress_is_merged_deduplicated_and_limited`
//! - B17: `b17_the_context_has_the_ids_of_the_call`
//! - B18: `hosted_calls_run_nothing_here`
//! - B19: `dispatch`
//! - B20: `b20_the_cause_is_told_once_and_the_text_is_capped`
//! - O1: `o1_one_line_too_many`
//! - O2 O3: `o2_o3_limits_of_lines_and_bytes`
//! - O4: `o4_files_stay_where_they_are`
//! - O5: `o5_a_producer_that_bounded_itself_is_left_alone`
//! - O6 O7 O15: `o6_o7_o15_bounding_in_the_boundary`
//! - O8: `o8_an_unfinished_file_is_removed`
//! - O10: `o10_the_sweep_takes_old_managed_files_only`
//! - O11: `what_is_left_out_is_told_at_the_end`
//! - O12: `a_large_image_is_made_smaller`
//! - O13: `what_is_no_base64_image_passes`
//! - O14: `a_bomb_is_not_decoded`
//! - P1: `p1_the_last_matching_rule_decides_and_none_asks`
//! - P2: `p2_wildcards_are_runs_and_single_characters_and_nothing_else`
//! - P3: `p3_a_trailing_blank_and_star_may_be_missing`
//! - P4: `p4_an_absolute_rule_knows_a_relative_file`
//! - P5 P9: `p5_p9_a_request_of_several_resources`
//! - P6 P8: `p6_p8_rules_of_agent_and_session_in_order`
//! - P7 P28: `p28_the_request_is_the_calls_and_hides_the_agent`
//! - P10: `p10_rules_that_decide_ask_nobody`
//! - P11: `p11_once_runs_the_call_and_is_over`
//! - P12: `p12_a_refusal_takes_the_sessions_other_requests_along`
//! - P13: `p13_words_reach_the_model_and_the_run_goes_on`
//! - P14: `p14_always_saves_once_and_the_next_request_is_silent`
//! - P15: `p15_always_releases_what_is_covered_now`
//! - P16: `p16_always_without_patterns_is_once`
//! - P17: `p17_the_same_id_again_is_the_waiting_request`
//! - P18: `p18_leaving_the_wait_withdraws_the_request`
//! - P19: `p19_a_closed_service_declines`
//! - P20: `p20_nothing_cannot_be_permitted`
//! - P21: `p21_hooks_change_evaluations_but_no_configured_deny`
//! - P22: `p22_build_asks_for_secrets_and_for_what_is_outside`
//! - P23: `p23_plan_edits_plans_only_and_its_children_nothing`
//! - P24: `p24_explore_only_looks`
//! - P25: `p25_another_session_cannot_reply`
//! - P27: `p27_older_names_mean_todays_actions`
//! - P29: `p29_managed_output_is_readable_without_a_question`
//! - Q1: `q1_answers_come_in_the_order_of_the_questions`
//! - Q2: `q2_a_dismissal_ends_the_call`
//! - Q3: `a_denied_question_is_not_asked`
//! - Q4: `q4_answers_that_do_not_fit_leave_the_question_waiting`
//! - Q6 Q8: `q6_q8_only_a_waiting_question_of_the_session_is_answered`
//! - Q7: `q7_an_interrupt_withdraws_the_question`
//! - F1: `one_place_has_one_name`
//! - F2: `the_real_place_counts`
//! - F3: `what_is_no_path_is_refused_before_any_question`
//! - F4: `the_project_is_the_border`
//! - F5: `a_change_during_approval_is_seen`
//! - F6: `what_appears_during_approval_is_kept`
//! - F7: `of_two_conditional_writes_one_wins`
//! - F8: `locks_taken_in_other_orders_do_not_wait_for_each_other`
//! - F9: `one_mark_is_written`
//! - F11: `mode_links_and_hard_links_stay`
//! - RD1: `pages`
//! - RD2: `long_lines_and_large_files`
//! - RD3 RD4: `kinds_of_content`
//! - RD5: `directories`
//! - RD6: `a_missing_name_is_helped`
//! - RD7: `what_is_no_file_is_not_waited_for`
//! - RD8: `instructions_beside_a_file_are_given_once`
//! - RD9: `questions_come_first`
//! - WE1: `a_file_is_made_and_replaced`
//! - WE2: `outside_is_asked_for_and_a_denial_leaves_nothing`
//! - WE3: `what_cannot_be_edited_is_refused_without_a_question`
//! - WE4: `exact_text`
//! - WE5: `line_ends_stay`
//! - WE6: `quotes_and_dashes`
//! - WE7: `trailing_white_space`
//! - WE8: `one_other_indentation`
//! - WE9: `an_exact_edit_is_literal`
//! - WE10: `a_denied_edit_does_not_tell_what_is_there`
//! - WE11: `a_foreign_change_during_approval_is_kept`
//! - WE12: `two_edits_of_one_file_at_once`
//! - WE13: `a_link_stays_and_its_target_is_named`
//! - PA1: `add_update_delete_and_move_in_one_patch`
//! - PA2 PA3: `texts`
//! - PA4 PA5 PA6 PA11: `chunks`
//! - PA7: `operations_compose`
//! - PA8: `a_patch_that_does_not_fit_asks_nobody`
//! - PA9: `a_failure_in_the_middle_changes_nothing`
//! - PA10: `failures_say_what_became_of_the_files`
//! - PA12: `questions`
//! - PA13: `who_gets_patch`
//! - PA14: `pa14_plain_text_is_the_patch`
//! - GG1 GG3: `patterns`
//! - GG2: `what_the_model_sees`
//! - GG4: `places`
//! - GG5: `lines_are_found`
//! - GG6: `long_lines_are_cut`
//! - SH1: `how_it_ended`
//! - SH2: `the_directory_is_the_working_directory_or_the_given_one`
//! - SH3 SH4 SH6 SH7 SH8: `cases`
//! - SH5 SH9: `what_is_asked`
//! - SH10: `time_limits`
//! - SH11: `interrupts`
//! - SH12: `sizes`
//! - SH17: `the_environment_has_no_secrets_and_asks_nothing`
//! - SH19: `too_much_output_ends_it`
//! - WB1: `addresses_are_judged_before_anything_is_sent`
//! - WB2: `limits`
//! - WB3: `html_becomes_markdown_or_text`
//! - WB4: `a_challenge_is_answered_once_by_the_plain_name`
//! - WB5: `results_of_every_service`
//! - TD1: `the_list_is_replaced_and_announced`
//! - SK1: `a_skill_names_its_files`
//! - X5 X11: `a_batch_is_there_as_a_whole_or_not_at_all`
//! - X6: `every_mixture_that_a_crash_can_leave`
//! - X7: `a_call_applies_once`
//! - X12: `a_dead_server_leaves_no_command_behind`
//!
//! Missing, because what they are about is not there yet or has no test of its own:
//! - B8: two calls, one declined, in one step
//! - B9: errors of a plugin host
//! - O9: limits of several documents
//! - P26: words for the model when nobody can answer (a headless run ends and names the request instead)
//! - Q5: conditions between fields of a form
//! - F10: removal of a missing file (only patches remove, and they refuse)
//! - F12: formatters
//! - SH13 SH14 SH15 SH16 X8 X9 X10: background
//! - SH18: the hook before a command
//! - SA1 SA2 SA3: subagents
//! - MC1: MCP
//! - C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C13 C14 C15 C16 C17 C18: Code Mode
//! - X3: hosted calls over a restart
//! - X4: permissions over a restart
//!
//! The small cases of the same subjects:
//!
//! * edit C088 to C103: `cases` (builtin/edit/cases.json); C104: `a_link_stays_and_its_target_is_named`; C105:
//!   `mode_survives` and `what_cannot_be_edited_is_refused_without_a_question`; C106:
//!   `a_foreign_change_during_approval_is_kept`; C107: `two_edits_of_one_file_at_once`; C108:
//!   `a_large_file_is_never_half_written`
//! * patch C109 to C117: `cases` (builtin/patch/cases.json)
//! * shell-permission C124 to C131: `cases` (shell/judge), C132: `cases` (shell/places); beyond them
//!   `nothing_slips_past_a_deny_or_a_narrow_allow`, `the_red_team_gets_nowhere` and `real_shells_run_nothing_else`
//! * shell-run C138: `children_in_the_background`, C139: `questions_nobody_can_answer`, C140: `time_limits`, C141:
//!   `interrupts`, C142: `sizes`, C143: `bytes`, C144: `how_it_ended`; C145 is about background calls and missing here

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How many scenarios each letter has.
const SCENARIOS: &[(&str, usize)] = &[
    ("R", 37),
    ("V", 19),
    ("B", 20),
    ("O", 15),
    ("P", 29),
    ("Q", 8),
    ("F", 12),
    ("RD", 9),
    ("WE", 13),
    ("PA", 14),
    ("GG", 6),
    ("SH", 19),
    ("WB", 5),
    ("TD", 1),
    ("SK", 1),
    ("SA", 3),
    ("MC", 1),
    ("C", 18),
    ("X", 12),
];

fn sources(directory: &Path, out: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                sources(&path, out);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_scenario_has_a_test_or_is_named_as_missing() {
    let listed: Vec<(&str, &str)> =
        include_str!("scenarios.rs").lines().filter_map(|line| line.strip_prefix("//! - ")?.split_once(": ")).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for id in listed.iter().flat_map(|(ids, _)| ids.split(' ')) {
        *counts.entry(id.to_owned()).or_default() += 1;
    }
    let expected =
        SCENARIOS.iter().flat_map(|(letters, count)| (1..=*count).map(move |n| (format!("{letters}{n}"), 1)));
    assert_eq!(counts, expected.collect());
    assert_eq!(counts.len(), 242);

    let mut code = String::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    sources(crates, &mut code);
    sources(&crates.parent().unwrap().join("tests/tests"), &mut code);
    let cases = include_str!("scenarios.rs").lines().skip_while(|line| !line.contains("The small cases"));
    let cases: String = cases.take_while(|line| line.starts_with("//!")).collect();
    for name in cases.split('`').skip(1).step_by(2) {
        assert!(code.contains(&format!("fn {name}(")), "there is no test {name}");
    }
    for (ids, name) in listed {
        if let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) {
            assert!(code.contains(&format!("fn {name}(")), "{ids}: there is no test {name}");
        }
    }
}
