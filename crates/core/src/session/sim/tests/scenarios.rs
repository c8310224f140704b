//! The scenarios of spec/session.md section 13 and the tests that show them; a scenario without a line has no test of
//! its own yet.

/// Scenario, then the names of its tests, which may be in any crate of the workspace.
const SCENARIOS: &[(&str, &[&str])] = &[
    ("S01", &["sequences_are_dense_and_independent"]),
    ("S02", &["subscribers_see_what_is_committed"]),
    ("S03", &["a_failed_event_undoes_its_batch"]),
    ("S04", &["a_failed_hook_undoes_its_batch"]),
    ("S06", &["a_slow_subscriber_ends_alone"]),
    ("S07", &["subscribers_see_what_is_committed"]),
    ("S08", &["a_slow_subscriber_ends_alone"]),
    ("S10", &["every_durable_event_comes_back"]),
    ("S11", &["a_tail_replays_and_follows", "a_slow_tail_misses_nothing"]),
    ("S12", &["a_tail_replays_and_follows"]),
    ("S13", &["a_slow_tail_misses_nothing"]),
    ("S15", &["an_unknown_type_is_passed_over", "an_unknown_type_is_refused"]),
    ("S16", &["a_copy_equals_the_original"]),
    ("S17", &["a_record_must_be_of_one_session"]),
    ("S18", &["a_gap_is_refused"]),
    ("S19", &["known_records_change_nothing"]),
    ("S20", &["an_id_is_taken_once", "an_id_makes_an_append_idempotent"]),
    ("S21", &["a_log_has_one_replayer"]),
    ("S22", &["accepted_records_are_published"]),
    ("S23", &["removal_forgets_a_session"]),
    ("S24", &["conditions_are_checked"]),
    ("S25", &["a_stale_fence_writes_nothing"]),
    ("S26", &["projections_follow_the_log", "random_schedules_keep_the_invariants"]),
    ("S27", &["another_process_reaches_a_tail"]),
    ("S28", &["two_that_start_together_migrate_once"]),
    ("S29", &["pages_have_ends"]),
    ("S30", &["a_page_sees_what_came_between"]),
    ("S31", &["one_of_two_creations_wins"]),
    ("S35", &["messages_are_paged_both_ways", "pages_of_sessions"]),
    ("S36", &["order_follows_the_log"]),
    ("S37", &["a_deleted_session_stays_deleted"]),
    ("S46", &["inputs_wait_in_order"]),
    ("S50", &["one_compaction_waits"]),
    ("S52", &["s52_concurrent_resumes_join_one_run"]),
    ("S53", &["s53_joining_a_run_that_a_wake_started_forces_no_other"]),
    ("S54", &["s54_wakes_while_active_are_one_follow_up"]),
    ("S55", &["s55_an_interrupt_of_an_idle_session_does_nothing_and_of_a_running_one_ends_it"]),
    ("S56", &["s70_a_steer_during_a_failing_step_runs_after_it"]),
    ("S57", &["s57_a_waiter_that_leaves_does_not_end_the_run"]),
    ("S59", &["s59_very_many_wakes_do_not_grow_anything"]),
    ("S60", &["s60_waiting_starts_nothing"]),
    ("S61", &["s61_s62_steers_before_the_start_are_one_request"]),
    ("S62", &["s61_s62_steers_before_the_start_are_one_request"]),
    ("S64", &["a_local_call_starts_after_its_announcement"]),
    ("S65", &["random_schedules_keep_the_invariants"]),
    ("S66", &["s66_steers_during_a_step_are_one_continuation"]),
    ("S67", &["s67_queued_prompts_run_one_at_a_time_and_after_steers"]),
    ("S68", &["c18_queued_prompts_stay_in_order"]),
    ("S69", &["s69_an_interrupt_parks_what_waits"]),
    ("S70", &["s70_a_steer_during_a_failing_step_runs_after_it"]),
    ("S71", &["s71_a_model_switched_during_a_tool_answers_the_continuation"]),
    ("S72", &["s72_the_last_step_is_text_only"]),
    ("S73", &["s73_a_steer_gives_all_steps_again"]),
    ("S74", &["s74_s75_a_failure_is_one_failed_step"]),
    ("S75", &["s74_s75_a_failure_is_one_failed_step"]),
    ("S76", &["s76_s77_a_tool_that_runs_is_awaited_and_nothing_follows_a_failure"]),
    ("S77", &["s76_s77_a_tool_that_runs_is_awaited_and_nothing_follows_a_failure"]),
    ("S78", &["hosted_calls_run_nothing_here", "c11_a_hosted_call_without_result_is_failed_inline"]),
    ("S81", &["open_fragments_are_closed_in_order"]),
    ("S82", &["twenty_thousand_deltas_arrive_whole"]),
    ("S83", &["breaches_of_the_protocol_are_named"]),
    ("S84", &["arguments_that_are_not_json_fail_the_call_and_the_model_goes_on"]),
    ("S85", &["r27_r32_a_call_of_something_that_was_not_offered"]),
    ("S86", &["s86_a_panic_or_defect_of_a_tool_goes_to_the_model"]),
    ("S87", &["s87_a_decline_ends_the_execution_as_interrupted"]),
    ("S88", &["s88_b1_a_leaf_cannot_catch_a_decline"]),
    ("S89", &["s89_an_interrupt_while_streaming_and_while_a_tool_runs"]),
    ("S90", &["cost_follows_the_tier_of_the_prompt", "usage_is_split_into_disjoint_counts"]),
    ("S92", &["the_first_words_become_the_title"]),
    ("S94", &["b16_progress_is_merged_deduplicated_and_limited"]),
    ("S95", &["o2_o3_limits_of_lines_and_bytes"]),
    ("S96", &["s96_retries_keep_the_message_and_are_four_at_most"]),
    ("S97", &["delays_double_with_jitter_and_respect_the_provider"]),
    ("S98", &["s98_what_waiting_does_not_mend_is_not_tried_again"]),
    ("S99", &["s99_an_interrupt_ends_the_wait_for_a_retry_at_once"]),
    ("S102", &["the_tail_holds_whole_entries_within_the_limit", "the_newest_words_of_the_user_stay_word_for_word"]),
    ("S103", &["an_overflow_after_a_retried_attempt_is_compacted", "a_compaction_that_does_not_help_ends_the_turn"]),
    ("S104", &["a_summary_that_cannot_be_made_fails_the_step_and_loses_nothing"]),
    ("S105", &["the_first_baseline_waits_for_all_sources"]),
    ("S106", &["each_situation_of_the_table"]),
    ("S107", &["c17_after_a_compaction_the_next_step_has_a_fresh_baseline"]),
    ("S111", &["c00_an_admitted_prompt_that_nobody_woke_runs_once", "c01_a_parked_prompt_stays_pending"]),
    (
        "S112",
        &[
            "c02_an_execution_that_had_only_begun_is_resumed_and_counted",
            "c03_the_rest_of_a_batch_is_promoted_in_order",
        ],
    ),
    ("S113", &["c05_a_request_without_output_is_made_again_and_named"]),
    ("S114", &["c07_text_is_kept_as_far_as_it_was_drafted"]),
    ("S115", &["c08_arguments_that_were_not_complete_ran_nothing"]),
    ("S116", &["c09_a_call_whose_effect_had_not_begun_may_be_repeated"]),
    ("S117", &["a_batch_is_there_as_a_whole_or_not_at_all"]),
    ("S118", &["every_mixture_that_a_crash_can_leave"]),
    ("S119", &["a_dead_server_leaves_no_command_behind", "a_command_of_which_nothing_is_left_is_unknown"]),
    ("S120", &["c11_a_hosted_call_without_result_is_failed_inline"]),
    ("S121", &["c12_the_calls_that_are_left_are_settled_and_the_others_keep_their_results"]),
    (
        "S122",
        &["c13_results_without_a_step_terminal_are_kept_and_gone_on_from", "c14_a_continuation_that_was_owed_is_made"],
    ),
    ("S123", &["c15_a_retry_that_was_announced_is_a_new_step"]),
    ("S124", &["c16_a_compaction_that_was_running_is_failed_and_changes_nothing"]),
    ("S126", &["i14_recovery_is_idempotent"]),
    ("S127", &["only_resumes_without_a_completed_step_are_counted"]),
    ("S130", &["c27_a_live_owner_is_left_alone"]),
    ("S133", &["a_loop_survives_kills_at_random_moments", "each_fault_point_leaves_a_sound_session"]),
    ("S134", &["random_schedules_keep_the_invariants"]),
    ("S135", &["a_dead_owner_is_replaced_once", "a_stale_fence_writes_nothing"]),
];

/// The sources of the workspace that hold tests.
const TREES: &[&str] = &["../schema/src", "../server/src", "src", "../../tests"];

fn sources(directory: &std::path::Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_named_test_exists() {
    let mut text = String::new();
    for tree in TREES {
        sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(tree), &mut text);
    }
    for (scenario, tests) in SCENARIOS {
        for test in *tests {
            assert!(text.contains(&format!("fn {test}(")), "{scenario}: there is no test {test}");
        }
    }
    let numbers: Vec<u32> = SCENARIOS.iter().map(|(name, _)| name.trim_start_matches('S').parse().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "the scenarios are in order, each once");
}
