//! What every store does alike: one list of scenarios, run on each.
//!
//! Scenarios that carry a project's name and number are the rows of public reports on what goes
//! wrong with rate limiters, restated on our stores.

#[path = "../common/mod.rs"]
mod common;

mod boundary;
mod changes;
mod clock;
mod concurrency;
mod exact;
mod field_costs;
mod field_keys;
mod field_waits;
mod field_windows;
mod ids;
mod leases;
mod vectors;

mod bounds;
mod keys;

macro_rules! scenarios {
    ($store:ident: $($module:ident { $($name:ident)* })*) => {
        mod $store {
            $(mod $module {
                use crate::common::stores::{Fixture, $store};

                $(#[test]
                fn $name() {
                    $store::run(crate::$module::$name)
                })*
            })*
        }
    };
}

macro_rules! store_contract {
    ($store:ident) => {
        scenarios! { $store:
            vectors {
                sliding_log
                sliding_counter
                fixed_window
                token_bucket
                leaky_bucket
                several_ceilings
            }
            boundary {
                sliding_log_keeps_to_the_limit_across_a_boundary
                sliding_counter_keeps_to_the_limit_across_a_boundary
                fixed_window_admits_twice_the_limit_across_a_boundary
                token_bucket_keeps_to_burst_and_rate_across_a_boundary
                leaky_bucket_keeps_to_burst_and_rate_across_a_boundary
            }
            exact {
                a_wait_is_exact_for_every_algorithm_and_mix_of_ceilings
                a_large_request_waits_exactly_in_a_log_of_thousands
                waits_are_exact_where_products_exceed_a_double
            }
            ids {
                an_id_charges_once_however_often_it_is_sent
                a_denied_id_left_no_trace_and_is_decided_anew
                an_id_charges_once_within_a_batch_and_across_regions
                a_charge_is_given_back_whole_or_in_part_in_every_ceiling
                a_refund_of_what_is_unknown_or_gone_is_not_found
                a_charge_given_back_whole_may_be_charged_anew
                a_bucket_gives_back_what_has_not_drained
                a_reset_forgets_the_region_and_the_global_ceiling
                a_resent_id_of_our_own_charges_once_where_a_log_has_it
            }
            leases {
                a_lease_counts_from_now_until_a_window_after_its_end
                a_lease_is_handed_back_in_part
            }
            changes {
                gubernator_37_a_lowered_limit_is_reported_from_the_next_call
                limitador_522_a_lowered_or_raised_limit_never_underflows
                a_changed_window_keeps_what_was_used
                limitador_312_a_ceiling_keeps_its_counters_when_its_values_change
                an_algorithm_that_changes_starts_anew_and_comes_to_no_harm
                a_denial_at_the_instant_of_an_empty_bucket_leaves_it_as_it_was
            }
            clock {
                go_limiter_41_a_step_back_locks_nobody_out_for_more_than_a_window
                a_step_back_admits_nothing_more
                a_step_back_by_a_microsecond_changes_nothing
                calls_that_overtake_each_other_date_nothing_back
                bucket4j_51_twelve_idle_hours_make_one_full_budget
                traefik_8235_the_longest_window_is_kept
                aspnetcore_redis_pr68_windows_below_a_second_are_kept_to_the_microsecond
                time_may_begin_at_zero
            }
            concurrency {
                throttler_1303_of_a_thousand_at_once_exactly_the_limit_is_admitted
                many_tasks_share_one_limit_exactly
                regions_at_once_keep_to_the_global_ceiling
            }
            field_windows {
                redisson_2931_a_full_budget_does_not_pass_twice_across_a_boundary
                ratelimit_js_39_a_first_request_is_admitted
                ratelimit_js_pr157_every_path_agrees_on_the_last_of_ten
                gubernator_118_a_steady_drip_leaks_steadily
                sockudo_251_ten_thousand_in_one_instant_count_as_ten_thousand
                stoplight_899_an_id_that_comes_again_after_its_window_is_counted_again
                kong_pr11859_what_is_sent_twice_counts_once
                node_ratelimiter_43_denials_do_not_count
                fastify_pr322_denied_or_admitted_hits_do_not_keep_a_window_open
                relay_4787_a_denial_uses_up_no_ceiling
                governor_167_a_denial_by_the_global_ceiling_uses_no_region
            }
            field_waits {
                limits_200_the_oldest_entry_frees_first
                redis_cell_56_a_wait_is_never_rounded_down
                flask_limiter_62_a_wait_is_between_a_microsecond_and_the_window
                caddy_ratelimit_22_a_wait_is_the_true_wait
                gubernator_pr110_the_reset_counts_the_whole_backlog
                bucket4j_88_a_wait_counts_what_has_refilled_already
                python_redis_cache_45_microseconds_sort_as_numbers
                inngest_pr3290_instants_of_sixteen_digits_stay_apart
            }
            field_costs {
                ratelimit_js_111_a_cost_of_nothing_changes_nothing
                redis_gcra_6_a_refused_cost_consumes_nothing
                limits_pr169_any_cost_up_to_the_limit_is_one_charge
                limits_pr362_an_absurd_cost_changes_nothing
                express_pr380_a_limit_of_zero_denies_all
                backend_ai_14210_denials_leave_no_trace
                limits_268_a_check_in_a_long_log_costs_no_more
            }
            field_keys {
                traefik_pr11753_two_policies_never_share_a_counter
                subjects_that_look_like_key_syntax_never_meet
                subjects_and_regions_never_run_into_each_other
            }
        }
    };
}

store_contract!(memory);
store_contract!(cluster);
