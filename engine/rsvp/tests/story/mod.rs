//! Stories: engines in a small network in virtual time, one test for each thing that a person would want to be sure of.
//!
//! The soft-state faults of the project's catalogue, and where each is told:
//!
//! | fault | story |
//! |---|---|
//! | S1 Resv without Path, S2 without sender | `wrong::answers_to_a_resv` |
//! | S3 route change between refreshes | `repair::the_reservation_follows_a_changed_route` |
//! | S4 new previous hop, two that alternate | `repair::a_new_previous_hop_is_asked_at_once`, `repair::previous_hops_that_take_turns_are_damped`, `repair::a_dying_branch_takes_nothing_with_it` |
//! | S5 worst jitter and loss | `loss::two_losses_in_a_row_never_end_a_reservation`, `worst_legal` |
//! | S6, S7 periods that grow, shrink, differ | `soft_state::lifetimes_follow_the_senders_refresh_period`, `worst_legal::a_changed_period_counts_from_its_message` |
//! | S8 synchronised timers | `soft_state::refreshes_of_many_sessions_spread` |
//! | S9 tears lost, overtaken | `loss::lost_tears_leave_it_to_the_lifetime`, `loss::an_overtaken_tear_is_healed_by_the_refresh`; with MESSAGE_ID `refresh_reduction::overtaken_messages_are_ignored` |
//! | S10 tear of a stranger | `wrong::messages_of_strangers_change_nothing` |
//! | S11 error loop | `wrong::errors_do_not_multiply`, `wrong::an_error_never_goes_back_where_it_came_from` |
//! | S12 killer reservations | `blockade` |
//! | S13 merge of many receivers | `multicast::a_thousand_next_hops_merge_and_leave` |
//! | S14 Path loop | `wrong::messages_of_strangers_change_nothing` |
//! | S15 cloud that reorders and doubles | `loss::after_any_disorder_all_agree_with_the_last_word` |
//! | S16 TTL 1 | `wrong::a_path_with_ttl_one_stays_here` |
//! | S17 interface down and up, MTU | `repair::an_interface_that_goes_takes_its_reservations`, `repair::a_smaller_mtu_is_advertised` |
//! | S18 interface number used again | `repair::an_interface_number_that_is_used_again` |
//! | S19 confirmation of what failed later | `wrong::a_confirmation_that_nobody_waits_for_is_ignored` |
//! | S20 increase refused | `modify::a_refused_increase_leaves_the_old_reservation_everywhere`, `styles::a_refused_increase_of_a_shared_reservation_changes_nothing` |
//!
//! Of the faults of messages, P24 to P28 and P31, P32 are the codec's (`engine/wire/tests/codec`); here are
//!
//! | fault | story |
//! |---|---|
//! | P29 two styles | `styles::styles_do_not_mix` |
//! | P30 ports that do not mix | `wrong::answers_to_a_path`, `wrong::sessions_with_and_without_ports_do_not_mix` |
//! | P41 errors of all kinds | `wrong::whatever_an_error_says` and its neighbours, `blockade` |
//! | P42 odd scopes | `scope::odd_scopes` |
//! | P43 POLICY_DATA | `policy::merged_requests_take_the_highest_priority` |

mod blockade;
mod chaos;
mod clauses;
mod clauses_neighbours;
mod clauses_summaries;
mod faults;
mod first_contact;
mod hello;
mod hostile;
mod integrity;
mod loss;
mod many;
mod merging;
mod modify;
mod multicast;
mod net;
mod peers;
mod policy;
mod refresh_reduction;
mod refusal;
mod repair;
mod restart;
mod scope;
mod set_up;
mod soft_state;
mod styles;
mod words;
mod worst_legal;
mod wrong;
