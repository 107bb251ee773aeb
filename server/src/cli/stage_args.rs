//! Flags of the local stage: its switches, and its bounds (shown by `--help`, not by `-h`).
//! Never a bound without a default.

use std::time::Duration;

use clap::Args;

use super::args::duration;
use tidegate::admission::LocalStage;
use tidegate::model::Micros;

/// What is decided before the shared store is asked.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Local stage (with --redis)")]
pub(super) struct StageArgs {
    /// Ask the store about each check, also when it has just denied the same
    #[arg(long, env = "TIDEGATE_NO_DENIAL_CACHE")]
    no_denial_cache: bool,

    /// Let floods through to the store that no conforming client could send
    #[arg(long, env = "TIDEGATE_NO_NODE_CEILING")]
    no_node_ceiling: bool,

    /// Send a call a check, also when many checks of one subject arrive together
    #[arg(long, env = "TIDEGATE_NO_LANES")]
    no_lanes: bool,

    /// Charge nothing ahead, whatever the policies say
    #[arg(long, env = "TIDEGATE_NO_LEASES")]
    no_leases: bool,

    /// How many nodes share the ceilings in an outage, at least (on_outage: local); as many as
    /// were alive when the store last told
    #[arg(long, value_name = "N", env = "TIDEGATE_NODES",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nodes: Option<u32>,

    /// Subjects whose state is held, about 700 bytes each [default: 100000]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_SUBJECTS_HELD_MAX",
        hide_short_help = true
    )]
    subjects_held_max: Option<u64>,

    /// How long an unused subject's state is held [default: 10min]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_SUBJECT_IDLE_MAX", hide_short_help = true,
          value_parser = duration)]
    subject_idle_max: Option<Duration>,

    /// Regions of one subject whose state is held [default: 64]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_REGIONS_PER_SUBJECT_MAX",
        hide_short_help = true
    )]
    regions_per_subject_max: Option<usize>,

    /// How long a denial is believed without asking again [default: 5s]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_DENIAL_TRUST_MAX", hide_short_help = true,
          value_parser = duration)]
    denial_trust_max: Option<Duration>,

    /// The same for a denial that left room for a smaller cost [default: 100ms]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_DENIAL_MOVING_TRUST_MAX",
          hide_short_help = true, value_parser = duration)]
    denial_moving_trust_max: Option<Duration>,

    /// Different costs whose denial is remembered for each ceiling [default: 8]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_DENIAL_COSTS_MAX",
        hide_short_help = true
    )]
    denial_costs_max: Option<usize>,

    /// Checks of one subject and policy that may wait for a call [default: 4096]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_LANE_WAITING_MAX",
        hide_short_help = true
    )]
    lane_waiting_max: Option<usize>,

    /// Checks that may wait for a call in all [default: 65536]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_WAITING_MAX",
        hide_short_help = true
    )]
    waiting_max: Option<usize>,

    /// Checks that ride in one call [default: 256]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_BATCH_LEN_MAX",
        hide_short_help = true
    )]
    batch_len_max: Option<usize>,

    /// How long a check waits for the call before its own to end [default: 1ms]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_BATCH_WAIT_MAX", hide_short_help = true,
          value_parser = duration)]
    batch_wait_max: Option<Duration>,

    /// Calls of one subject and policy that are out at once [default: 128]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_LANE_CALLS_MAX",
        hide_short_help = true
    )]
    lane_calls_max: Option<usize>,

    /// Failed calls in a row after which a shard is left alone [default: 5]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_BREAKER_FAILURES_MAX",
        hide_short_help = true
    )]
    breaker_failures_max: Option<u32>,

    /// How long a shard is left alone before one call tries it again [default: 100ms]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_BREAKER_COOL_DOWN", hide_short_help = true,
          value_parser = duration)]
    breaker_cool_down: Option<Duration>,

    /// The longest such time: each failed try doubles it up to here [default: 200ms]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_BREAKER_COOL_DOWN_MAX",
          hide_short_help = true, value_parser = duration)]
    breaker_cool_down_max: Option<Duration>,
}

