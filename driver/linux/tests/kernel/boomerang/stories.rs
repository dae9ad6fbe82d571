//! Every story of whole nodes (`engine/node/tests/boomerang`), played to the programs: what machine 1 heard on its two
//! sides goes through the XDP program and the engine, at the times of the story; equal bytes go out, the tables and what
//! is free are equal.

use super::differ::Both;
use crate::kernel::{allowance, authentic, faults, gathering, group, locks, promises, replies, sites};
use crate::scratch::in_netns;

const STORIES: &[fn()] = &[
    allowance::a_flood_in_somebodys_name_leaves_his_sessions_alone,
    allowance::who_proves_it_has_an_allowance_of_his_own,
    allowance::what_is_replayed_uses_up_nothing_of_its_first_sender,
    authentic::who_proves_it_reserves_and_who_does_not_is_refused,
    authentic::a_wrong_key_proves_nothing,
    authentic::a_message_that_is_said_again_is_not_believed_again,
    authentic::what_is_changed_by_somebody_without_the_key_is_not_believed,
    faults::b1_the_far_end_never_replies,
    faults::b2_the_far_end_replies_twice,
    faults::b3_a_reply_without_a_request_makes_no_state,
    faults::b3_a_forged_refusal_takes_nothing_away,
    faults::b4_a_reply_with_another_rate_is_not_believed_and_reserves_what_it_says_at_most_here,
    faults::b5_an_asymmetric_way_back_is_reported,
    faults::b6_a_host_that_answers_some_pings_only,
    faults::b7_a_nat_rewrites_identifier_and_sequence,
    faults::b8_a_truncated_or_fragmented_probe_goes_on_and_reserves_nothing,
    faults::b9_a_hop_refuses_in_the_middle,
    faults::b10_nothing_goes_towards_everybody,
    faults::b11_a_flood_of_forged_set_ups_is_bounded,
    faults::b12_a_refresh_slower_than_the_life_of_state,
    faults::b12_two_initiators_of_one_flow,
    faults::b13_a_lost_release,
    faults::b14_a_router_restarts_while_the_message_is_out,
    faults::b15_an_old_router_strips_or_zeroes_the_body,
    faults::a_message_whose_time_is_over_ends_and_reserves_nothing,
    faults::an_answer_is_the_request_turned,
    gathering::behind_the_gathering_node_only_the_whole_is_held,
    gathering::the_whole_times_out_when_nobody_names_it,
    group::every_branch_is_reserved_and_nobody_answers,
    group::what_the_senders_own_node_refuses_is_said,
    group::a_branch_that_leaves_times_out,
    group::what_breaks_the_rules_for_groups_ends,
    locks::a_locked_reservation_takes_two_loops,
    locks::a_spoofed_request_holds_capacity_for_a_moment_only,
    promises::both_directions_are_reserved_in_one_round_trip_past_an_unaware_router_and_an_unmodified_host,
    promises::refreshes_keep_it_and_never_touch_the_ledger,
    promises::whoever_stops_refreshing_loses_it_after_three_and_a_half_intervals,
    promises::three_refreshes_in_a_row_may_be_lost,
    promises::rate_zero_releases_in_one_round_trip,
    promises::a_change_of_rate_is_one_message,
    promises::a_refusal_says_what_there_is_and_leaves_nothing_behind,
    promises::a_raise_that_is_refused_leaves_what_was_there_everywhere,
    promises::who_would_take_less_gets_what_there_is,
    promises::a_vector_comes_back_with_the_first_pair_that_fits_everywhere,
    promises::a_vector_of_which_nothing_fits_is_refused,
    promises::a_shorter_refresh_interval_is_adopted,
    promises::a_session_under_a_mask_is_one_block_for_all_its_flows,
    promises::ipv6_is_the_same_in_icmpv6,
    promises::an_aware_far_end_reserves_on_its_own_link_and_answers,
    promises::what_the_plane_cannot_install_is_refused_with_the_reply,
    promises::rsvp_and_boomerang_share_one_ledger,
    replies::any_reply_makes_state_where_that_is_said,
    replies::only_proven_replies_make_state_where_that_is_said,
    replies::a_known_reply_may_be_to_a_request_that_reserved_nothing,
    sites::two_sites_are_one_session_each_way,
    sites::sites_of_ipv6_are_the_same,
    sites::a_session_within_two_sites_is_its_own,
    sites::a_mask_that_no_plane_can_look_up_is_refused,
    sites::an_interface_knows_few_lengths,
];

/// As many as there are tests in their files.
#[test]
fn no_story_is_left_out() {
    let files = [
        include_str!("../../../../../engine/node/tests/boomerang/allowance.rs"),
        include_str!("../../../../../engine/node/tests/boomerang/authentic.rs"),
        include_str!("../../../../../engine/node/tests/boomerang/faults.rs"),
        include_str!("../../../../../engine/node/tests/boomerang/gathering.rs"),
        include_str!("../../../../../engine/node/tests/boomerang/group.rs"),
        include_str!("../../../../../engine/node/tests/boomerang/locks.rs"),
        include_str!("../../../../../engine/node/tests/boomerang/promises.rs"),
        include_str!("../../../../../engine/node/tests/boomerang/replies.rs"),
        include_str!("../../../../../engine/node/tests/boomerang/sites.rs"),
    ];
    let there: usize = files.iter().map(|text| text.matches("#[test]").count()).sum();
    assert_eq!(STORIES.len(), there);
}

#[test]
fn every_story_has_the_same_effect() {
    in_netns(|| {
        let (mut both, mut tapes) = (Both::new(), 0);
        for (number, story) in STORIES.iter().enumerate() {
            story();
            for tape in crate::kernel::net::tapes() {
                both.play(&tape, number);
                tapes += 1;
            }
        }
        let [decided, told, passed] = both.tally;
        println!("{tapes} tapes: {decided} messages decided, {told} told, {passed} let through");
        assert!(tapes >= STORIES.len() && decided > 1_000 && told > 50 && passed > 5);
    });
}