impl StageArgs {
    /// The stage's options; whether they are within their bounds, the limiter's builder says.
    pub fn options(self) -> LocalStage {
        let mut stage = LocalStage::off();
        stage.denial_cache = !self.no_denial_cache;
        stage.node_ceiling = !self.no_node_ceiling;
        stage.lanes = !self.no_lanes;
        stage.leases = !self.no_leases;
        set(&mut stage.subjects_max, self.subjects_held_max);
        set(&mut stage.subject_idle_max, self.subject_idle_max);
        set(
            &mut stage.regions_per_subject_max,
            self.regions_per_subject_max,
        );
        set_time(&mut stage.denial_trust_max, self.denial_trust_max);
        set_time(
            &mut stage.denial_moving_trust_max,
            self.denial_moving_trust_max,
        );
        set(&mut stage.denial_costs_max, self.denial_costs_max);
        set(&mut stage.lane_waiting_max, self.lane_waiting_max);
        set(&mut stage.waiting_max, self.waiting_max);
        set(&mut stage.batch_len_max, self.batch_len_max);
        set(&mut stage.batch_wait_max, self.batch_wait_max);
        set(&mut stage.lane_calls_max, self.lane_calls_max);
        let breaker = &mut stage.breaker;
        set(&mut breaker.failures_max, self.breaker_failures_max);
        set_time(&mut breaker.cool_down, self.breaker_cool_down);
        set_time(&mut breaker.cool_down_max, self.breaker_cool_down_max);
        stage
    }

    /// How many nodes share the store, at least.
    pub fn nodes(self) -> u32 {
        self.nodes.unwrap_or(1)
    }
}

fn set<T>(bound: &mut T, flag: Option<T>) {
    if let Some(given) = flag {
        *bound = given;
    }
}

fn set_time(bound: &mut Micros, flag: Option<Duration>) {
    set(bound, flag.map(Micros::from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_flags_every_bound_is_the_stages_own() {
        assert_eq!(StageArgs::default().options(), LocalStage::default());
    }

    #[test]
    fn the_defaults_that_the_help_tells_are_those_in_force() {
        let command = StageArgs::augment_args(clap::Command::new("x"));
        let told = |name: &str| {
            let flag = command.get_arguments().find(|arg| arg.get_id() == name);
            let help = flag
                .and_then(|arg| arg.get_help())
                .map(|help| help.to_string());
            let help = help.unwrap_or_else(|| panic!("{name}"));
            let (_, default) = help
                .split_once("[default: ")
                .unwrap_or_else(|| panic!("{help}"));
            default.trim_end_matches(']').to_owned()
        };
        let stage = LocalStage::default();
        let breaker = &stage.breaker;
        for (name, value) in [
            ("subjects_held_max", stage.subjects_max),
            (
                "regions_per_subject_max",
                stage.regions_per_subject_max as u64,
            ),
            ("denial_costs_max", stage.denial_costs_max as u64),
            ("lane_waiting_max", stage.lane_waiting_max as u64),
            ("waiting_max", stage.waiting_max as u64),
            ("batch_len_max", stage.batch_len_max as u64),
            ("lane_calls_max", stage.lane_calls_max as u64),
            ("breaker_failures_max", breaker.failures_max.into()),
        ] {
            assert_eq!(told(name), value.to_string(), "{name}");
        }
        for (name, value) in [
            ("subject_idle_max", Micros::from(stage.subject_idle_max)),
            ("denial_trust_max", stage.denial_trust_max),
            ("denial_moving_trust_max", stage.denial_moving_trust_max),
            ("batch_wait_max", Micros::from(stage.batch_wait_max)),
            ("breaker_cool_down", breaker.cool_down),
            ("breaker_cool_down_max", breaker.cool_down_max),
        ] {
            assert_eq!(duration(&told(name)), Ok(Duration::from(value)), "{name}");
        }
    }
}
